// The N-API surface and nothing else; src/native.ts documents every function. Functions on the hot path use the C
// interface, which costs a third of the C++ wrappers; everything else uses node-addon-api.
#include <napi.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unistd.h>

#include "addon/buffer_pin.h"
#include "addon/pmix.h"
#include "addon/world.h"
#include "job/segment.h"
#include "fabric/tcp/socket.h"

namespace nbc::addon {
namespace {

napi_value undefined(napi_env env) {
  napi_value value;
  napi_get_undefined(env, &value);
  return value;
}

napi_value refuse(napi_env env, const char* code, const std::string& message) {
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (!pending) napi_throw_error(env, code, message.c_str());
  return nullptr;
}

napi_value refuse_argument(napi_env env, const char* name, const char* why) {
  return refuse(env, "ERR_NBC_ARGUMENT", std::string(name) + ": " + why);
}

World* world_of(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return static_cast<World*>(data);
}

World* open_world(napi_env env) {
  World* world = world_of(env);
  if (world != nullptr && world->is_open()) return world;
  refuse(env, "ERR_NBC_NOT_OPEN", "there is no open world: call init() first, and not after close()");
  return nullptr;
}

// A number that is a whole uint32; nothing is rounded or wrapped.
bool get_uint32(napi_env env, napi_value value, uint32_t& out) {
  double number;
  if (napi_get_value_double(env, value, &number) != napi_ok) return false;
  if (!(number >= 0 && number <= std::numeric_limits<uint32_t>::max()) || number != std::floor(number)) return false;
  out = static_cast<uint32_t>(number);
  return true;
}

template <size_t N>
bool get_arguments(napi_env env, napi_callback_info info, napi_value (&arguments)[N]) {
  size_t count = N;
  return napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) == napi_ok;
}

bool get_slot(napi_env env, napi_value value, uint32_t& slot) { return get_uint32(env, value, slot) && slot < kSlots; }

bool is_nothing(napi_env env, napi_value value) {
  napi_valuetype type;
  return napi_typeof(env, value, &type) == napi_ok && (type == napi_null || type == napi_undefined);
}

// Pins a view, or throws. `least`: bytes it must hold.
bool get_buffer(napi_env env, napi_value value, const char* name, uint64_t least, Pinned& out) {
  switch (pin(value, out)) {
    case PinResult::ok:
      break;
    case PinResult::not_a_view:
      refuse_argument(env, name, "must be a typed array, a DataView or a Buffer");
      return false;
    case PinResult::detached:
      refuse_argument(env, name, "its ArrayBuffer is detached");
      return false;
    case PinResult::resizable:
      refuse_argument(env, name, "resizable buffers are not supported: their memory can go away");
      return false;
  }
  if (out.bytes < least) {
    refuse_argument(
        env, name,
        ("holds " + std::to_string(out.bytes) + " bytes, the schedule needs " + std::to_string(least)).c_str());
    return false;
  }
  return true;
}

napi_value boolean(napi_env env, bool value) {
  napi_value result;
  napi_get_boolean(env, value, &result);
  return result;
}

// --- the hot path ----------------------------------------------------------------------------------------------------

napi_value start(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  World* world = open_world(env);
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  uint32_t handle;
  uint32_t slot;
  const std::shared_ptr<LoadedPlan>* plan = get_uint32(env, arguments[0], handle) ? world->plan(handle) : nullptr;
  if (plan == nullptr) return refuse_argument(env, "plan", "is not a plan of this world");
  if (!get_slot(env, arguments[1], slot)) return refuse_argument(env, "slot", "is out of range");
  const uint64_t* bytes = (*plan)->plan.role_bytes;
  Pinned buffers[2];
  for (uint32_t role = 0; role < 2; ++role) {
    const char* name = role == 0 ? "send" : "recv";
    if (bytes[role] == 0 && is_nothing(env, arguments[2 + role])) continue;
    if (!get_buffer(env, arguments[2 + role], name, bytes[role], buffers[role])) return nullptr;
  }
  if (bytes[0] > 0 && bytes[1] > 0 && buffers[0].data < buffers[1].data + bytes[1] &&
      buffers[1].data < buffers[0].data + bytes[0])
    return refuse_argument(env, "recv", "overlaps send in memory; use IN_PLACE or two buffers");
  return boolean(env, world->engine().start(*plan, slot, std::move(buffers[0]), std::move(buffers[1])));
}

napi_value message(napi_env env, napi_callback_info info, bool sends) {
  napi_value arguments[5];
  World* world = open_world(env);
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  uint32_t handle;
  uint32_t slot;
  uint32_t peer;
  uint32_t tag;
  const std::shared_ptr<Group> group = get_uint32(env, arguments[0], handle) ? world->group(handle) : nullptr;
  if (group == nullptr) return refuse_argument(env, "communicator", "is not open");
  if (!get_slot(env, arguments[1], slot)) return refuse_argument(env, "slot", "is out of range");
  if (!get_uint32(env, arguments[3], peer) || peer >= group->members.size())
    return refuse_argument(env, "peer", "is not a rank of this communicator");
  if (!get_uint32(env, arguments[4], tag) || tag > 32767) return refuse_argument(env, "tag", "must be 0 to 32767");
  Pinned buffer;
  if (!get_buffer(env, arguments[2], "buffer", 0, buffer)) return nullptr;
  Engine& engine = world->engine();
  return boolean(env, sends ? engine.isend(*group, slot, std::move(buffer), peer, tag)
                            : engine.irecv(*group, slot, std::move(buffer), peer, tag));
}

napi_value isend(napi_env env, napi_callback_info info) { return message(env, info, true); }
napi_value irecv(napi_env env, napi_callback_info info) { return message(env, info, false); }

napi_value test(napi_env env, napi_callback_info /*info*/) {
  World* world = open_world(env);
  if (world == nullptr) return nullptr;
  world->engine().test();
  return undefined(env);
}

// Milliseconds as JavaScript has them; negative or not a number: no limit.
int64_t nanoseconds_of(napi_env env, napi_value value) {
  double milliseconds = -1;
  napi_get_value_double(env, value, &milliseconds);
  if (!(milliseconds >= 0) || milliseconds > 9e12) return -1;
  return static_cast<int64_t>(milliseconds * 1e6);
}

// A worker that is to end (its terminate(), or the process's exit) cannot be told while it is in native code, and all
// would wait for it: so it looks up now and then. True: nothing may run in this environment any more.
constexpr int64_t kLookUpNanoseconds = 100'000'000;
bool is_ending(napi_env env) {
  napi_value value = undefined(env);
  bool same;
  return napi_strict_equals(env, value, value, &same) != napi_ok;  // one of the calls that are refused then
}

napi_value wait_for(napi_env env, Engine& engine, const uint32_t* slots, size_t count, bool all, int64_t nanoseconds) {
  static const pid_t main_thread = getpid();
  if (gettid() == main_thread) return boolean(env, engine.wait(slots, count, all, nanoseconds));
  for (int64_t left = nanoseconds;;) {
    const bool last = left >= 0 && left <= kLookUpNanoseconds;
    if (engine.wait(slots, count, all, last ? left : kLookUpNanoseconds)) return boolean(env, true);
    if (is_ending(env)) return nullptr;
    if (last) return boolean(env, false);
    if (left > 0) left -= kLookUpNanoseconds;
  }
}

napi_value wait(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  World* world = open_world(env);
  uint32_t slot;
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  if (!get_slot(env, arguments[0], slot)) return refuse_argument(env, "slot", "is out of range");
  return wait_for(env, world->engine(), &slot, 1, true, nanoseconds_of(env, arguments[1]));
}

// --- several requests ------------------------------------------------------------------------------------------------

// The slots of an Int32Array; throws if one is out of range.
bool get_slots(napi_env env, napi_value value, Pinned& out, const uint32_t*& slots, size_t& count) {
  if (!get_buffer(env, value, "slots", 0, out)) return false;
  slots = reinterpret_cast<const uint32_t*>(out.data);
  count = out.bytes / sizeof(uint32_t);
  for (size_t i = 0; i < count; ++i) {
    if (slots[i] < kSlots) continue;
    refuse_argument(env, "slots", "one is out of range");
    return false;
  }
  return true;
}

napi_value wait_many(napi_env env, napi_callback_info info, bool all) {
  napi_value arguments[2];
  World* world = open_world(env);
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  Pinned pinned;
  const uint32_t* slots;
  size_t count;
  if (!get_slots(env, arguments[0], pinned, slots, count)) return nullptr;
  if (count == 0) return boolean(env, true);
  return wait_for(env, world->engine(), slots, count, all, nanoseconds_of(env, arguments[1]));
}

napi_value wait_any(napi_env env, napi_callback_info info) { return wait_many(env, info, false); }
napi_value wait_all(napi_env env, napi_callback_info info) { return wait_many(env, info, true); }

napi_value startall(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  World* world = open_world(env);
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  Pinned pinned;
  const uint32_t* slots;
  size_t count;
  uint32_t microseconds;
  if (!get_slots(env, arguments[0], pinned, slots, count)) return nullptr;
  if (!get_uint32(env, arguments[1], microseconds))
    return refuse_argument(env, "microseconds", "must be a whole number");
  world->engine().startall(slots, count, microseconds);
  return undefined(env);
}

napi_value watch(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  World* world = open_world(env);
  uint32_t slot;
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  if (!get_slot(env, arguments[0], slot)) return refuse_argument(env, "slot", "is out of range");
  world->engine().watch(slot);
  return undefined(env);
}

// --- everything else -------------------------------------------------------------------------------------------------

Napi::Error coded(Napi::Env env, const char* code, const std::string& message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", Napi::String::New(env, code));
  return error;
}

World& require_open(Napi::Env env) {
  World* world = world_of(env);
  if (world == nullptr || !world->is_open())
    throw coded(env, "ERR_NBC_NOT_OPEN", "there is no open world: call init() first, and not after close()");
  return *world;
}

uint32_t number(Napi::Env env, const Napi::Value& value, const char* name) {
  uint32_t out;
  if (!get_uint32(env, value, out))
    throw coded(env, "ERR_NBC_ARGUMENT", std::string(name) + ": must be a whole number from 0 to 2^32 - 1");
  return out;
}

Napi::Value create_job(const Napi::CallbackInfo& info) {
  const uint32_t size = number(info.Env(), info[0], "size");
  try {
    return Napi::Number::New(info.Env(), shm::Segment::create(size));
  } catch (const FabricError& error) {
    throw coded(info.Env(), "ERR_NBC_OPEN", error.message);
  }
}

// Listens at a numeric address and any free port, before the world opens: others must know where.
Napi::Value listen_tcp(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  try {
    tcp::Socket socket = tcp::listen_on(tcp::parse_address(info[0].ToString().Utf8Value(), 0));
    const auto result = Napi::Object::New(env);
    result.Set("port", Napi::Number::New(env, tcp::port_of(tcp::address_of(socket))));
    result.Set("fd", Napi::Number::New(env, socket.release()));
    return result;
  } catch (const FabricError& error) {
    throw coded(env, "ERR_NBC_TRANSPORT", error.message);
  }
}

std::vector<uint32_t> numbers(const Napi::Value& list) {
  std::vector<uint32_t> out;
  if (!list.IsArray()) return out;
  const auto array = list.As<Napi::Array>();
  for (uint32_t i = 0; i < array.Length(); ++i) out.push_back(array.Get(i).ToNumber().Uint32Value());
  return out;
}

// Ours from now on, whatever else is wrong; none where no rank is reached by TCP.
tcp::Socket listener_of(const Napi::Value& tcp) {
  if (!tcp.IsObject()) return {};
  const Napi::Value listener = tcp.As<Napi::Object>().Get("listener");
  return tcp::Socket(listener.IsNumber() ? listener.As<Napi::Number>().Int32Value() : -1);
}

// Who is where, if any rank is reached by TCP: with transport 'tcp', and with 'auto' in a job whose ranks met and are
// on several hosts.
World::Options::Tcp tcp_options(const Napi::Value& given) {
  World::Options::Tcp tcp;
  if (!given.IsObject()) return tcp;
  const auto object = given.As<Napi::Object>();
  tcp.secret = object.Get("secret").ToString().Utf8Value();
  tcp.ports = numbers(object.Get("ports"));
  tcp.hosts = numbers(object.Get("hosts"));
  tcp.processors = object.Get("processors").ToNumber().Uint32Value();
  const Napi::Value addresses = object.Get("addresses");
  if (addresses.IsArray()) {
    const auto array = addresses.As<Napi::Array>();
    for (uint32_t i = 0; i < array.Length(); ++i) tcp.addresses.push_back(array.Get(i).ToString().Utf8Value());
  }
  return tcp;
}

Napi::Value open(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsObject() || !info[1].IsFunction())
    throw coded(env, "ERR_NBC_ARGUMENT", "options: an object and a function are needed");
  const auto given = info[0].As<Napi::Object>();
  tcp::Socket listener = listener_of(given.Get("tcp"));
  const auto count = [&](const char* name) { return number(env, given.Get(name), name); };
  World::Options options{};
  options.rank = count("rank");
  options.size = count("size");
  const Napi::Value fd = given.Get("jobFd");
  options.job_fd = fd.IsNumber() ? fd.As<Napi::Number>().Int32Value() : -1;
  options.cross_memory = given.Get("crossMemory").ToString().Utf8Value() != "off";
  options.transport = given.Get("transport").ToString().Utf8Value();
  options.host = given.Get("host").ToString().Utf8Value();
  options.verbs_device = given.Get("verbsDevice").ToString().Utf8Value();
  options.verbs_port = static_cast<uint8_t>(std::min(count("verbsPort"), 255u));
  options.verbs_gid_index = given.Get("verbsGidIndex").ToNumber().Int32Value();
  // Numbers of bytes have more than 32 bits; what is none of them is nothing.
  const auto amount = [&](const char* name) {
    const double value = given.Get(name).ToNumber().DoubleValue();
    return value > 0 && value <= 9007199254740991.0 ? value : 0;
  };
  options.verbs_cache_entries = amount("verbsCacheEntries");
  options.verbs_cache_bytes = amount("verbsCacheBytes");
  options.verbs_sends = given.Get("verbsEager").ToString().Utf8Value() == "send";
  options.tcp = tcp_options(given.Get("tcp"));
  options.neighbours = numbers(given.Get("neighbours"));
  options.engine.progress_thread = given.Get("progressThread").ToBoolean();
  options.engine.wait_on_send_us = count("waitOnSend");
  options.engine.startall_us = count("startall");
  options.engine.libof.eager_limit = count("eagerLimit");
  options.engine.libof.test_on_init = given.Get("testOnInit").ToBoolean();
  if (options.engine.libof.eager_limit > libof::kLargestEagerLimit)
    throw coded(env, "ERR_NBC_ARGUMENT",
                "eagerLimit: must be at most " + std::to_string(libof::kLargestEagerLimit) + " bytes");
  World* world = world_of(env);
  world->open(options, std::move(listener), info[1]);
  // The table outlives the world for as long as JavaScript can see it.
  auto* keeper = new std::shared_ptr<SlotTable>(world->slots());
  const auto buffer = Napi::ArrayBuffer::New(
      env, (*keeper)->data(), SlotTable::bytes(),
      [](Napi::Env, void*, std::shared_ptr<SlotTable>* held) { delete held; }, keeper);
  return Napi::Int32Array::New(env, kSlots, buffer, 0);
}

Napi::Value check_none_open(const Napi::CallbackInfo& info) {
  world_of(info.Env())->check_none_open();
  return info.Env().Undefined();
}

Napi::Value close(const Napi::CallbackInfo& info) {
  world_of(info.Env())->close();
  return info.Env().Undefined();
}

Napi::Value alloc(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  double bytes = -1;
  if (napi_get_value_double(env, info[0], &bytes) != napi_ok || !(bytes >= 0) || bytes > 9007199254740991.0)
    throw coded(env, "ERR_NBC_ARGUMENT", "bytes: must be a number of bytes");
  struct Block {
    std::shared_ptr<ExposedMemory> memory;
    void* data;
    int64_t bytes;
  };
  auto memory = world.memory();
  const auto length = static_cast<size_t>(bytes);
  void* data = memory->allocate(length);
  if (data == nullptr)
    throw coded(env, "ERR_NBC_NO_MEMORY",
                "no " + std::to_string(length) + " bytes of exposed memory: " + memory->why());
  auto* block = new Block{std::move(memory), data, static_cast<int64_t>(length)};
  Napi::MemoryManagement::AdjustExternalMemory(env, block->bytes);
  return Napi::ArrayBuffer::New(
      env, data, length,
      [](Napi::Env environment, void*, Block* held) {
        held->memory->release(held->data);
        Napi::MemoryManagement::AdjustExternalMemory(environment, -held->bytes);
        delete held;
      },
      block);
}

Napi::Value create_communicator(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  Pinned members;
  if (!info[0].IsTypedArray() || pin(info[0], members) != PinResult::ok)
    throw coded(env, "ERR_NBC_ARGUMENT", "members: must be a Uint32Array");
  auto group = std::make_shared<Group>();
  group->members.resize(members.bytes / sizeof(uint32_t));
  if (!group->members.empty())
    std::memcpy(group->members.data(), members.data, group->members.size() * sizeof(uint32_t));
  for (const Rank member : group->members) {
    if (member >= world.engine().fabric().size())
      throw coded(env, "ERR_NBC_ARGUMENT", "members: one is not a rank of the world");
  }
  group->rank = number(env, info[1], "rank");
  if (group->rank >= group->members.size() || group->members[group->rank] != world.engine().fabric().rank())
    throw coded(env, "ERR_NBC_ARGUMENT", "rank: is not this process in members");
  group->context =
      static_cast<uint64_t>(number(env, info[2], "contextHigh")) << 32 | number(env, info[3], "contextLow");
  return Napi::Number::New(env, world.add_group(std::move(group)));
}

Napi::Value free_communicator(const Napi::CallbackInfo& info) {
  require_open(info.Env()).free_group(number(info.Env(), info[0], "communicator"));
  return info.Env().Undefined();
}

Napi::Value compile(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = require_open(env);
  const auto group = world.group(number(env, info[0], "communicator"));
  if (group == nullptr) throw coded(env, "ERR_NBC_ARGUMENT", "communicator: is not open");
  Pinned words;
  if (!info[1].IsTypedArray() || pin(info[1], words) != PinResult::ok ||
      reinterpret_cast<uintptr_t>(words.data) % alignof(uint32_t) != 0)
    throw coded(env, "ERR_NBC_ARGUMENT", "words: must be a Uint32Array");
  try {
    auto plan = std::make_shared<LoadedPlan>();
    plan->plan = compile_schedule(reinterpret_cast<const uint32_t*>(words.data), words.bytes / sizeof(uint32_t),
                                  group->members, group->rank);
    plan->group = group;
    plan->memory = world.memory();
    return Napi::Number::New(env, world.add_plan(std::move(plan)));
  } catch (const ScheduleError& error) {
    throw coded(env, "ERR_NBC_SCHEDULE", "word " + std::to_string(error.word) + ": " + error.reason);
  }
}

Napi::Value release_plan(const Napi::CallbackInfo& info) {
  require_open(info.Env()).free_plan(number(info.Env(), info[0], "plan"));
  return info.Env().Undefined();
}

Napi::Value set_keep_alive(const Napi::CallbackInfo& info) {
  require_open(info.Env()).set_keep_alive(info[0].ToBoolean());
  return info.Env().Undefined();
}

Napi::Value explain(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), require_open(info.Env()).engine().explain(number(info.Env(), info[0], "slot")));
}

Napi::Value stats(const Napi::CallbackInfo& info) {
  Napi::Object object = Napi::Object::New(info.Env());
  require_open(info.Env()).engine().visit_counters([&](const char* name, double value) { object.Set(name, value); });
  return object;
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  env.SetInstanceData(new World(env));
  const napi_property_descriptor hot[] = {
      {"start", nullptr, start, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"isend", nullptr, isend, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"irecv", nullptr, irecv, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"test", nullptr, test, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"wait", nullptr, wait, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"waitAny", nullptr, wait_any, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"waitAll", nullptr, wait_all, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"startall", nullptr, startall, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"watch", nullptr, watch, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
  };
  napi_define_properties(env, exports, sizeof hot / sizeof hot[0], hot);
  exports.Set("createJob", Napi::Function::New(env, create_job));
  exports.Set("checkNoneOpen", Napi::Function::New(env, check_none_open));
  export_pmix(env, exports);
  exports.Set("listenTcp", Napi::Function::New(env, listen_tcp));
  exports.Set("open", Napi::Function::New(env, open));
  exports.Set("close", Napi::Function::New(env, close));
  exports.Set("alloc", Napi::Function::New(env, alloc));
  exports.Set("createCommunicator", Napi::Function::New(env, create_communicator));
  exports.Set("freeCommunicator", Napi::Function::New(env, free_communicator));
  exports.Set("compile", Napi::Function::New(env, compile));
  exports.Set("releasePlan", Napi::Function::New(env, release_plan));
  exports.Set("setKeepAlive", Napi::Function::New(env, set_keep_alive));
  exports.Set("explain", Napi::Function::New(env, explain));
  exports.Set("stats", Napi::Function::New(env, stats));
  return exports;
}

}  // namespace

NODE_API_MODULE(nbc, init)

}  // namespace nbc::addon
