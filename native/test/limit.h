// Limits of time that find hangs. They count what the machine can do: about once a second a fixed piece of work runs.
// When it takes n times as long as on an idle machine, the time since the last look counts as 1/n of it. So a busy or
// emulated machine has more time, and a test that hangs ends all the same. scripts/test/limit.mjs is the same for tests
// in TypeScript.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>

namespace nbc::check {

// How many times slower than idle the reference machine this one is now: 1 or more. The work is arithmetic in
// registers, which sanitizers leave alone.
inline double slowness() {
  constexpr uint32_t kSteps = 1u << 22;
  constexpr double kIdleSeconds = 0.0081;  // for kSteps, AMD EPYC of 2023
  const auto begin = std::chrono::steady_clock::now();
  uint64_t x = 88172645463325252u;
  for (uint32_t i = 0; i < kSteps; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    asm volatile("" : : "r"(x));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return std::max(1.0, took.count() / kIdleSeconds);
}

class Limit {
 public:
  explicit Limit(double seconds) : left_(seconds) {}
  // Whether the time is up. Cheap: it does the work above once a second.
  bool hit() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - last_;
    if (since.count() >= kTick) {
      left_ -= since.count() / slowness();
      last_ = now;
    }
    return left_ <= 0;
  }

 private:
  static constexpr double kTick = 0.9;  // seconds
  double left_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace nbc::check
