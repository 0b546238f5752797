// Ownership of the engine. Uncontended it is one exchange each way. The progress thread only tries; the calling thread
// waits, and the progress thread sees that it is wanted and leaves after the piece that it works on.
#pragma once
#include <atomic>
#include <cstdint>
#include <ctime>

namespace nbc {

class EngineLock {
 public:
  bool try_lock() {
    uint32_t expected = kFree;
    // acquire: pairs with the release in unlock(); the owner sees what the last owner did
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void lock() {
    if (!try_lock()) lock_slow(nullptr);
  }
  // False if that takes longer.
  bool lock_within(int64_t milliseconds);
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kWanted) wake();
  }
  // Another thread waits for it now. The word `state_` cannot tell: its kWanted also stands for waiters that there may
  // have been.
  bool wanted() const { return waiters_.load(std::memory_order_relaxed) > 0; }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kWanted = 2;  // kWanted: held, and somebody may wait
  // `limit`: of CLOCK_MONOTONIC; null: none. False if it has passed.
  bool lock_slow(const timespec* limit);
  void wake();
  std::atomic<uint32_t> state_{kFree};
  std::atomic<uint32_t> waiters_{0};  // threads in lock_slow(); relaxed: a hint to the thread that holds the lock
};

}  // namespace nbc
