// Which processors the threads of a case run on.
#pragma once
#include <cstdint>
#include <sched.h>

#include "case.h"

namespace nbc::patterns {

// Those that this process may use.
inline uint32_t processor_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<uint32_t>(CPU_COUNT(&set)) : 1;
}

// Binds the calling thread, and what it starts, to the n-th of these.
inline void bind_to(const cpu_set_t& all, uint32_t n) {
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &all) || n-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// What the parent may use, remembered before anybody is bound.
class Places {
 public:
  explicit Places(const Case& c) : processors_(c.processors) {
    CPU_ZERO(&all_);
    sched_getaffinity(0, sizeof all_, &all_);
  }
  // `thread`: its number in the order of Case::threads.
  void take(uint32_t thread) const {
    if (processors_ != Processors::any) bind_to(all_, processors_ == Processors::one ? 0 : thread);
  }

 private:
  Processors processors_;
  cpu_set_t all_;
};

}  // namespace nbc::patterns
