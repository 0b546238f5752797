#include "fabric/shm/arena.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <sys/mman.h>

namespace nbc::shm {

Arena::Arena(std::shared_ptr<Segment> segment, Rank rank)
    : segment_(std::move(segment)), rank_(rank), base_(segment_->map_arena(rank)), bytes_(segment_->arena_bytes()) {
  if (base_ == nullptr) throw system_failure("mapping the exposed arena");
  free_.emplace(0, bytes_);
}

Arena::~Arena() {
  segment_->punch(rank_, 0, bytes_);
  munmap(base_, bytes_);
}

void* Arena::allocate(size_t bytes) {
  if (bytes > bytes_) return nullptr;
  const size_t length = bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
  const std::lock_guard<std::mutex> guard(mutex_);
  // First fit by address: low addresses are reused first, so the touched part stays small.
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < length) continue;
    const size_t offset = it->first;
    const size_t rest = it->second - length;
    free_.erase(it);
    if (rest > 0) free_.emplace(offset + length, rest);
    allocated_.emplace(offset, length);
    used_ += length;
    return base_ + offset;
  }
  return nullptr;
}

void Arena::release(void* block) {
  const size_t offset = offset_of(block);
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto it = allocated_.find(offset);
  if (it == allocated_.end()) return;
  size_t start = offset;
  size_t length = it->second;
  allocated_.erase(it);
  used_ -= length;
  segment_->punch(rank_, start, length);  // back to the system, and zero when it is handed out again
  const auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == start + length) {
    length += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(start);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == start) {
      before->second += length;
      return;
    }
  }
  free_.emplace(start, length);
}

size_t Arena::used() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return used_;
}

}  // namespace nbc::shm
