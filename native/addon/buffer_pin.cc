#include "addon/buffer_pin.h"

#include <cstring>
#include <v8.h>

namespace nbc::addon {

PinResult pin(napi_value value, Pinned& out) {
  // In Node.js a napi_value is a v8::Local in other clothes.
  v8::Local<v8::Value> local;
  static_assert(sizeof local == sizeof value);
  std::memcpy(static_cast<void*>(&local), &value, sizeof local);
  if (!local->IsArrayBufferView()) return PinResult::not_a_view;
  const v8::Local<v8::ArrayBufferView> view = local.As<v8::ArrayBufferView>();
  // Buffer() also moves the contents of a small typed array out of the JavaScript heap, where they could be moved.
  std::shared_ptr<v8::BackingStore> store = view->Buffer()->GetBackingStore();
  if (store == nullptr || (store->Data() == nullptr && view->Buffer()->WasDetached())) return PinResult::detached;
  if (store->IsResizableByUserJavaScript()) return PinResult::resizable;
  out.data = static_cast<std::byte*>(store->Data()) + view->ByteOffset();
  out.bytes = view->ByteLength();
  out.keeper = std::move(store);
  return PinResult::ok;
}

}  // namespace nbc::addon
