// Arguments of native functions: each is checked, so that no call can crash the process. Readable checks come before,
// in TypeScript. Functions that return bool throw in JavaScript where they return false and say so; the others throw
// Napi::Error.
#pragma once
#include <napi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "addon/buffer_pin.h"
#include "addon/errors.h"
#include "addon/world.h"

namespace nbc::addon {

// --- for functions on the hot path -----------------------------------------------------------------------------------

inline napi_value undefined(napi_env env) {
  napi_value value;
  napi_get_undefined(env, &value);
  return value;
}

inline napi_value boolean(napi_env env, bool value) {
  napi_value result;
  napi_get_boolean(env, value, &result);
  return result;
}

template <size_t N>
bool get_arguments(napi_env env, napi_callback_info info, napi_value (&arguments)[N]) {
  size_t count = N;
  return napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) == napi_ok;
}

// This environment's world. Null, after throwing, if none is open.
World* open_world(napi_env env);

// A number that is a whole uint32; nothing is rounded or wrapped. Does not throw.
bool get_uint32(napi_env env, napi_value value, uint32_t& out);
// Does not throw.
bool get_slot(napi_env env, napi_value value, uint32_t& slot);
bool is_nothing(napi_env env, napi_value value);

// Nothing may run in this environment any more. A worker thread in native code does not notice that it is to end
// (terminate(), or the end of the process), and the thread that ends it waits; so it has to ask now and then.
bool is_ending(napi_env env);
constexpr int64_t kEndingNanoseconds = 100'000'000;  // how often it asks

// A view that was pinned: `place` is its own memory, which the pinned memory may be a copy of.
struct PinnedView {
  napi_value view = nullptr;
  Pinned pinned;
  const std::byte* place = nullptr;
};

// Pins a view, or throws. `least`: bytes it must hold.
bool get_buffer(napi_env env, World& world, napi_value value, const char* name, uint64_t least, PinnedView& out);

// The slots of an Int32Array; throws if one is out of range. They are there as long as no JavaScript runs.
bool get_slots(napi_env env, napi_value value, const uint32_t*& slots, size_t& count);

// --- for all others --------------------------------------------------------------------------------------------------

World& require_open(Napi::Env env);
uint32_t number(Napi::Env env, const Napi::Value& value, const char* name);
// A list of numbers; what is no list is an empty one.
std::vector<uint32_t> numbers(const Napi::Value& list);
// A number of bytes, which may have more than 32 bits.
uint64_t byte_count(Napi::Env env, const Napi::Value& value, const char* name);

}  // namespace nbc::addon
