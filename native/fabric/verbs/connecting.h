// Connects queue pairs beside the engine. To move one to where it receives, the kernel resolves the peer's address, and
// the call blocks meanwhile, up to a second; it fails with ETIMEDOUT where the peer's machine did not answer in time,
// for example because a link is away for a moment. Such an attempt is repeated, until the peer's time has passed. The
// queue pairs take turns, so one that fails again and again delays another by one attempt at most.
//
//   word      written by                                      order
//   done_     the thread, after it has put a result in line;  release; has_results() acquires
//             the owner, when it has taken the last one
//   the two queues and the flag `stopping_` are written under the mutex
//
// Threads: start() and take() are for the owner of the engine, the others for any thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "fabric/descriptor.h"
#include "fabric/fabric.h"
#include "fabric/verbs/ibverbs.h"

namespace nbc::verbs {

// Takes one queue pair from "initialised" to "ready to send".
struct Steps {
  ibv_qp* pair = nullptr;
  ibv_qp_attr receive{};
  int receive_mask = 0;
  ibv_qp_attr send{};
  int send_mask = 0;
};

class Connecting {
 public:
  using Modify = std::function<int(ibv_qp*, ibv_qp_attr*, int)>;  // as ibv_modify_qp(3)
  struct Result {
    Rank peer = 0;
    std::string why;  // empty: it is connected
  };

  // `milliseconds`: how long an attempt is repeated. Throws FabricError.
  Connecting(Modify modify, int64_t milliseconds);
  ~Connecting();  // waits for the attempt that is under way
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;

  // The queue pair must live until its result is there, or stop() has returned.
  void start(Rank peer, const Steps& steps);
  bool take(Result& result);
  bool has_results() const { return done_.load(std::memory_order_acquire); }
  // Readable when there is a result; drain() makes it unreadable.
  int descriptor() const { return bell_.get(); }
  void drain();
  void stop();

 private:
  struct Task {
    Rank peer;
    Steps steps;
    int64_t deadline;
    int64_t not_before;
  };

  void run();
  // False: it is to be repeated.
  bool attempt(Task& task, Result& result);

  Modify modify_;
  int64_t milliseconds_;
  Descriptor bell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::deque<Result> results_;
  bool stopping_ = false;
  std::atomic<bool> done_{false};
  std::thread thread_;  // begins with the first task
};

}  // namespace nbc::verbs
