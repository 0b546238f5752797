// Exposed memory as ArrayBuffers.
#include "addon/memory.h"

#include <napi.h>

#include <map>
#include <mutex>

#include "addon/arguments.h"
#include "addon/exports.h"

namespace nbc::addon {
namespace {

// Held by its ArrayBuffer, and by operations that use it. The last of these releases it, on any thread.
struct Block {
  Block(std::shared_ptr<ExposedMemory> from, void* at, size_t size) : memory(std::move(from)), data(at), bytes(size) {}
  ~Block() { memory->release(data); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const std::shared_ptr<ExposedMemory> memory;
  void* const data;
  const size_t bytes;
};

// The blocks of all environments whose ArrayBuffers live, by address. Never destroyed: finalizers may run at the very
// end.
struct Blocks {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<Block>> by_address;
};

Blocks& blocks() {
  static auto* all = new Blocks();
  return *all;
}

// The ArrayBuffer of the block is gone.
void release(Napi::Env env, void* /*data*/, Block* block) {
  Napi::MemoryManagement::AdjustExternalMemory(env, -static_cast<int64_t>(block->bytes));
  std::shared_ptr<Block> last;  // it may be released without the lock
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().by_address.find(block->data);
  last = std::move(found->second);
  blocks().by_address.erase(found);
}

Napi::Value alloc(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto memory = require_open(env).memory();
  const size_t bytes = byte_count(env, info[0], "bytes");
  void* data = memory->allocate(bytes);
  if (data == nullptr) {
    throw Refusal("ERR_NBC_NO_MEMORY")
        .with("bytes", static_cast<double>(bytes))
        .with("detail", memory->why())
        .error(env);
  }
  const auto block = std::make_shared<Block>(std::move(memory), data, bytes);
  {
    const std::lock_guard lock(blocks().mutex);
    blocks().by_address[data] = block;
  }
  Napi::MemoryManagement::AdjustExternalMemory(env, static_cast<int64_t>(bytes));
  return Napi::ArrayBuffer::New(env, data, bytes, release, block.get());
}

}  // namespace

std::shared_ptr<void> keeper_of_exposed(const std::byte* data, size_t bytes) {
  const std::lock_guard lock(blocks().mutex);
  auto after = blocks().by_address.upper_bound(data);
  if (after == blocks().by_address.begin()) return nullptr;
  const auto& block = (--after)->second;
  const auto* begin = static_cast<const std::byte*>(block->data);
  return data + bytes <= begin + block->bytes ? block : nullptr;
}

void export_memory(Napi::Env env, Napi::Object exports) { exports.Set("alloc", Napi::Function::New(env, alloc)); }

}  // namespace nbc::addon
