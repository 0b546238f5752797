// Memory of the system: whole pages, zeroed. What is as large as a huge page begins at a multiple of one, and asks for
// them: fewer page faults, fewer pages for a network card to look up, and less time to register them. The kernel gives
// them where /sys/kernel/mm/transparent_hugepage/enabled says 'madvise', its default on most systems, or 'always'.
#pragma once
#include <cstddef>

namespace nbc {

constexpr size_t kHugePage = size_t{2} << 20;

// `bytes`: whole pages. nullptr: there is no more. munmap() takes it back.
void* map_memory(size_t bytes);

}  // namespace nbc
