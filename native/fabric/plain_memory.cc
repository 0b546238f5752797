#include "fabric/plain_memory.h"

#include <algorithm>
#include <cstdint>
#include <sys/mman.h>

#include "fabric/system_memory.h"
#include "job/limits.h"
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

std::string PlainMemory::why() const {
  const size_t limit = job::address_space_limit();
  std::string text =
      "the system has no more memory for this process, which exposes " + std::to_string(used()) + " bytes";
  if (limit != SIZE_MAX)
    text += "; its limit of address space is " + std::to_string(limit) + " bytes (ulimit -v), of which " +
            std::to_string(job::address_space_in_use()) + " are in use";
  return text + ". Use smaller buffers or fewer ranks, raise the limit, or give the machine or container more memory";
}

}  // namespace nbc
