#include "fabric/shm/doorbell.h"

#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nbc::shm {
namespace {

// Beside the Sleeper, which takes the two lowest bits.
constexpr uint32_t kOnSocket = 4;
constexpr uint32_t kProgressToo = 8;
constexpr uint32_t kSleeperMask = 3;

std::atomic<uint32_t>& word_of(DoorbellLine& bell, Sleeper who) {
  return who == Sleeper::progress ? bell.rung_progress : bell.rung_caller;
}

}  // namespace

uint32_t doorbell_ticket(DoorbellLine& bell, Sleeper who) {
  return word_of(bell, who).load(std::memory_order_acquire);  // pairs with the release in doorbell_wake
}

void doorbell_arm(DoorbellLine& bell, Armed armed, uint32_t need) {
  const uint32_t value =
      static_cast<uint32_t>(armed.who) | (armed.on_socket ? kOnSocket : 0) | (armed.progress_too ? kProgressToo : 0);
  bell.need.store(static_cast<int32_t>(need), std::memory_order_relaxed);
  bell.armed.store(value, std::memory_order_release);   // need before armed
  std::atomic_thread_fence(std::memory_order_seq_cst);  // F1
}

void doorbell_disarm(DoorbellLine& bell) {
  // Reading first keeps the line shared with its readers when nobody had armed it, which is the fast path.
  if (bell.armed.load(std::memory_order_relaxed) != 0) bell.armed.store(0, std::memory_order_relaxed);
}

bool doorbell_add_progress(DoorbellLine& bell) {
  uint32_t armed = bell.armed.load(std::memory_order_relaxed);
  // Only writers change the word meanwhile, and only to 0. release: what doorbell_arm stored before is still said.
  return armed != 0 && bell.armed.compare_exchange_strong(armed, armed | kProgressToo, std::memory_order_acq_rel);
}

bool doorbell_is_armed(const DoorbellLine& bell) { return bell.armed.load(std::memory_order_acquire) != 0; }

void doorbell_sleep(DoorbellLine& bell, Sleeper who, uint32_t ticket, int64_t nanoseconds) {
  timespec limit{static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)};
  // Not FUTEX_PRIVATE: the word is shared between processes. Interrupted or late: the caller looks again anyway.
  syscall(SYS_futex, &word_of(bell, who), FUTEX_WAIT, ticket, nanoseconds < 0 ? nullptr : &limit, nullptr, 0);
}

Armed doorbell_count(DoorbellLine& bell, uint32_t messages) {
  if (bell.armed.load(std::memory_order_acquire) == 0) return {};  // acquire: see `need` of the same arming
  const auto count = static_cast<int32_t>(messages);
  if (bell.need.fetch_sub(count, std::memory_order_acq_rel) > count) return {};
  return doorbell_take(bell);  // nobody: another writer was faster, or the sleeper got up by itself
}

Armed doorbell_take(DoorbellLine& bell) {
  const uint32_t value = bell.armed.exchange(0, std::memory_order_acq_rel);
  return {static_cast<Sleeper>(value & kSleeperMask), (value & kOnSocket) != 0, (value & kProgressToo) != 0};
}

void doorbell_wake(DoorbellLine& bell, Sleeper who) {
  std::atomic<uint32_t>& word = word_of(bell, who);
  word.fetch_add(1, std::memory_order_release);  // pairs with doorbell_ticket
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace nbc::shm
