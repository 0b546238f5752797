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

// The ArrayBuffer of the block is gone, or could not be made: the second call for a block does nothing.
void release(napi_env env, void* data, void* /*hint*/) {
  std::shared_ptr<Block> last;  // it may be released without the lock
  {
    const std::lock_guard lock(blocks().mutex);
    const auto found = blocks().by_address.find(data);
    if (found == blocks().by_address.end()) return;
    last = std::move(found->second);
    blocks().by_address.erase(found);
  }
  Napi::MemoryManagement::AdjustExternalMemory(env, -static_cast<int64_t>(last->bytes));
}

// Where Node.js does not make an ArrayBuffer, because it would be too large or because the thread ends, it has called
// the finalizer already; other runtimes may not. The wrapper of node-addon-api frees its own memory twice then.
napi_value array_buffer_of(napi_env env, const std::shared_ptr<Block>& block) {
  napi_value result;
  if (napi_create_external_arraybuffer(env, block->data, block->bytes, release, nullptr, &result) == napi_ok)
    return result;
  release(env, block->data, nullptr);
  napi_value ignored;
  bool pending = false;
  if (napi_is_exception_pending(env, &pending) == napi_ok && pending) napi_get_and_clear_last_exception(env, &ignored);
  if (is_ending(env)) return nullptr;
  throw Refusal("ERR_NBC_NO_MEMORY")
      .with("bytes", static_cast<double>(block->bytes))
      .with("detail", "the runtime makes no ArrayBuffer of this size")
      .error(env);
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
  return {env, array_buffer_of(env, block)};
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
