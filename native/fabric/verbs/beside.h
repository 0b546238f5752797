// Work of the kernel that blocks, done beside the engine by a thread that begins with the first task. A task may have
// to be tried again; meanwhile others have their turns.
//
//   word      written by                                      order
//   done_     the thread, after it has put a result in line;  release; has_results() acquires
//             the owner, when it has taken the last one
//   the two queues and the flag `stopping_` are written under the mutex
//
// Threads: start() and take() are for the owner of the engine, the others for any thread. stop() is called before what
// the attempts use goes.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include "fabric/clock.h"
#include "fabric/descriptor.h"
#include "fabric/fabric.h"

namespace nbc::verbs {

// Wakes who sleeps on its descriptor. Any thread.
class Bell {
 public:
  // `what`: what the error says that there is no descriptor for. Throws FabricError.
  explicit Bell(const char* what) : bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (bell_.get() < 0) throw system_failure(what);
  }
  // Readable from ring() to drain().
  int descriptor() const { return bell_.get(); }
  void ring() {
    const uint64_t one = 1;
    static_cast<void>(!::write(bell_.get(), &one, sizeof one));
  }
  void drain() {
    uint64_t count = 0;
    static_cast<void>(!::read(bell_.get(), &count, sizeof count));
  }

 private:
  Descriptor bell_;
};

// Its bell rings when there is a result.
template <typename Task, typename Result>
class Beside : public Bell {
 public:
  static constexpr int64_t kNoResult = -1;
  // 0: the result is there; kNoResult: the task is done, and nobody waits for it; else milliseconds until it is to be
  // tried again.
  using Attempt = std::function<int64_t(Task&, Result&)>;

  // Throws FabricError, see Bell.
  Beside(Attempt attempt, const char* what) : Bell(what), attempt_(std::move(attempt)) {}
  ~Beside() { stop(); }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  // Nothing happens after stop().
  void start(Task task) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back({std::move(task), now_milliseconds()});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_one();
  }

  bool take(Result& result) {
    const std::lock_guard lock(mutex_);
    if (results_.empty()) return false;
    result = std::move(results_.front());
    results_.pop_front();
    if (results_.empty()) done_.store(false, std::memory_order_relaxed);  // under the mutex, as what sets it
    return true;
  }

  bool has_results() const { return done_.load(std::memory_order_acquire); }

  // Waits for the attempt that is under way; its result can be taken. The other tasks are dropped.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      tasks_.clear();
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Queued {
    Task task;
    int64_t not_before;  // milliseconds
  };

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      const auto next = std::min_element(tasks_.begin(), tasks_.end(),
                                         [](const Queued& a, const Queued& b) { return a.not_before < b.not_before; });
      if (const int64_t pause = next->not_before - now_milliseconds(); pause > 0) {
        changed_.wait_for(lock, std::chrono::milliseconds(pause));
        continue;  // others may have come
      }
      Task task = std::move(next->task);
      tasks_.erase(next);
      lock.unlock();
      Result result{};
      const int64_t pause = attempt_(task, result);
      lock.lock();
      if (pause == 0) {
        put_in_line(std::move(result));
      } else if (pause != kNoResult && !stopping_) {
        tasks_.push_back({std::move(task), now_milliseconds() + pause});
      }
    }
  }

  // With the mutex.
  void put_in_line(Result result) {
    results_.push_back(std::move(result));
    done_.store(true, std::memory_order_release);
    ring();
  }

  Attempt attempt_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> tasks_;
  std::deque<Result> results_;
  bool stopping_ = false;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace nbc::verbs
