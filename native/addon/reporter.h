// A rank that hangs cannot say so from JavaScript. A thread of its own does:
//
// - to nbcrun, which asks by a byte in the socket that NBC_REPORT_FD names, and gets a line of JSON for each;
// - at the signal whose number NBC_REPORT_SIGNAL has, on standard error (for tests);
// - by itself, where an operation makes no step for as long as the option `watchdog` says: to nbcrun, or else on
//   standard error;
// - to nbctop, over the socket of the option `monitor` (addon/monitor.h).
//
// Without any of these there is no such thread.
#pragma once
#include "addon/opening.h"
#include "engine/engine.h"

namespace nbc::addon::reporter {

// The engine is reported from now on. A process has several where its threads are ranks.
void report(Engine& engine, const Opening& opening);
// Before an engine goes.
void forget(const Engine& engine);
// Before the process ends.
void forget_all();

}  // namespace nbc::addon::reporter
