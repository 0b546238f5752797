// What native code says about itself: failures of requests, counters, and the names that it shares with TypeScript.
#include <napi.h>

#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "addon/arguments.h"
#include "addon/exports.h"
#include "addon/opening.h"
#include "addon/options.h"

namespace nbc::addon {
namespace {

uint32_t slot_of(const Napi::CallbackInfo& info) {
  const uint32_t slot = number(info.Env(), info[0], "slot");
  if (slot >= kSlots) throw bad_argument("slot", Reason::not_in_range).error(info.Env());
  return slot;
}

Napi::Value explain(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  const uint32_t slot = slot_of(info);
  const auto object = Napi::Object::New(env);
  failed_request(world.engine().failure(slot)).describe(env, object);
  return object;
}

Napi::Value awaited(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  const uint32_t slot = slot_of(info);
  const Awaited found = world.engine().awaited(slot);
  const auto object = Napi::Object::New(env);
  object.Set("round", found.round);
  object.Set("rounds", found.rounds);
  object.Set("function", found.function);
  const auto peers = Napi::Array::New(env);
  for (const Rank peer : found.peers) peers.Set(peers.Length(), peer);
  object.Set("peers", peers);
  return object;
}

Napi::Value stats(const Napi::CallbackInfo& info) {
  Napi::Object object = Napi::Object::New(info.Env());
  require_open(info.Env()).engine().visit_counters([&](Counter counter, double value) {
    object.Set(name_of(counter), value);
  });
  return object;
}

const char* name_of(Network network) {
  switch (network) {
    case Network::shm:
      return "shm";
    case Network::tcp:
      return "tcp";
    case Network::verbs:
      return "verbs";
    case Network::ucx:
      return "ucx";
    case Network::unknown:
      break;
  }
  return "unknown";
}

// By rank of the world.
Napi::Value networks(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto names = Napi::Array::New(env);
  for (const Network network : require_open(env).engine().networks()) names.Set(names.Length(), name_of(network));
  return names;
}

Napi::Value metered(const Napi::CallbackInfo& info) {
  const Metered found = require_open(info.Env()).engine().metered();
  const auto object = Napi::Object::New(info.Env());
  object.Set("time", found.time / 1000);
  object.Set("waited", found.waited / 1000);
  return object;
}

Napi::Value events_of(Napi::Env env, const std::vector<Trace::Event>& events) {
  auto numbers = Napi::Float64Array::New(env, events.size() * (sizeof(Trace::Event) / sizeof(double)));
  if (!events.empty()) std::memcpy(numbers.Data(), events.data(), events.size() * sizeof(Trace::Event));
  return numbers;
}

template <typename Names>
Napi::Array list_of(Napi::Env env, const Names& names) {
  const auto list = Napi::Array::New(env);
  for (const auto& name : names) list.Set(list.Length(), Napi::String::New(env, std::string(name)));
  return list;
}

// Tests compare these with the tables in TypeScript.
Napi::Value names(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  OptionNames options;
  Opening().read_options(options);
  std::vector<std::string_view> reasons;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Reason::count); ++i)
    reasons.push_back(name_of(static_cast<Reason>(i)));
  std::vector<std::string_view> errors;
  for (uint32_t i = static_cast<uint32_t>(Error::truncated); i <= kLastError; ++i)
    errors.emplace_back(code_of(static_cast<Error>(i)));
  const auto object = Napi::Object::New(env);
  object.Set("counters", list_of(env, kCounterNames));
  object.Set("options", list_of(env, options.names));
  object.Set("reasons", list_of(env, reasons));
  object.Set("errors", list_of(env, errors));
  return object;
}

Napi::Value trace(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Trace::Lists lists;
  try {
    // First, because JavaScript may collect garbage, and do anything, while objects are made.
    lists = require_open(env).engine().read_trace();
  } catch (const std::bad_alloc&) {
    throw Napi::Error::New(env, "there is no memory for a copy of the trace");
  }
  auto object = Napi::Object::New(env);
  object.Set("calls", events_of(env, lists.calls));
  object.Set("events", events_of(env, lists.events));
  object.Set("names", list_of(env, lists.names));
  object.Set("leftOut", static_cast<double>(lists.left_out));
  return object;
}

}  // namespace

void export_reports(Napi::Env env, Napi::Object exports) {
  exports.Set("explain", Napi::Function::New(env, explain));
  exports.Set("awaited", Napi::Function::New(env, awaited));
  exports.Set("trace", Napi::Function::New(env, trace));
  exports.Set("stats", Napi::Function::New(env, stats));
  exports.Set("networks", Napi::Function::New(env, networks));
  exports.Set("metered", Napi::Function::New(env, metered));
  exports.Set("names", Napi::Function::New(env, names));
}

}  // namespace nbc::addon
