#include "addon/buffer_pin.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "addon/backing_store.h"
#include "addon/memory.h"

namespace nbc::addon {
namespace {

std::atomic<bool> g_copies{true};

bool is_true(napi_env env, napi_value object, const char* name) {
  napi_value value;
  bool result = false;
  return napi_get_named_property(env, object, name, &value) == napi_ok &&
         napi_get_value_bool(env, value, &result) == napi_ok && result;
}

// Cache lines begin where those of the copy begin, as peers that copy like it.
constexpr std::align_val_t kAlignment{64};

}  // namespace

void choose_pin(napi_env env) {
  const char* wanted = std::getenv("NBC_BUFFERS");
  const bool forced = wanted != nullptr && std::strcmp(wanted, "copy") == 0;
  g_copies.store(forced || !has_backing_stores(env), std::memory_order_relaxed);
}

bool pins_copies() { return g_copies.load(std::memory_order_relaxed); }

PinResult look_at(napi_env env, napi_value view, Pinned& out) {
  bool is_typed = false;
  bool is_data_view = false;
  napi_value buffer = nullptr;
  void* data = nullptr;
  size_t offset = 0;
  out = {};
  if (napi_is_typedarray(env, view, &is_typed) != napi_ok || napi_is_dataview(env, view, &is_data_view) != napi_ok ||
      !(is_typed || is_data_view))
    return PinResult::not_a_view;
  if (is_typed) {
    napi_typedarray_type type;
    size_t elements;
    if (napi_get_typedarray_info(env, view, &type, &elements, &data, &buffer, &offset) != napi_ok)
      return PinResult::detached;
    static constexpr uint8_t kElementBytes[] = {1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 2};
    if (static_cast<size_t>(type) >= sizeof kElementBytes) return PinResult::not_a_view;
    out.bytes = elements * kElementBytes[type];
  } else if (napi_get_dataview_info(env, view, &out.bytes, &data, &buffer, &offset) != napi_ok) {
    bool pending = false;
    napi_value ignored;
    if (napi_is_exception_pending(env, &pending) == napi_ok && pending)
      napi_get_and_clear_last_exception(env, &ignored);
    return PinResult::detached;
  }
  out.data = static_cast<std::byte*>(data);
  bool detached = false;
  if (napi_is_detached_arraybuffer(env, buffer, &detached) == napi_ok && detached) return PinResult::detached;
  if (is_true(env, buffer, "resizable") || is_true(env, buffer, "growable")) return PinResult::resizable;
  return PinResult::ok;
}

PinResult pin(napi_env env, napi_value view, RecentStores& recent, Pinned& out, const std::byte*& place) {
  if (!pins_copies()) {
    const PinResult result = pin_backing_store(view, recent, out);
    place = out.data;
    return result;
  }
  if (const PinResult result = look_at(env, view, out); result != PinResult::ok) return result;
  place = out.data;
  out.keeper = keeper_of_exposed(out.data, out.bytes);
  if (out.keeper != nullptr || out.bytes == 0) return PinResult::ok;
  void* copy = ::operator new(out.bytes, kAlignment, std::nothrow);
  if (copy == nullptr) return PinResult::no_memory;
  out.keeper = std::shared_ptr<void>(copy, [](void* memory) { ::operator delete(memory, kAlignment); });
  out.data = static_cast<std::byte*>(copy);
  std::memcpy(out.data, place, out.bytes);
  return PinResult::ok;
}

}  // namespace nbc::addon
