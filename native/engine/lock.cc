#include "engine/lock.h"

#include <cerrno>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fabric/clock.h"

namespace nbc {

bool EngineLock::lock_slow(const timespec* limit) {
  waiters_.fetch_add(1, std::memory_order_relaxed);
  bool locked = true;
  // A thread that has waited leaves kWanted behind: another one may wait, too.
  while (locked && state_.exchange(kWanted, std::memory_order_acquire) != kFree) {
    const long woken =
        syscall(SYS_futex, &state_, FUTEX_WAIT_BITSET_PRIVATE, kWanted, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
    // kWanted stays, and the next unlock() makes one system call that wakes nobody.
    if (woken < 0 && errno == ETIMEDOUT) locked = false;
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return locked;
}

bool EngineLock::lock_within(int64_t milliseconds) {
  if (try_lock()) return true;
  const int64_t until = now_milliseconds() + milliseconds;
  const timespec limit{static_cast<time_t>(until / 1000), static_cast<long>(until % 1000 * 1'000'000)};
  return lock_slow(&limit);
}

void EngineLock::wake() { syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

}  // namespace nbc
