// A timerfd that fires at one moment.
#pragma once
#include <algorithm>
#include <cstdint>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fabric/clock.h"

namespace nbc::tcp {

// `at`: on the clock of now_milliseconds(); 0: it does not fire. A moment that has passed is soon.
inline void fire_at(int timer, int64_t at) {
  itimerspec when{};
  if (at != 0) {
    const int64_t left = std::max<int64_t>(at - now_milliseconds(), 1) + 1;
    when.it_value = {static_cast<time_t>(left / 1000), static_cast<long>(left % 1000 * 1'000'000)};
  }
  timerfd_settime(timer, 0, &when, nullptr);
}

// Makes it unreadable until it fires again.
inline void take_firing(int timer) {
  uint64_t expirations;
  static_cast<void>(!::read(timer, &expirations, sizeof expirations));
}

}  // namespace nbc::tcp
