// Registrations that nobody uses any more, until a thread has let them go: the kernel unpins all of their pages.
//
//   `waiting_` and `under_way_` are written by all threads under the mutex
#pragma once
#include <condition_variable>
#include <mutex>
#include <vector>

#include "fabric/verbs/ibverbs.h"

namespace nbc::verbs {

class Dropped {
 public:
  explicit Dropped(const Library& lib) : lib_(lib) {}
  Dropped(const Dropped&) = delete;
  Dropped& operator=(const Dropped&) = delete;
  ~Dropped() { let_all_go(); }

  void add(ibv_mr* mr) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(mr);
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
    changed_.notify_all();
  }

  // Also waits for what another thread is about to let go. False: there was nothing.
  bool let_all_go() {
    std::unique_lock lock(mutex_);
    const bool any = !waiting_.empty() || under_way_ > 0;
    const std::vector<ibv_mr*> ours = std::move(waiting_);
    waiting_.clear();
    lock.unlock();
    for (ibv_mr* mr : ours) lib_.dereg_mr(mr);
    lock.lock();
    changed_.wait(lock, [this] { return under_way_ == 0; });
    return any;
  }

 private:
  const Library& lib_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ibv_mr*> waiting_;
  int under_way_ = 0;
};

}  // namespace nbc::verbs
