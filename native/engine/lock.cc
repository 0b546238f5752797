#include "engine/lock.h"

#include <chrono>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nbc {

void EngineLock::lock_slow() {
  // Once we have waited, we must leave kWanted behind: there may be another who waits.
  while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) {
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kWanted, nullptr, nullptr, 0);
  }
}

bool EngineLock::lock_within(int64_t milliseconds) {
  if (try_lock()) return true;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  // As above. If the time is up, kWanted stays, and whoever unlocks wakes somebody for nothing.
  while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    sched_yield();
  }
  return true;
}

void EngineLock::wake() { syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace nbc
