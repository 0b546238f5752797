// Whether it was worth while lately to spin, or to let others run, before sleeping.
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

// A rank that shares its processor lets others run before it sleeps. If they are ranks that wait, it has the processor
// back after some turns of microseconds. If one of them computes, be it a rank or another program, sched_yield() gives
// that one a whole slice of milliseconds, while a sleeper that is woken gets the processor almost at once. So after one
// long yield, waits sleep at once, and longer after each further one. Each series that begins with a short one takes a
// little of that back: less than one long yield adds, since beside a program that computes two of three are short.
class YieldHistory {
 public:
  // Once for each series of yields.
  bool worth_it() {
    if (left_out_ == 0) return true;
    --left_out_;
    return false;
  }
  void was_long() { left_out_ = interval_ = std::clamp(2 * interval_, kFirst, kMost); }
  void was_short() { interval_ -= std::min(interval_, 1u); }

 private:
  // Series that are left out after a long yield. It lasts some 3 ms, and a wait that sleeps some 0.1 ms. So beside busy
  // processors long yields are 3 percent of the time.
  static constexpr uint32_t kFirst = 16;
  static constexpr uint32_t kMost = 1024;
  uint32_t interval_ = 0;
  uint32_t left_out_ = 0;
};

}  // namespace nbc
