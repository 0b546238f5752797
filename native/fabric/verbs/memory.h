// Exposed memory over verbs: chunks that are registered once, when they are made, and handed out in pages. alloc()
// buffers and temporary buffers of schedules come from here. A chunk that is free altogether is given back, all but
// one. Chunks come from the system, or from other exposed memory: then a block can be reached in that way, too.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "fabric/verbs/device.h"

namespace nbc::verbs {

class Memory final : public ExposedMemory {
 public:
  explicit Memory(std::shared_ptr<Device> device, std::shared_ptr<ExposedMemory> source = nullptr)
      : device_(std::move(device)), source_(std::move(source)) {}
  ~Memory() override;

  void* allocate(size_t bytes) override;
  void release(void* block) override;
  size_t used() const override;
  std::string why() const override;
  // The registration that holds these bytes, or nullptr. It stays as long as the block is not released.
  ibv_mr* find(const void* data, size_t bytes) const;

 private:
  struct Chunk {
    std::byte* base = nullptr;
    size_t bytes = 0;
    size_t touched = 0;  // below, pages have been handed out before and are not zero
    ibv_mr* mr = nullptr;
    std::map<size_t, size_t> free;       // offset -> length, never adjacent
    std::map<size_t, size_t> allocated;  // offset -> length
  };
  void* take(Chunk& chunk, size_t length);
  bool add_chunk(size_t length);
  void* obtain(size_t bytes);
  void give_back(void* chunk, size_t bytes);
  void drop(Chunk& chunk);

  std::shared_ptr<Device> device_;
  std::shared_ptr<ExposedMemory> source_;  // null: the system
  mutable std::mutex mutex_;               // guards the rest: buffers are freed by garbage collection, on other threads
  std::map<uintptr_t, Chunk> chunks_;
  size_t used_ = 0;
  std::string why_;
};

}  // namespace nbc::verbs
