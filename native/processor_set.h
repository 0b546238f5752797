// The processors that a thread may run on.
#pragma once

#include <cstddef>
#include <sched.h>
#include <sys/types.h>
#include <vector>

namespace nbc {

// More than any Linux has. cpu_set_t alone ends at 1024, and the system refuses to answer for more with it.
constexpr size_t kMaxProcessors = 8192;

class ProcessorSet {
 public:
  // None if there is no such processor.
  explicit ProcessorSet(size_t processor) : ProcessorSet() { CPU_SET_S(processor, sizeof set_, set_); }

  // Of a thread, by its number, which for the main thread is that of the process; 0: of the calling thread. Empty if
  // the system does not say.
  static ProcessorSet allowed(pid_t thread = 0) {
    ProcessorSet found;
    if (sched_getaffinity(thread, sizeof found.set_, found.set_) != 0) return {};
    return found;
  }

  size_t count() const { return static_cast<size_t>(CPU_COUNT_S(sizeof set_, set_)); }
  bool has(size_t processor) const { return CPU_ISSET_S(processor, sizeof set_, set_) != 0; }
  // Their numbers, ascending.
  std::vector<int> list() const {
    std::vector<int> found;
    const size_t most = count();
    for (size_t processor = 0; found.size() < most; ++processor) {
      if (has(processor)) found.push_back(static_cast<int>(processor));
    }
    return found;
  }

  // The calling thread may run there and nowhere else. If that is refused, false with errno: EINVAL where none of these
  // is a processor of the machine.
  bool bind() const { return sched_setaffinity(0, sizeof set_, set_) == 0; }

 private:
  ProcessorSet() { CPU_ZERO_S(sizeof set_, set_); }

  cpu_set_t set_[kMaxProcessors / CPU_SETSIZE];
};

}  // namespace nbc
