#include "fabric/system_memory.h"

#include <cstdint>
#include <sys/mman.h>

#include "job/page.h"

namespace nbc {
namespace {

std::byte* map_anywhere(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace

void* map_memory(size_t bytes) {
  if (bytes < kHugePage) return map_anywhere(bytes);
  // So much more that there is such a multiple; what is before it and behind goes back.
  const size_t more = kHugePage - job::system_page();
  std::byte* const all = map_anywhere(bytes + more);
  if (all == nullptr) return nullptr;
  const size_t before = -reinterpret_cast<uintptr_t>(all) % kHugePage;
  if (before > 0) munmap(all, before);
  if (before < more) munmap(all + before + bytes, more - before);
  madvise(all + before, bytes, MADV_HUGEPAGE);
  return all + before;
}

}  // namespace nbc
