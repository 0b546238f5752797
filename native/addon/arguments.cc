#include "addon/arguments.h"

#include <cmath>
#include <limits>

namespace nbc::addon {

World* open_world(napi_env env) {
  World* world = World::of(env);
  if (world != nullptr && world->is_open()) return world;
  not_open().raise(env);
  return nullptr;
}

bool get_uint32(napi_env env, napi_value value, uint32_t& out) {
  double number;
  if (napi_get_value_double(env, value, &number) != napi_ok) return false;
  if (!(number >= 0 && number <= std::numeric_limits<uint32_t>::max())) return false;
  out = static_cast<uint32_t>(number);
  return static_cast<double>(out) == number;
}

bool get_slot(napi_env env, napi_value value, uint32_t& slot) { return get_uint32(env, value, slot) && slot < kSlots; }

bool is_nothing(napi_env env, napi_value value) {
  napi_valuetype type;
  return napi_typeof(env, value, &type) == napi_ok && (type == napi_null || type == napi_undefined);
}

bool is_ending(napi_env env) {
  napi_value value = undefined(env);
  bool same;
  return napi_strict_equals(env, value, value, &same) != napi_ok;  // one of the calls that are refused then
}

bool get_buffer(napi_env env, World& world, napi_value value, const char* name, uint64_t least, PinnedView& out) {
  const PinResult result = pin(env, value, world.stores(), out.pinned, out.place);
  out.view = value;
  if (result == PinResult::no_memory) {
    no_memory_for_copy().raise(env);
    return false;
  }
  if (result != PinResult::ok) {
    const Reason reason = result == PinResult::not_a_view ? Reason::not_a_view
                          : result == PinResult::detached ? Reason::detached
                                                          : Reason::resizable;
    bad_argument(name, reason).raise(env);
    return false;
  }
  if (out.pinned.bytes >= least) return true;
  bad_argument(name, Reason::too_small)
      .with("bytes", static_cast<double>(out.pinned.bytes))
      .with("least", static_cast<double>(least))
      .raise(env);
  return false;
}

bool get_slots(napi_env env, napi_value value, const uint32_t*& slots, size_t& count) {
  Pinned list;
  if (look_at(env, value, list) != PinResult::ok) {
    bad_argument("slots", Reason::not_a_view).raise(env);
    return false;
  }
  slots = reinterpret_cast<const uint32_t*>(list.data);
  count = list.bytes / sizeof(uint32_t);
  for (size_t i = 0; i < count; ++i) {
    if (slots[i] < kSlots) continue;
    bad_argument("slots", Reason::not_in_range).raise(env);
    return false;
  }
  return true;
}

World& require_open(Napi::Env env) {
  World* world = World::of(env);
  if (world == nullptr || !world->is_open()) throw not_open().error(env);
  return *world;
}

uint32_t number(Napi::Env env, const Napi::Value& value, const char* name) {
  uint32_t out;
  if (!get_uint32(env, value, out)) throw bad_argument(name, Reason::not_a_number).error(env);
  return out;
}

std::vector<uint32_t> numbers(const Napi::Value& list) {
  std::vector<uint32_t> out;
  if (!list.IsArray()) return out;
  const auto array = list.As<Napi::Array>();
  for (uint32_t i = 0; i < array.Length(); ++i) out.push_back(array.Get(i).ToNumber().Uint32Value());
  return out;
}

uint64_t byte_count(Napi::Env env, const Napi::Value& value, const char* name) {
  double bytes = -1;
  if (napi_get_value_double(env, value, &bytes) != napi_ok || !(bytes >= 0) || bytes > 9007199254740991.0)
    throw bad_argument(name, Reason::not_bytes).error(env);
  return static_cast<uint64_t>(bytes);
}

}  // namespace nbc::addon
