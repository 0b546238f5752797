#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/connecting.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/eventfd.h>

#include "fabric/clock.h"

namespace nbc::verbs {
namespace {

constexpr int64_t kPauseMilliseconds = 50;  // between two attempts of one queue pair, where they fail at once

bool may_pass(int error) { return error == ETIMEDOUT || error == EHOSTUNREACH || error == EAGAIN; }

}  // namespace

Connecting::Connecting(Modify modify, int64_t milliseconds)
    : modify_(std::move(modify)), milliseconds_(milliseconds), bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (bell_.get() < 0) throw system_failure("transport 'verbs': no descriptor to connect with");
}

Connecting::~Connecting() { stop(); }

void Connecting::start(Rank peer, const Steps& steps) {
  const int64_t now = now_milliseconds();
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  tasks_.push_back({peer, steps, now + milliseconds_, now});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

bool Connecting::take(Result& result) {
  const std::lock_guard lock(mutex_);
  if (results_.empty()) return false;
  result = std::move(results_.front());
  results_.pop_front();
  if (results_.empty()) done_.store(false, std::memory_order_relaxed);  // under the mutex, as what sets it
  return true;
}

void Connecting::drain() {
  uint64_t count = 0;
  static_cast<void>(!::read(bell_.get(), &count, sizeof count));
}

void Connecting::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Connecting::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    const auto next = std::min_element(tasks_.begin(), tasks_.end(),
                                       [](const Task& a, const Task& b) { return a.not_before < b.not_before; });
    if (const int64_t pause = next->not_before - now_milliseconds(); pause > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(pause));
      continue;  // others may have come
    }
    Task task = *next;
    tasks_.erase(next);
    lock.unlock();
    Result result{task.peer, {}};
    const bool decided = attempt(task, result);
    lock.lock();
    if (stopping_) return;
    if (!decided) {
      tasks_.push_back(task);
      continue;
    }
    results_.push_back(std::move(result));
    done_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    static_cast<void>(!::write(bell_.get(), &one, sizeof one));
  }
}

bool Connecting::attempt(Task& task, Result& result) {
  Steps& steps = task.steps;
  int error = modify_(steps.pair, &steps.receive, steps.receive_mask);
  if (may_pass(error) && now_milliseconds() < task.deadline) {
    task.not_before = now_milliseconds() + kPauseMilliseconds;
    return false;
  }
  const char* what = "connecting a queue pair (is there a route to the peer?)";
  if (error == 0) {
    what = "starting a queue pair";
    error = modify_(steps.pair, &steps.send, steps.send_mask);
  }
  if (error != 0) result.why = std::string("transport 'verbs': ") + what + ": " + std::strerror(error);
  return true;
}

}  // namespace nbc::verbs
#endif
