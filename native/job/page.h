// The size of a page of memory: 4 KiB, and on some processors 16 or 64 KiB.
#pragma once
#include <cstddef>
#include <unistd.h>

namespace nbc::job {

inline size_t system_page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace nbc::job
