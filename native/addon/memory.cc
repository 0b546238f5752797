// Exposed memory as ArrayBuffers.
#include <napi.h>

#include <memory>

#include "addon/arguments.h"
#include "addon/exports.h"

namespace nbc::addon {
namespace {

struct Block {
  std::shared_ptr<ExposedMemory> memory;
  void* data;
  int64_t bytes;
};

void release(Napi::Env env, void* /*data*/, Block* block) {
  block->memory->release(block->data);
  Napi::MemoryManagement::AdjustExternalMemory(env, -block->bytes);
  delete block;
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
  auto* block = new Block{std::move(memory), data, static_cast<int64_t>(bytes)};
  Napi::MemoryManagement::AdjustExternalMemory(env, block->bytes);
  return Napi::ArrayBuffer::New(env, data, bytes, release, block);
}

}  // namespace

void export_memory(Napi::Env env, Napi::Object exports) { exports.Set("alloc", Napi::Function::New(env, alloc)); }

}  // namespace nbc::addon
