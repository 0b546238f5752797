// The clock of traces: a counter of the processor, which takes 10 ns to read where clock_gettime() takes 23 (AMD EPYC,
// virtual machine). Where the counter may stop, change its rate or differ between processors, it is clock_gettime().
//
// Threads: all may read ticks(). One thread calls anchor() and anchor_if_due(), and microseconds() after it.
#pragma once
#include <cstdint>
#include <ctime>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace nbc {

// Of CLOCK_MONOTONIC.
inline int64_t monotonic_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

class TickClock {
 public:
  // `counts`: with the counter of the processor.
  explicit TickClock(bool counts = counter_is_reliable());

  // The counter has a constant rate, goes on in all idle states, and is the same on all processors.
  static bool counter_is_reliable();

  uint64_t ticks() const {
    if (counts_) [[likely]]
      return counter();
    return nanoseconds();
  }

  // Pairs a reading of the counter with one of CLOCK_MONOTONIC. Times between two pairs are interpolated, so that the
  // processes of a machine have the same time, although the rate of CLOCK_MONOTONIC is adjusted now and then.
  void anchor();
  // `now`: what ticks() has returned. About once a second.
  void anchor_if_due(uint64_t now) {
    if (now > due_) anchor();
  }
  // Of CLOCK_MONOTONIC. Ticks after the last anchor are extrapolated.
  double microseconds(uint64_t ticks) const;
  uint64_t ticks_in(double microseconds) const { return static_cast<uint64_t>(microseconds * per_microsecond_); }

  // Microseconds by which an anchor may be wrong: the time around it, and a tick, which is 40 ns on some arm64.
  double uncertainty() const { return uncertainty_ + 1 / per_microsecond_; }

 private:
  static constexpr double kAnchorInterval = 1e6;  // in microseconds
  struct Anchor {
    uint64_t ticks;
    int64_t nanoseconds;
  };

  Anchor reading();
  static double rate(const Anchor& from, const Anchor& to) {  // ticks in a microsecond
    return 1000.0 * static_cast<double>(to.ticks - from.ticks) / static_cast<double>(to.nanoseconds - from.nanoseconds);
  }

  // Apart, so that it makes nothing around ticks() larger.
  [[gnu::cold, gnu::noinline]] static uint64_t nanoseconds() { return static_cast<uint64_t>(monotonic_nanoseconds()); }
  static uint64_t counter() {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return 0;  // counter_is_reliable() is false
#endif
  }

  const bool counts_;
  std::vector<Anchor> anchors_;  // of the counter: ascending, two at least
  uint64_t due_ = UINT64_MAX;    // ticks of the next anchor
  double per_microsecond_ = 1000;
  double uncertainty_ = 0;
};

}  // namespace nbc
