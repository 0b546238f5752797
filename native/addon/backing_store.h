// V8's BackingStore of a buffer: what keeps its memory allocated whatever becomes of the object. Node-API can only keep
// the object. So this is the one file that uses V8, and it looks its functions up at run time: the addon itself needs
// Node-API alone.
#pragma once
#include <napi.h>

#include <cstddef>
#include <memory>

#include "addon/buffer_pin.h"

namespace nbc::addon {

// Stores of the small buffers that a program used last, by their memory. To get the store of a buffer takes V8 five
// locked instructions, 40 ns, and a whole operation of one rank takes 120 ns. As long as a store lives, its memory
// belongs to no other one, so the address tells the store. All by the thread of the environment.
class RecentStores {
 public:
  // Larger memory is not kept for a program that has dropped it.
  static constexpr size_t kMostBytes = 32 << 10;

  const std::shared_ptr<void>* find(const void* memory) const {
    for (size_t i = 0; i < kEntries; ++i) {
      if (memory_[i] == memory) return &stores_[i];
    }
    return nullptr;
  }
  void add(const void* memory, const std::shared_ptr<void>& store) {
    memory_[next_] = memory;
    stores_[next_] = store;
    next_ = (next_ + 1) % kEntries;
  }
  void clear() { *this = {}; }

 private:
  static constexpr size_t kEntries = 8;  // addresses in one cache line
  const void* memory_[kEntries] = {};    // null: none
  std::shared_ptr<void> stores_[kEntries];
  size_t next_ = 0;
};

// Whether this process has these functions, and values of Node-API are handles of that V8. So it is in Node.js 20 to
// 26; it is not in Deno, which exports no V8, and not in Bun, which has another engine.
bool has_backing_stores(napi_env env);

// Only where there are backing stores.
PinResult pin_backing_store(napi_value view, RecentStores& recent, Pinned& out);

}  // namespace nbc::addon
