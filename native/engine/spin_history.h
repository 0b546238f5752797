// Whether it was worth while lately to spin, or to let others run, before sleeping.
#pragma once
#include <algorithm>
#include <chrono>
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
// that one a whole slice of milliseconds, while a sleeper that is woken gets the processor almost at once. So when long
// yields take most of the time, waits sleep at once, for a time that is many times as long. Then yields are on
// probation: the first long one is enough to leave them out again. Some long ones are the work of V8 and of the system,
// although nothing else runs: with 16 ranks on two processors, to sleep after these made a barrier take 1.6 times as
// long.
class YieldHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  bool worth_it(Time now) const { return now >= again_; }
  void was_long(Time began, Time ended) {
    if (began - last_ > ended - began) long_ones_ = 0;
    last_ = ended;
    if (began >= suspected_until_ && ++long_ones_ < kTooMany) return;
    again_ = ended + kTimes * (ended - began);
    suspected_until_ = again_ + kProbation;
  }

 private:
  static constexpr uint32_t kTooMany = 5;
  static constexpr auto kProbation = std::chrono::milliseconds(10);
  // Each of eight ranks on two processors loses one slice in 64, so all of them together an eighth of the time.
  static constexpr int kTimes = 64;
  uint32_t long_ones_ = 0;  // in a row, each with less time before it than it took
  Time last_{};
  Time again_{};
  Time suspected_until_{};
};

}  // namespace nbc
