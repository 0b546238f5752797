// Queue pairs are connected beside the engine, with a kernel that blocks and fails as it is told to: no device.
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <poll.h>
#include <string>
#include <vector>

#include "fabric/verbs/available.h"
#include "test/check.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/connecting.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using verbs::Connecting;
using verbs::Steps;

constexpr int64_t kLong = 60'000;  // milliseconds: longer than a test

Steps steps_of(uintptr_t pair) {
  Steps steps;
  steps.pair = reinterpret_cast<ibv_qp*>(pair);
  steps.receive.qp_state = IBV_QPS_RTR;
  steps.send.qp_state = IBV_QPS_RTS;
  return steps;
}

uintptr_t number_of(const ibv_qp* pair) { return reinterpret_cast<uintptr_t>(pair); }

Connecting::Result result_of(Connecting& connecting) {
  pollfd set{connecting.descriptor(), POLLIN, 0};
  CHECK_EQ(::poll(&set, 1, -1), 1);
  CHECK(connecting.has_results());
  connecting.drain();
  Connecting::Result result;
  CHECK(connecting.take(result));
  return result;
}

TEST(an_attempt_that_timed_out_is_repeated) {
  std::vector<int> answers = {ETIMEDOUT, EHOSTUNREACH, ETIMEDOUT, 0, 0};
  std::vector<int> states;
  size_t calls = 0;
  Connecting connecting(
      [&](ibv_qp*, ibv_qp_attr* attributes, int) {
        states.push_back(attributes->qp_state);
        return answers[calls++];
      },
      kLong);
  connecting.start(3, steps_of(1));
  const Connecting::Result result = result_of(connecting);
  CHECK_EQ(result.peer, 3u);
  CHECK_EQ(result.why, std::string());
  CHECK_EQ(calls, answers.size());
  for (size_t i = 0; i < 4; ++i) CHECK_EQ(states[i], static_cast<int>(IBV_QPS_RTR));
  CHECK_EQ(states[4], static_cast<int>(IBV_QPS_RTS));
  Connecting::Result more;
  CHECK(!connecting.take(more) && !connecting.has_results());
}

TEST(an_attempt_that_times_out_for_ever_fails_when_the_time_is_up) {
  std::atomic<int> calls{0};
  Connecting connecting(
      [&](ibv_qp*, ibv_qp_attr*, int) {
        ++calls;
        return ETIMEDOUT;
      },
      200);
  connecting.start(1, steps_of(1));
  CHECK(result_of(connecting).why.find("is there a route to the peer?") != std::string::npos);
  CHECK(calls > 1);
}

TEST(another_error_is_final) {
  for (const int step : {0, 1}) {
    int calls = 0;
    Connecting connecting([&](ibv_qp*, ibv_qp_attr*, int) { return calls++ == step ? EINVAL : 0; }, kLong);
    connecting.start(1, steps_of(1));
    const std::string why = result_of(connecting).why;
    CHECK(why.find(step == 0 ? "connecting a queue pair" : "starting a queue pair") != std::string::npos);
    CHECK(why.find("Invalid argument") != std::string::npos);
    CHECK_EQ(calls, step + 1);
  }
}

// What the kernel is asked for, and when it answers.
struct Kernel {
  std::mutex mutex;
  std::condition_variable changed;
  bool blocked = true;
  int waiting = 0;

  int wait() {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.notify_all();
    changed.wait(lock, [&] { return !blocked; });
    return 0;
  }
  void until_asked() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting > 0; });
  }
  void release() {
    const std::lock_guard lock(mutex);
    blocked = false;
    changed.notify_all();
  }
};

TEST(who_starts_is_not_blocked_by_the_kernel) {
  Kernel kernel;
  Connecting connecting([&](ibv_qp*, ibv_qp_attr*, int) { return kernel.wait(); }, kLong);
  connecting.start(1, steps_of(1));
  kernel.until_asked();
  connecting.start(2, steps_of(2));  // would never return if it waited
  CHECK(!connecting.has_results());
  kernel.release();
  const Rank first = result_of(connecting).peer;
  CHECK_EQ(first, 1u);
  Connecting::Result second;
  if (!connecting.take(second)) second = result_of(connecting);
  CHECK_EQ(second.peer, 2u);
}

TEST(a_peer_that_is_not_found_does_not_hold_up_another) {
  std::atomic<int> failed{0};
  Connecting connecting(
      [&](ibv_qp* pair, ibv_qp_attr*, int) {
        if (number_of(pair) == 2) return 0;
        ++failed;
        return ETIMEDOUT;
      },
      kLong);
  connecting.start(1, steps_of(1));
  connecting.start(2, steps_of(2));
  CHECK_EQ(result_of(connecting).peer, 2u);
  connecting.stop();
  CHECK(failed > 0);
}

TEST(stop_waits_for_the_attempt_under_way) {
  Kernel kernel;
  std::atomic<int> under_way{0};
  Connecting connecting(
      [&](ibv_qp*, ibv_qp_attr*, int) {
        ++under_way;
        const int error = kernel.wait();
        --under_way;
        return error;
      },
      kLong);
  connecting.start(1, steps_of(1));
  connecting.start(2, steps_of(2));
  kernel.until_asked();
  std::jthread releaser([&] { kernel.release(); });
  connecting.stop();
  CHECK_EQ(under_way.load(), 0);
  connecting.start(3, steps_of(3));  // nothing comes of it
}

}  // namespace
#else
TEST(connecting) { throw nbc::check::Skip{"this build has no verbs: <infiniband/verbs.h> was not found"}; }
#endif

TEST_MAIN(120)
