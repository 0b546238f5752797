// Whether it was worth while lately to spin before sleeping.
#pragma once
#include <algorithm>
#include <cstdint>

namespace nbc {

// Two ranks that exchange messages are either fast (each spins, and finds the answer at once) or slow (each sleeps, and
// no spin is as long as the peer's wake-up). After some spins in vain most are left out. But one now and then is tried:
// if it lasts until the peer has woken and answered, this rank is awake when the peer tries, and both are fast again.
// Trials become rarer while they are in vain, so that they cost little beside busy processors.
class SpinHistory {
 public:
  bool worth_it() {
    if (in_vain_ < kInVain) return true;
    if (++left_out_ < interval_) return false;
    left_out_ = 0;
    return true;
  }
  void in_vain() {
    if (++in_vain_ > kInVain) interval_ = std::min(2 * interval_, kMost);
  }
  void worked() { *this = {}; }

 private:
  static constexpr uint32_t kInVain = 4;   // so many in a row, and most are left out
  static constexpr uint32_t kFirst = 16;   // then one of so many is not,
  static constexpr uint32_t kMost = 1024;  // and at last one of so many
  uint32_t in_vain_ = 0;
  uint32_t left_out_ = 0;
  uint32_t interval_ = kFirst;
};

}  // namespace nbc
