// The native surface by subject: each function adds its part. src/native.ts documents all of it.
#pragma once
#include <napi.h>

namespace nbc::addon {

void export_job(Napi::Env env, Napi::Object exports);            // job.cc: the shared file of a job
void export_networks(Napi::Env env, Napi::Object exports);       // networks.cc: who reaches whom by verbs
void export_opening(Napi::Env env, Napi::Object exports);        // opening.cc: open and close
void export_requests(Napi::Env env, Napi::Object exports);       // requests.cc: start, test, wait
void export_operators(Napi::Env env, Napi::Object exports);      // operators.cc: functions of createOp
void export_communicators(Napi::Env env, Napi::Object exports);  // communicators.cc: communicators and their plans
void export_memory(Napi::Env env, Napi::Object exports);         // memory.cc: alloc
void export_reports(Napi::Env env, Napi::Object exports);        // reports.cc: failures, counters, names
void export_pmix(Napi::Env env, Napi::Object exports);           // pmix.cc: the PMIx client

}  // namespace nbc::addon
