#include "fabric/plain_memory.h"

#include <algorithm>
#include <sys/mman.h>

#include "fabric/system_memory.h"
#include "job/page.h"

namespace nbc {

PlainMemory::~PlainMemory() {
  for (const auto& [block, bytes] : blocks_) munmap(block, bytes);
}

void* PlainMemory::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const size_t page = job::system_page();
  const size_t length = std::max<size_t>(1, (bytes + page - 1) / page) * page;
  void* block = map_memory(length);
  if (block == nullptr) return nullptr;
  const std::lock_guard<std::mutex> guard(mutex_);
  blocks_.emplace(block, length);
  used_ += length;
  return block;
}

void PlainMemory::release(void* block) {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return;
  munmap(block, found->second);
  used_ -= found->second;
  blocks_.erase(found);
}

void PlainMemory::discard(void* part, size_t bytes) { madvise(part, bytes, MADV_DONTNEED); }

size_t PlainMemory::used() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return used_;
}

}  // namespace nbc
