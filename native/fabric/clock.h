// The clock of time limits. Cheap, and as coarse as they are.
#pragma once
#include <cstdint>
#include <ctime>

namespace nbc {

inline int64_t now_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

}  // namespace nbc
