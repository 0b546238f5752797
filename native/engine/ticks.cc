#include "engine/ticks.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/prctl.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace nbc {
namespace {

// Readings of which the one with the least time around it counts: a thread may be interrupted between two clocks.
constexpr int kReadings = 8;
// Nanoseconds between two anchors at least: their distance gives the rate.
constexpr int64_t kLeastInterval = 100'000;

#if defined(__x86_64__)
// The kernel takes a counter off this list when it has found that processors differ.
bool kernel_trusts_counter() {
  std::ifstream list("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  std::string name;
  while (list >> name) {
    if (name == "tsc") return true;
  }
  return false;
}

// A process can be forbidden to read it.
bool may_read_counter() {
  int mode = 0;
  return prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE;
}
#endif

}  // namespace

bool TickClock::counter_is_reliable() {
#if defined(__x86_64__)
  constexpr unsigned kPowerManagement = 0x80000007, kInvariant = 1u << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  static const bool reliable =
      __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0 && kernel_trusts_counter();
  return reliable && may_read_counter();
#elif defined(__aarch64__)
  return true;  // the architecture says so of its virtual counter
#else
  return false;
#endif
}

TickClock::TickClock(bool counts) : counts_(counts) {
  if (!counts_) return;
  anchors_.push_back(reading());
  while (monotonic_nanoseconds() < anchors_.front().nanoseconds + kLeastInterval) {
  }
  anchor();
}

TickClock::Anchor TickClock::reading() {
  Anchor best{};
  int64_t least = INT64_MAX;
  for (int i = 0; i < kReadings; ++i) {
    const int64_t before = monotonic_nanoseconds();
    const uint64_t ticks = counter();
    const int64_t after = monotonic_nanoseconds();
    if (after - before >= least) continue;
    least = after - before;
    best = {ticks, before + least / 2};
  }
  uncertainty_ = std::max(uncertainty_, static_cast<double>(least) / 1000);
  return best;
}

void TickClock::anchor() {
  if (!counts_) return;
  const Anchor now = reading();
  if (now.nanoseconds - anchors_.back().nanoseconds < kLeastInterval) return;
  per_microsecond_ = rate(anchors_.back(), now);
  anchors_.push_back(now);
  due_ = now.ticks + ticks_in(kAnchorInterval);
}

double TickClock::microseconds(uint64_t ticks) const {
  if (!counts_) return static_cast<double>(ticks) / 1000;
  // The interval that it is in, or else the first one or the last one.
  const auto right = std::upper_bound(anchors_.begin() + 1, anchors_.end() - 1, ticks,
                                      [](uint64_t value, const Anchor& anchor) { return value < anchor.ticks; });
  const Anchor& left = *(right - 1);
  return static_cast<double>(left.nanoseconds) / 1000 +
         static_cast<double>(static_cast<int64_t>(ticks - left.ticks)) / rate(left, *right);
}

}  // namespace nbc
