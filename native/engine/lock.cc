#include "engine/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nbc {

void EngineLock::lock_slow() {
  // Once we have waited, we must leave kWanted behind: there may be another who waits.
  while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) {
    syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kWanted, nullptr, nullptr, 0);
  }
}

void EngineLock::wake() { syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace nbc
