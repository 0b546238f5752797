// Operators whose functions are JavaScript: pieces of reductions go out as ArrayBuffers, and results come back.
#include <napi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "addon/arguments.h"
#include "addon/exports.h"

namespace nbc::addon {
namespace {

// A copy. An external ArrayBuffer would save it, but functions could not transfer it, and its memory would be freed on
// the event loop only, which has no turn inside wait() and in workers that serve. The copy takes some microseconds.
Napi::ArrayBuffer buffer_of(Napi::Env env, const std::vector<std::byte>& bytes) {
  auto buffer = Napi::ArrayBuffer::New(env, bytes.size());
  std::memcpy(buffer.Data(), bytes.data(), bytes.size());
  return buffer;
}

Napi::Value object_of(Napi::Env env, const UserPiece& piece) {
  const auto object = Napi::Object::New(env);
  object.Set("ticket", Napi::Number::New(env, static_cast<double>(piece.ticket)));
  object.Set("slot", Napi::Number::New(env, piece.slot));
  object.Set("operator", Napi::Number::New(env, piece.op));
  object.Set("type", Napi::Number::New(env, static_cast<uint32_t>(piece.type)));
  object.Set("a", buffer_of(env, piece.a));
  object.Set("b", buffer_of(env, piece.b));
  return object;
}

// The functions of a world that may be another thread's; null: it is not open any more.
std::shared_ptr<UserWork> work_of(const Napi::CallbackInfo& info) {
  return UserWork::of_world(number(info.Env(), info[0], "world"));
}

// takeReduction()
Napi::Value take_reduction(const Napi::CallbackInfo& info) {
  UserPiece piece;
  if (!require_open(info.Env()).engine().user_work().take(piece)) return info.Env().Null();
  return object_of(info.Env(), piece);
}

std::vector<pid_t> threads_of_process() {
  std::vector<pid_t> threads;
  std::error_code error;  // without /proc there are none
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error))
    threads.push_back(static_cast<pid_t>(std::atoi(entry.path().filename().c_str())));
  return threads;
}

// listThreads()
Napi::Value list_threads(const Napi::CallbackInfo& info) {
  const std::vector<pid_t> threads = threads_of_process();
  auto list = Napi::Int32Array::New(info.Env(), threads.size());
  std::copy(threads.begin(), threads.end(), list.Data());
  return list;
}

// awaitThread(world, operator, before)
Napi::Value await_thread(const Napi::CallbackInfo& info) {
  const auto work = work_of(info);
  const uint32_t op = number(info.Env(), info[1], "operator");
  const auto before = info[2].As<Napi::Int32Array>();
  const int32_t* const end = before.Data() + before.ElementLength();
  std::vector<pid_t> threads = threads_of_process();
  const auto is_old = [&](pid_t thread) { return std::find<const int32_t*>(before.Data(), end, thread) != end; };
  threads.erase(std::remove_if(threads.begin(), threads.end(), is_old), threads.end());
  if (work != nullptr) work->await_thread(op, std::move(threads));
  return info.Env().Undefined();
}

// What a thread has when it ends: its function has ended with it.
struct Server {
  uint32_t world;
  uint32_t op;
};

void at_thread_end(void* data) {
  const std::unique_ptr<Server> server(static_cast<Server*>(data));
  if (const auto work = UserWork::of_world(server->world))
    work->fail(server->op, "the worker of the operator has ended: it was out of memory, or terminated");
}

// serveOperator(world, operator)
Napi::Value serve_operator(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto server = std::make_unique<Server>();
  server->world = number(env, info[0], "world");
  const uint32_t op = server->op = number(env, info[1], "operator");
  napi_add_env_cleanup_hook(env, at_thread_end, server.release());
  if (const auto work = work_of(info)) work->serves(op);
  return env.Undefined();
}

// awaitReduction(world, operator)
Napi::Value await_reduction(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto work = work_of(info);
  const uint32_t op = number(env, info[1], "operator");
  if (work == nullptr) return env.Null();
  UserPiece piece;
  for (;;) {
    switch (work->take_of(op, kEndingNanoseconds, piece)) {
      case UserWork::Taken::piece:
        return object_of(env, piece);
      case UserWork::Taken::closed:
        return env.Null();
      case UserWork::Taken::none:
        if (is_ending(env)) return {};
    }
  }
}

void detach(Napi::Env env, const Napi::Value& value) {
  if (value.IsArrayBuffer()) napi_detach_arraybuffer(env, value);
}

// endReduction(world, operator, ticket, a, b, reason?)
Napi::Value end_reduction(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto work = work_of(info);
  UserPiece result;
  result.op = number(env, info[1], "operator");
  result.ticket = byte_count(env, info[2], "ticket");
  if (info[5].IsString()) {
    result.failed = true;
    result.reason = info[5].As<Napi::String>().Utf8Value();
  } else if (info[4].IsArrayBuffer()) {
    auto buffer = info[4].As<Napi::ArrayBuffer>();
    const auto* bytes = static_cast<const std::byte*>(buffer.Data());
    result.b.assign(bytes, bytes + buffer.ByteLength());
  }
  detach(env, info[3]);
  detach(env, info[4]);
  if (work == nullptr) return env.Undefined();
  World* own = World::of(env);
  const bool drives = own != nullptr && own->is_open();
  work->give_back(std::move(result), !drives);
  if (drives) own->engine().test();
  return env.Undefined();
}

// failOperator(world, operator, reason)
Napi::Value fail_operator(const Napi::CallbackInfo& info) {
  const auto work = work_of(info);
  const uint32_t op = number(info.Env(), info[1], "operator");
  if (work != nullptr) work->fail(op, info[2].ToString().Utf8Value());
  return info.Env().Undefined();
}

// dismissOperators()
Napi::Value dismiss_operators(const Napi::CallbackInfo& info) {
  World* world = World::of(info.Env());
  if (world != nullptr && world->is_open()) world->engine().user_work().close();
  return info.Env().Undefined();
}

}  // namespace

void export_operators(Napi::Env env, Napi::Object exports) {
  exports.Set("takeReduction", Napi::Function::New(env, take_reduction));
  exports.Set("listThreads", Napi::Function::New(env, list_threads));
  exports.Set("awaitThread", Napi::Function::New(env, await_thread));
  exports.Set("serveOperator", Napi::Function::New(env, serve_operator));
  exports.Set("awaitReduction", Napi::Function::New(env, await_reduction));
  exports.Set("endReduction", Napi::Function::New(env, end_reduction));
  exports.Set("failOperator", Napi::Function::New(env, fail_operator));
  exports.Set("dismissOperators", Napi::Function::New(env, dismiss_operators));
}

}  // namespace nbc::addon
