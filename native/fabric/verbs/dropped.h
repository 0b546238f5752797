// Registrations that nobody uses any more, until a thread has let them go: the kernel unpins all of their pages.
//
//   `waiting_`, `under_way_` and `gone_` are written by all threads under the mutex
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "fabric/verbs/ibverbs.h"

namespace nbc::verbs {

class Dropped {
 public:
  explicit Dropped(const Library& lib) : lib_(lib) {}
  Dropped(const Dropped&) = delete;
  Dropped& operator=(const Dropped&) = delete;
  ~Dropped() { let_all_go(0); }

  void add(ibv_mr* mr) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(mr);
  }

  // How many were let go up to now.
  uint64_t gone() {
    const std::lock_guard lock(mutex_);
    return gone_;
  }

  void let_one_go() {
    std::unique_lock lock(mutex_);
    if (waiting_.empty()) return;
    ibv_mr* const mr = waiting_.back();
    waiting_.pop_back();
    ++under_way_;
    lock.unlock();
    lib_.dereg_mr(mr);
    lock.lock();
    --under_way_;
    ++gone_;
    changed_.notify_all();
  }

  // Also waits for what another thread is about to let go. Returns whether any have gone since gone() was `before`.
  bool let_all_go(uint64_t before) {
    std::unique_lock lock(mutex_);
    const std::vector<ibv_mr*> ours = std::move(waiting_);
    waiting_.clear();
    lock.unlock();
    for (ibv_mr* mr : ours) lib_.dereg_mr(mr);
    lock.lock();
    gone_ += ours.size();
    changed_.wait(lock, [this] { return under_way_ == 0; });
    return gone_ != before;
  }

 private:
  const Library& lib_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ibv_mr*> waiting_;
  int under_way_ = 0;
  uint64_t gone_ = 0;
};

}  // namespace nbc::verbs
