#include "engine/temporary.h"

#include <algorithm>
#include <utility>

namespace nbc {
namespace {

// A block may be used for a smaller operation, but not for one that wastes most of it.
bool fits(const TemporaryPool::Block& block, uint64_t bytes) {
  return block.bytes >= bytes && block.bytes <= std::max<uint64_t>(2 * bytes, 64 * 1024);
}

}  // namespace

TemporaryPool::~TemporaryPool() { clear(); }

TemporaryPool::Block TemporaryPool::take(uint64_t bytes) {
  if (fits(large_, bytes)) return std::exchange(large_, {});
  size_t best = free_.size();
  for (size_t i = free_.size(); i-- > 0;) {
    if (!fits(free_[i], bytes)) continue;
    if (best == free_.size() || free_[i].bytes < free_[best].bytes) best = i;
    if (free_[i].bytes == bytes) break;
  }
  if (best < free_.size()) {
    Block block = remove(best);
    block.discarded = 0;  // the system brings those pages back when they are used
    return block;
  }
  auto* fresh = static_cast<std::byte*>(memory_->allocate(bytes));
  if (fresh == nullptr && kept_bytes() > 0) {
    // What the pool keeps may be what is missing.
    clear();
    fresh = static_cast<std::byte*>(memory_->allocate(bytes));
  }
  return {fresh, bytes};
}

void TemporaryPool::give_back(Block block) {
  if (block.data == nullptr) return;
  if (block.bytes > kKeptBytes) {
    std::swap(large_, block);
    if (block.data != nullptr) add(block, 0);
    return;
  }
  add(block, free_.size());
  if (free_.size() <= kKeptBlocks) return;
  // A small block is no more than a piece. It goes at once: the search is linear.
  const auto small = std::find_if(free_.begin(), free_.end(), [](const Block& one) { return one.bytes <= kPiece; });
  if (small != free_.end()) memory_->release(remove(static_cast<size_t>(small - free_.begin())).data);
}

uint64_t TemporaryPool::surplus() const {
  if (kept_bytes_ > kKeptBytes) return kept_bytes_ - kKeptBytes;
  return free_.size() > kKeptBlocks ? 1 : 0;
}

void TemporaryPool::release_piece() {
  Block& oldest = free_.front();
  const uint64_t bytes = std::min(kPiece, oldest.bytes - oldest.discarded);
  memory_->discard(oldest.data + oldest.discarded, bytes);
  oldest.discarded += bytes;
  kept_bytes_ -= bytes;
  if (oldest.discarded == oldest.bytes) memory_->release(remove(0).data);
}

void TemporaryPool::add(Block block, size_t index) {
  kept_bytes_ += block.bytes - block.discarded;
  free_.insert(free_.begin() + static_cast<std::ptrdiff_t>(index), block);
}

TemporaryPool::Block TemporaryPool::remove(size_t index) {
  const Block block = free_[index];
  free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(index));
  kept_bytes_ -= block.bytes - block.discarded;
  return block;
}

void TemporaryPool::clear() {
  while (!free_.empty()) memory_->release(remove(0).data);
  if (large_.data != nullptr) memory_->release(std::exchange(large_, {}).data);
}

}  // namespace nbc
