// How a thread that polls waits: it spins, and gives its processor to others where that is what it waits for.
#pragma once
#include <cstdint>
#include <sched.h>

#include "case.h"
#include "engine/relax.h"

namespace nbc::patterns {

class Spinner {
 public:
  explicit Spinner(const Case& c) : spins_(spins(c)) {}
  // Nothing was found.
  void idle() {
    if (fruitless_ < spins_) {
      ++fruitless_;
      relax();
    } else {
      sched_yield();
    }
  }
  void found() { fruitless_ = 0; }

 private:
  static uint32_t spins(const Case& c) {
    // The peer that it waits for runs on the same processor, so it yields. A device needs no processor to be yielded.
    if (c.processors == Processors::one && c.transport == Transport::shm) return 0;
    // With a processor of its own a thread need not yield, except to the threads of the kernel that a device is made of
    // if it is software.
    if (c.processors == Processors::each && c.transport == Transport::shm) return UINT32_MAX;
    return 64;  // a microsecond or two
  }
  uint32_t spins_;
  uint32_t fruitless_ = 0;
};

}  // namespace nbc::patterns
