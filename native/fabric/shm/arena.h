// The exposed memory of this rank: a part of the job's shared file that every peer can map, handed out in pages.
// alloc() buffers, temporary buffers of schedules and staging buffers come from here.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "job/segment.h"

namespace nbc::shm {

using job::Segment;

class Arena final : public ExposedMemory {
 public:
  // `most`: only so many bytes of the rank's part are mapped and handed out, in whole pages; 0: all. Throws
  // FabricError.
  Arena(std::shared_ptr<Segment> segment, Rank rank, size_t most = 0);
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Page-aligned and zeroed; nullptr when the arena is exhausted. Any thread.
  void* allocate(size_t bytes) override;
  void release(void* block) override;
  // Not where the pages might not come again (Segment::scarce()).
  void discard(void* part, size_t bytes) override;

  bool contains(const void* p) const {
    return static_cast<const std::byte*>(p) >= base_ && static_cast<const std::byte*>(p) < base_ + bytes_;
  }
  size_t offset_of(const void* p) const { return static_cast<size_t>(static_cast<const std::byte*>(p) - base_); }
  std::byte* at(size_t offset) const { return base_ + offset; }
  size_t bytes() const { return bytes_; }
  size_t used() const override;
  std::string why() const override;

 private:
  std::shared_ptr<Segment> segment_;
  Rank rank_;
  size_t bytes_;
  std::byte* base_;
  mutable std::mutex mutex_;       // guards what follows: buffers are freed by garbage collection, on other threads
  std::map<size_t, size_t> free_;  // offset -> length, never adjacent
  std::map<size_t, size_t> allocated_;  // offset -> length
  size_t used_ = 0;
  std::string refused_;  // why the system gave no pages at the last failure; empty: it was not asked
};

}  // namespace nbc::shm
