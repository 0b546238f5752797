// Starting operations, and waiting for them: the hot path. These functions use the C interface, which costs a third of
// the C++ wrappers.
#include <napi.h>

#include <unistd.h>

#include "addon/arguments.h"
#include "addon/exports.h"

namespace nbc::addon {
namespace {

bool get_tag(napi_env env, napi_value value, uint32_t& tag) { return get_uint32(env, value, tag) && tag <= 32767; }

// --- one request -----------------------------------------------------------------------------------------------------

// What the ways to start a plan are given: the plan, a slot and the buffers.
struct Start {
  World* world;
  const Startable* what;
  uint32_t slot;
  PinnedView buffers[2];
};

// Copies that buffers were pinned as stay until the request is settled. False after throwing.
bool keep(napi_env env, World& world, uint32_t slot, const PinnedView& buffer, bool receives, bool persistent) {
  if (buffer.pinned.data == buffer.place || world.copies().add(slot, buffer.view, buffer.pinned, receives, persistent))
    return true;
  world.copies().drop(slot);
  no_memory_for_copy().raise(env);
  return false;
}

bool keep(napi_env env, const Start& s, bool persistent) {
  return keep(env, *s.world, s.slot, s.buffers[0], false, persistent) &&
         keep(env, *s.world, s.slot, s.buffers[1], true, persistent);
}

// What a start returns. No JavaScript has run since: no buffer has been detached.
napi_value started(napi_env env, World& world, uint32_t slot, bool complete) {
  if (complete && pins_copies()) world.copies().collect(slot);
  return boolean(env, complete);
}

bool refuse(napi_env env, const char* argument, Reason reason) {
  bad_argument(argument, reason).raise(env);
  return false;
}

// False after throwing. `messages`: the plan must be one for messages, else it must not.
bool get_plan(napi_env env, napi_value argument, bool messages, Start& out) {
  out.world = open_world(env);
  if (out.world == nullptr) return false;
  uint32_t handle;
  out.what = get_uint32(env, argument, handle) ? out.world->plan(handle) : nullptr;
  return (out.what != nullptr && out.what->plan->messages == messages) || refuse(env, "plan", Reason::not_a_plan);
}

// False after throwing.
bool get_buffers(napi_env env, const napi_value (&views)[2], Start& out) {
  const uint64_t* bytes = out.what->plan->plan.role_bytes;
  PinnedView(&buffers)[2] = out.buffers;
  for (uint32_t role = 0; role < 2; ++role) {
    const char* name = role == 0 ? "send" : "recv";
    if (bytes[role] == 0) continue;  // whatever it is: nothing is read or written there
    if (!get_buffer(env, *out.world, views[role], name, bytes[role], buffers[role])) return false;
  }
  if (bytes[0] > 0 && bytes[1] > 0 && buffers[0].place < buffers[1].place + bytes[1] &&
      buffers[1].place < buffers[0].place + bytes[0])
    return refuse(env, "recv", Reason::overlaps_send);
  return true;
}

// False after throwing.
bool get_plan_and_slot(napi_env env, const napi_value* arguments, bool messages, Start& out) {
  return get_plan(env, arguments[0], messages, out) &&
         (get_slot(env, arguments[1], out.slot) || refuse(env, "slot", Reason::not_in_range));
}

// False after throwing.
bool get_start(napi_env env, const napi_value* arguments, bool messages, Start& out) {
  if (!get_plan_and_slot(env, arguments, messages, out)) return false;
  if (!out.what->bound) return get_buffers(env, {arguments[2], arguments[3]}, out);
  for (uint32_t role = 0; role < 2; ++role) {
    out.buffers[role].pinned = out.what->buffers[role];
    out.buffers[role].place = out.what->buffers[role].data;
  }
  return true;
}

napi_value start(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  Start s;
  if (!get_arguments(env, info, arguments) || !get_plan_and_slot(env, arguments, false, s)) return nullptr;
  if (s.what->bound) return boolean(env, s.world->engine().start(s.what->plan, s.slot, s.what->buffers));
  if (!get_buffers(env, {arguments[2], arguments[3]}, s) || !keep(env, s, false)) return nullptr;
  return started(
      env, *s.world, s.slot,
      s.world->engine().start(s.what->plan, s.slot, std::move(s.buffers[0].pinned), std::move(s.buffers[1].pinned)));
}

// bindPlan(plan, send, receive): a handle of the plan with these buffers. To find the memory of two views takes 0.2 µs,
// so a program that starts the same again does not. -1: these buffers are pinned as copies, made for each start.
napi_value bind_plan(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  Start s;
  if (!get_arguments(env, info, arguments) || !get_plan(env, arguments[0], false, s) ||
      !get_buffers(env, {arguments[1], arguments[2]}, s))
    return nullptr;
  int32_t handle = -1;
  if (!s.what->bound && !pins_copies()) {
    Startable bound{s.what->plan, true, {std::move(s.buffers[0].pinned), std::move(s.buffers[1].pinned)}};
    handle = static_cast<int32_t>(s.world->add_plan(std::move(bound)));
  }
  napi_value result;
  napi_create_int32(env, handle, &result);
  return result;
}

// The same for messages, with the tags to send and to receive with. False after throwing.
bool get_start_of_messages(napi_env env, napi_callback_info info, Start& out, uint32_t (&tags)[2]) {
  napi_value arguments[6];
  if (!get_arguments(env, info, arguments) || !get_start(env, arguments, true, out)) return false;
  for (uint32_t i = 0; i < 2; ++i) {
    if (get_tag(env, arguments[4 + i], tags[i])) continue;
    bad_argument("tag", Reason::not_a_tag).raise(env);
    return false;
  }
  return true;
}

napi_value start_messages(napi_env env, napi_callback_info info) {
  Start s;
  uint32_t tags[2];
  if (!get_start_of_messages(env, info, s, tags) || !keep(env, s, false)) return nullptr;
  return started(env, *s.world, s.slot,
                 s.world->engine().start_messages(s.what->plan, s.slot, std::move(s.buffers[0].pinned),
                                                  std::move(s.buffers[1].pinned), tags[0], tags[1]));
}

struct Message {
  World* world;
  std::shared_ptr<Group> group;
  uint32_t slot;
  PinnedView buffer;
  uint32_t peer;
  uint32_t tag;
};

// False after throwing.
bool get_message(napi_env env, napi_callback_info info, Message& out) {
  napi_value arguments[5];
  out.world = open_world(env);
  if (out.world == nullptr || !get_arguments(env, info, arguments)) return false;
  uint32_t handle;
  if (get_uint32(env, arguments[0], handle)) out.group = out.world->group(handle);
  if (out.group == nullptr) {
    bad_argument("communicator", Reason::not_a_communicator).raise(env);
  } else if (!get_slot(env, arguments[1], out.slot)) {
    bad_argument("slot", Reason::not_in_range).raise(env);
  } else if (!get_uint32(env, arguments[3], out.peer) || out.peer >= out.group->members.size()) {
    bad_argument("peer", Reason::not_a_peer).raise(env);
  } else if (!get_tag(env, arguments[4], out.tag)) {
    bad_argument("tag", Reason::not_a_tag).raise(env);
  } else {
    return get_buffer(env, *out.world, arguments[2], "buffer", 0, out.buffer);
  }
  return false;
}

napi_value isend(napi_env env, napi_callback_info info) {
  Message m;
  if (!get_message(env, info, m)) return nullptr;
  return boolean(env, m.world->engine().isend(*m.group, m.slot, std::move(m.buffer.pinned), m.peer, m.tag));
}

napi_value irecv(napi_env env, napi_callback_info info) {
  Message m;
  if (!get_message(env, info, m) || !keep(env, *m.world, m.slot, m.buffer, true, false)) return nullptr;
  return started(env, *m.world, m.slot,
                 m.world->engine().irecv(*m.group, m.slot, std::move(m.buffer.pinned), m.peer, m.tag));
}

// --- persistent requests ---------------------------------------------------------------------------------------------

napi_value prepare(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  Start s;
  if (!get_arguments(env, info, arguments) || !get_start(env, arguments, false, s) || !keep(env, s, true))
    return nullptr;
  s.world->engine().prepare(s.what->plan, s.slot, std::move(s.buffers[0].pinned), std::move(s.buffers[1].pinned));
  return undefined(env);
}

napi_value prepare_messages(napi_env env, napi_callback_info info) {
  Start s;
  uint32_t tags[2];
  if (!get_start_of_messages(env, info, s, tags) || !keep(env, s, true)) return nullptr;
  s.world->engine().prepare_messages(s.what->plan, s.slot, std::move(s.buffers[0].pinned),
                                     std::move(s.buffers[1].pinned), tags[0], tags[1]);
  return undefined(env);
}

napi_value prepare_message(napi_env env, napi_callback_info info, bool sends) {
  Message m;
  if (!get_message(env, info, m) || !keep(env, *m.world, m.slot, m.buffer, !sends, true)) return nullptr;
  m.world->engine().prepare_message(std::move(m.group), m.slot, std::move(m.buffer.pinned), m.peer, m.tag, sends);
  return undefined(env);
}

napi_value prepare_send(napi_env env, napi_callback_info info) { return prepare_message(env, info, true); }
napi_value prepare_recv(napi_env env, napi_callback_info info) { return prepare_message(env, info, false); }

napi_value restart(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  World* world = open_world(env);
  uint32_t slot;
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  if (!get_slot(env, arguments[0], slot)) return bad_argument("slot", Reason::not_in_range).raise(env);
  if (pins_copies() && !world->copies().refresh(slot)) return bad_argument("buffer", Reason::detached).raise(env);
  const Engine::Restart how = world->engine().restart(slot);
  if (how == Engine::Restart::refused) return bad_argument("slot", Reason::not_in_range).raise(env);
  return started(env, *world, slot, how == Engine::Restart::ended);
}

napi_value release(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  World* world = open_world(env);
  uint32_t slot;
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  if (!get_slot(env, arguments[0], slot)) return bad_argument("slot", Reason::not_in_range).raise(env);
  world->engine().release(slot);
  world->copies().drop(slot);
  return undefined(env);
}

// collect(slot)
napi_value collect(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  World* world = World::of(env);
  uint32_t slot;
  if (!get_arguments(env, info, arguments)) return nullptr;
  if (!get_slot(env, arguments[0], slot)) return bad_argument("slot", Reason::not_in_range).raise(env);
  return boolean(env, world == nullptr || world->copies().collect(slot));
}

// --- progress --------------------------------------------------------------------------------------------------------

napi_value test(napi_env env, napi_callback_info /*info*/) {
  World* world = open_world(env);
  if (world == nullptr) return nullptr;
  UserWork& work = world->engine().user_work();
  if (work.awaits_threads()) work.look_for_threads();
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

napi_value wait_for(napi_env env, Engine& engine, const uint32_t* slots, size_t count, bool all, int64_t nanoseconds) {
  // Asked once for each thread: a system call, beside 0.6 µs that starting and waiting for 8 bytes take.
  thread_local const bool on_main_thread = gettid() == getpid();
  UserWork& work = engine.user_work();
  // Other threads may be terminated meanwhile. Nobody tells this thread, while it is here, of a worker that ends early.
  if (on_main_thread && !work.awaits_threads()) return boolean(env, engine.wait(slots, count, all, nanoseconds));
  for (int64_t left = nanoseconds;;) {
    const bool last = left >= 0 && left <= kEndingNanoseconds;
    if (engine.wait(slots, count, all, last ? left : kEndingNanoseconds)) return boolean(env, true);
    if (is_ending(env)) return nullptr;
    if (work.awaits_threads()) work.look_for_threads();
    if (last || work.waits()) return boolean(env, false);
    if (left > 0) left -= kEndingNanoseconds;
  }
}

napi_value wait(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  World* world = open_world(env);
  uint32_t slot;
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  if (!get_slot(env, arguments[0], slot)) return bad_argument("slot", Reason::not_in_range).raise(env);
  return wait_for(env, world->engine(), &slot, 1, true, nanoseconds_of(env, arguments[1]));
}

// --- several requests ------------------------------------------------------------------------------------------------

napi_value wait_many(napi_env env, napi_callback_info info, bool all) {
  napi_value arguments[2];
  World* world = open_world(env);
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  const uint32_t* slots;
  size_t count;
  if (!get_slots(env, arguments[0], slots, count)) return nullptr;
  if (count == 0) return boolean(env, true);
  return wait_for(env, world->engine(), slots, count, all, nanoseconds_of(env, arguments[1]));
}

napi_value wait_any(napi_env env, napi_callback_info info) { return wait_many(env, info, false); }
napi_value wait_all(napi_env env, napi_callback_info info) { return wait_many(env, info, true); }

napi_value startall(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  World* world = open_world(env);
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  const uint32_t* slots;
  size_t count;
  uint32_t microseconds;
  if (!get_slots(env, arguments[0], slots, count)) return nullptr;
  if (!get_uint32(env, arguments[1], microseconds))
    return bad_argument("microseconds", Reason::not_a_number).raise(env);
  world->engine().startall(slots, count, microseconds);
  return undefined(env);
}

napi_value look(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  World* world = open_world(env);
  uint32_t count;
  uint32_t microseconds;
  if (world == nullptr || !get_arguments(env, info, arguments)) return nullptr;
  if (!get_uint32(env, arguments[0], count) || count > kExchange)
    return bad_argument("count", Reason::not_in_range).raise(env);
  if (!get_uint32(env, arguments[1], microseconds))
    return bad_argument("microseconds", Reason::not_a_number).raise(env);
  napi_value ended;
  napi_create_uint32(env, static_cast<uint32_t>(world->engine().look(count, int64_t{microseconds} * 1000)), &ended);
  return ended;
}

napi_value rest(napi_env env, napi_callback_info /*info*/) {
  World* world = open_world(env);
  if (world == nullptr) return nullptr;
  return boolean(env, world->engine().rest());
}

}  // namespace

void export_requests(Napi::Env env, Napi::Object exports) {
  const napi_property_descriptor functions[] = {
      {"start", nullptr, start, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"bindPlan", nullptr, bind_plan, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"startMessages", nullptr, start_messages, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"isend", nullptr, isend, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"irecv", nullptr, irecv, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"prepare", nullptr, prepare, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"prepareMessages", nullptr, prepare_messages, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"prepareSend", nullptr, prepare_send, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"prepareRecv", nullptr, prepare_recv, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"restart", nullptr, restart, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"release", nullptr, release, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"collect", nullptr, collect, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"test", nullptr, test, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"wait", nullptr, wait, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"waitAny", nullptr, wait_any, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"waitAll", nullptr, wait_all, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"startall", nullptr, startall, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"look", nullptr, look, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
      {"rest", nullptr, rest, nullptr, nullptr, nullptr, napi_enumerable, nullptr},
  };
  napi_define_properties(env, exports, sizeof functions / sizeof functions[0], functions);
  exports.Set("copiesBuffers", Napi::Boolean::New(env, pins_copies()));
}

}  // namespace nbc::addon
