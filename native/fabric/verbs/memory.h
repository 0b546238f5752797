// Exposed memory over verbs: chunks that are registered once, when they are made, and handed out in pages. alloc()
// buffers and temporary buffers of schedules come from here. A chunk that is free altogether is given back, all but
// one. Chunks come from the system, or from other exposed memory: then a block can be reached in that way, too.
//
// Threads: any. The owner of the engine takes the mutex for each buffer (find()), so nothing under it takes long: the
// kernel pins the pages of a chunk, and lets them go, without it.
//
//   what is written            by                                        order
//   a chunk that is new        who allocates; no other thread knows it   put into chunks_ under the mutex
//   chunks_, used_, why_       all                                       under the mutex
//   zeroes in a used block     who allocates, when the block is its own  what was written before was released under the
//                                                                        mutex
//   the end of a chunk         who releases its last block               taken out of chunks_ under the mutex; then its
//                                                                        addresses go back, and can come again
//
// Threads that make chunks at the same time may make one more than is needed. It goes when it is free again.
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
  struct Block {
    std::byte* data = nullptr;
    size_t used = 0;  // so many of its bytes are not zero
  };
  // Under the mutex.
  Block take(Chunk& chunk, size_t length);
  Block take(size_t length);
  // Without it. False or nullptr: `why` tells.
  bool make(size_t length, Chunk& chunk, std::string& why);
  void* obtain(size_t bytes, std::string& why);
  void give_back(void* chunk, size_t bytes);
  void drop(Chunk& chunk);

  std::shared_ptr<Device> device_;
  std::shared_ptr<ExposedMemory> source_;  // null: the system
  mutable std::mutex mutex_;               // guards the rest
  std::map<uintptr_t, Chunk> chunks_;
  size_t used_ = 0;
  std::string why_;
};

}  // namespace nbc::verbs
