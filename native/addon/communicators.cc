// Communicators, and the plans that are compiled for them.
#include <napi.h>

#include <cstring>
#include <memory>

#include "addon/arguments.h"
#include "addon/exports.h"

namespace nbc::addon {
namespace {

// A Uint32Array, or throws. Its memory is there as long as no JavaScript runs.
Pinned words_of(Napi::Env env, const Napi::Value& value, const char* name) {
  Pinned words;
  if (!value.IsTypedArray() || look_at(env, value, words) != PinResult::ok ||
      reinterpret_cast<uintptr_t>(words.data) % alignof(uint32_t) != 0)
    throw bad_argument(name, Reason::not_a_list).error(env);
  return words;
}

Napi::Value create_communicator(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  const Fabric& fabric = world.engine().fabric();
  const Pinned members = words_of(env, info[0], "members");
  auto group = std::make_shared<Group>();
  group->members.resize(members.bytes / sizeof(uint32_t));
  if (!group->members.empty())
    std::memcpy(group->members.data(), members.data, group->members.size() * sizeof(uint32_t));
  for (const Rank member : group->members) {
    if (member >= fabric.size()) throw bad_argument("members", Reason::not_a_member).error(env);
  }
  group->rank = number(env, info[1], "rank");
  if (group->rank >= group->members.size() || group->members[group->rank] != fabric.rank())
    throw bad_argument("rank", Reason::not_this_process).error(env);
  group->context =
      static_cast<uint64_t>(number(env, info[2], "contextHigh")) << 32 | number(env, info[3], "contextLow");
  world.engine().know_from_now(group);
  return Napi::Number::New(env, world.add_group(std::move(group)));
}

Napi::Value free_communicator(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  const uint32_t handle = number(env, info[0], "communicator");
  RequestFailure failure;
  if (const auto group = world.group(handle)) failure = world.engine().last_look(group.get());
  world.free_group(handle);
  return failure_of(env, failure);
}

Napi::Value revoke_communicator(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  const auto group = world.group(number(env, info[0], "communicator"));
  if (group == nullptr) throw bad_argument("communicator", Reason::not_a_communicator).error(env);
  world.engine().revoke(*group);
  return env.Undefined();
}

Napi::Value compile(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  const auto group = world.group(number(env, info[0], "communicator"));
  if (group == nullptr) throw bad_argument("communicator", Reason::not_a_communicator).error(env);
  const Pinned words = words_of(env, info[1], "words");
  try {
    auto plan = std::make_shared<LoadedPlan>();
    plan->messages = info[2].ToBoolean();
    const bool sized = !is_nothing(env, info[7]);
    if (!is_nothing(env, info[6]))
      plan->is_for(number(env, info[6], "signature"),
                   sized ? static_cast<uint64_t>(info[7].ToNumber().Int64Value()) : Mismatch::kUnknownBytes);
    if (!is_nothing(env, info[3])) plan->op = {number(env, info[3], "operator"), info[4].ToBoolean()};
    plan->plan = compile_schedule(reinterpret_cast<const uint32_t*>(words.data), words.bytes / sizeof(uint32_t),
                                  group->members, group->rank, plan->messages, plan->op.number != 0);
    plan->group = group;
    if (!is_nothing(env, info[5])) plan->name = info[5].ToString().Utf8Value();
    return Napi::Number::New(env, world.add_plan({std::move(plan), false, {}}));
  } catch (const ScheduleError& error) {
    throw Refusal("ERR_NBC_SCHEDULE")
        .with("word", static_cast<double>(error.word))
        .with("detail", error.reason)
        .error(env);
  }
}

Napi::Value release_plan(const Napi::CallbackInfo& info) {
  require_open(info.Env()).free_plan(number(info.Env(), info[0], "plan"));
  return info.Env().Undefined();
}

}  // namespace

void export_communicators(Napi::Env env, Napi::Object exports) {
  exports.Set("createCommunicator", Napi::Function::New(env, create_communicator));
  exports.Set("freeCommunicator", Napi::Function::New(env, free_communicator));
  exports.Set("revokeCommunicator", Napi::Function::New(env, revoke_communicator));
  exports.Set("compile", Napi::Function::New(env, compile));
  exports.Set("releasePlan", Napi::Function::New(env, release_plan));
}

}  // namespace nbc::addon
