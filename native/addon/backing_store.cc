#include "addon/backing_store.h"

#include <memory>

#include "addon/runtime.h"

namespace nbc::addon {
namespace {

// A napi_value of Node.js is a v8::Local, which is a pointer to the handle: what methods of v8::Value get as `this`. A
// method is a function whose first argument is `this`; a std::shared_ptr comes back in memory that the caller provides,
// whatever it points to. None of this has changed from Node.js 20 to 26, and no header of V8 is needed.
using Handle = void*;

struct V8 {
  bool (*is_view)(Handle);                             // v8::Value::IsArrayBufferView() const
  Handle (*buffer)(Handle);                            // v8::ArrayBufferView::Buffer()
  size_t (*offset)(Handle);                            // v8::ArrayBufferView::ByteOffset()
  size_t (*length)(Handle);                            // v8::ArrayBufferView::ByteLength()
  std::shared_ptr<void> (*store)(Handle);              // v8::ArrayBuffer::GetBackingStore()
  bool (*was_detached)(Handle);                        // v8::ArrayBuffer::WasDetached() const
  void* (*memory)(Handle);                             // v8::ArrayBuffer::Data() const
  void* (*data)(const void* store);                    // v8::BackingStore::Data() const
  size_t (*bytes)(const void* store);                  // v8::BackingStore::ByteLength() const
  bool (*is_resizable)(const void* store);             // v8::BackingStore::IsResizableByUserJavaScript() const
  void (*made_with_shared_ptr_of_this_library)(void);  // never called

  bool complete() const {
    return is_view != nullptr && buffer != nullptr && offset != nullptr && length != nullptr && store != nullptr &&
           was_detached != nullptr && memory != nullptr && data != nullptr && bytes != nullptr &&
           is_resizable != nullptr && made_with_shared_ptr_of_this_library != nullptr;
  }
};

const V8& v8() {
  static const V8 found = [] {
    V8 v{};
    find_function("_ZNK2v85Value17IsArrayBufferViewEv", v.is_view);
    find_function("_ZN2v815ArrayBufferView6BufferEv", v.buffer);
    find_function("_ZN2v815ArrayBufferView10ByteOffsetEv", v.offset);
    find_function("_ZN2v815ArrayBufferView10ByteLengthEv", v.length);
    find_function("_ZN2v811ArrayBuffer15GetBackingStoreEv", v.store);
    find_function("_ZNK2v811ArrayBuffer11WasDetachedEv", v.was_detached);
    find_function("_ZNK2v811ArrayBuffer4DataEv", v.memory);
    find_function("_ZNK2v812BackingStore4DataEv", v.data);
    find_function("_ZNK2v812BackingStore10ByteLengthEv", v.bytes);
    find_function("_ZNK2v812BackingStore27IsResizableByUserJavaScriptEv", v.is_resizable);
    // The name of a function does not say what it returns, and a shared_ptr of another C++ library (libc++) cannot be
    // released here. The arguments are part of the name: v8::ArrayBuffer::New(v8::Isolate*,
    // std::shared_ptr<v8::BackingStore>) with the shared_ptr of libstdc++ is there only if V8 was compiled with it.
    find_function("_ZN2v811ArrayBuffer3NewEPNS_7IsolateESt10shared_ptrINS_12BackingStoreEE",
                  v.made_with_shared_ptr_of_this_library);
    return v;
  }();
  return found;
}

PinResult get_store(Handle buffer, RecentStores& recent, std::shared_ptr<void>& out) {
  const V8& v = v8();
  std::shared_ptr<void> store = v.store(buffer);
  if (store == nullptr) return PinResult::detached;
  const void* const data = v.data(store.get());
  if (data == nullptr && v.was_detached(buffer)) return PinResult::detached;
  if (v.is_resizable(store.get())) return PinResult::resizable;
  if (data != nullptr && v.bytes(store.get()) <= RecentStores::kMostBytes) recent.add(data, store);
  out = std::move(store);
  return PinResult::ok;
}

}  // namespace

bool has_backing_stores(napi_env env) { return v8().complete() && is_node(env); }

PinResult pin_backing_store(napi_value value, RecentStores& recent, Pinned& out) {
  const V8& v = v8();
  const Handle view = value;
  if (!v.is_view(view)) return PinResult::not_a_view;
  // This also moves the contents of a small typed array out of the JavaScript heap, where they could be moved.
  const Handle buffer = v.buffer(view);
  void* const memory = v.memory(buffer);
  if (const auto* known = memory == nullptr ? nullptr : recent.find(memory)) {
    out.keeper = *known;
  } else if (const PinResult result = get_store(buffer, recent, out.keeper); result != PinResult::ok) {
    return result;
  }
  out.data = static_cast<std::byte*>(memory) + v.offset(view);
  out.bytes = v.length(view);
  return PinResult::ok;
}

}  // namespace nbc::addon
