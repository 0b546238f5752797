#include "fabric/shm/arena.h"

#include <algorithm>
#include <iterator>
#include <sys/mman.h>

#include "job/limits.h"

namespace nbc::shm {

namespace {

size_t bytes_of(const Segment& segment, size_t most) {
  if (most == 0) return segment.arena_bytes();
  return std::min(segment.arena_bytes(), (most + segment.page() - 1) / segment.page() * segment.page());
}

}  // namespace

Arena::Arena(std::shared_ptr<Segment> segment, Rank rank, size_t most)
    : segment_(std::move(segment)),
      rank_(rank),
      bytes_(bytes_of(*segment_, most)),
      base_(segment_->map_own_arena(rank, bytes_)) {
  free_.emplace(0, bytes_);
}

Arena::~Arena() {
  segment_->punch(rank_, 0, bytes_);
  munmap(base_, bytes_);
}

void* Arena::allocate(size_t bytes) {
  if (bytes > bytes_) return nullptr;
  const size_t page = segment_->page();
  const size_t length = bytes == 0 ? page : (bytes + page - 1) / page * page;
  const std::lock_guard<std::mutex> guard(mutex_);
  // First fit by address: low addresses are reused first, so the touched part stays small.
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < length) continue;
    const size_t offset = it->first;
    const size_t rest = it->second - length;
    if (!segment_->reserve(rank_, offset, length)) {
      refused_ = job::why_no_pages(length);
      segment_->punch(rank_, offset, length);  // what was there before it failed
      return nullptr;
    }
    free_.erase(it);
    if (rest > 0) free_.emplace(offset + length, rest);
    allocated_.emplace(offset, length);
    used_ += length;
    return base_ + offset;
  }
  refused_.clear();
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

void Arena::discard(void* part, size_t bytes) {
  if (!segment_->scarce()) segment_->punch(rank_, offset_of(part), bytes);
}

std::string Arena::why() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (!refused_.empty()) return refused_;
  return std::to_string(used_) + " of the " + std::to_string(bytes_) +
         " bytes that this rank can expose are used, and no free part is large enough (option exposedBytes)";
}

size_t Arena::used() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return used_;
}

}  // namespace nbc::shm
