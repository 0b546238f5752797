// A rank that shares its processor lets others run before it sleeps, unless they keep the processor for long:
// YieldHistory in engine/spin_history.h. This program has a sched_yield() of its own.
#include <atomic>
#include <chrono>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine/spin_history.h"
#include "test/check.h"
#include "test/ranks.h"
#include "test/thread_network.h"

namespace {

// Of the thread that waits.
thread_local bool counts = false;
std::atomic<uint32_t> yields{0};
std::atomic<bool> others_compute{false};

}  // namespace

extern "C" int sched_yield() noexcept {
  if (counts) {
    yields.fetch_add(1, std::memory_order_relaxed);
    if (others_compute.load(std::memory_order_relaxed)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return 0;
  }
  static const auto system = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "sched_yield"));
  return system();
}

namespace {

using namespace nbc;
using namespace nbc::check;

// Series of yields, which begin with a long or a short one, in so many times of waiting.
uint32_t series(YieldHistory& history, uint32_t waits, bool are_long) {
  uint32_t series = 0;
  for (uint32_t i = 0; i < waits; ++i) {
    if (!history.worth_it()) continue;
    ++series;
    if (are_long) {
      history.was_long();
    } else {
      history.was_short();
    }
  }
  return series;
}

TEST(long_yields_become_rare_but_never_stop) {
  YieldHistory history;
  CHECK_EQ(series(history, 17, true), 1u);
  CHECK_EQ(series(history, 33, true), 1u);
  CHECK_EQ(series(history, 1, true), 1u);
  CHECK(series(history, 10'000, true) < 20);
  CHECK(series(history, 10'000, true) >= 9);
}

TEST(short_yields_make_up_for_long_ones) {
  YieldHistory history;
  CHECK_EQ(series(history, 1, true), 1u);
  CHECK_EQ(series(history, 16, false), 0u);
  CHECK_EQ(series(history, 100, false), 100u);
  // As if there had been none.
  CHECK_EQ(series(history, 1, true), 1u);
  CHECK_EQ(series(history, 17, false), 1u);
}

TEST(short_yields_between_long_ones_do_not_hide_them) {
  YieldHistory history;
  uint32_t all = 0;
  for (int i = 0; i < 2000; ++i) all += series(history, 2, false) + series(history, 1, true);
  CHECK(all < 200);
}

TEST(news_before_the_sleep_does_not_begin_a_series_that_is_left_out) {
  struct Hooked : ThreadFabric {
    using ThreadFabric::ThreadFabric;
    void arm(Sleeper who, uint32_t need) override {
      ThreadFabric::arm(who, need);
      if (armed) armed();
    }
    std::function<void()> armed;
  };
  ThreadNetwork network(2);
  RankOptions options;
  options.progress_thread = false;
  auto made = std::make_unique<Hooked>(network, 0, std::make_shared<Heap>());
  Hooked& fabric = *made;
  TestRank peer(std::make_unique<ThreadFabric>(network, 1, std::make_shared<Heap>()), options);
  TestRank me(std::move(made), options);
  const auto send = [&](uint32_t tag) { peer.wait(peer.isend(peer.filled(8, false, 1), 0, tag)); };
  const auto yields_of_wait = [&](uint32_t messages) {
    std::vector<uint32_t> receives;
    for (uint32_t tag = 0; tag < messages; ++tag) receives.push_back(me.irecv(me.plain(8), 1, tag));
    uint32_t sent = 0;
    fabric.armed = [&] {
      if (sent < messages) send(sent++);
    };
    const uint32_t before = yields.load();
    std::thread waiter([&] {
      counts = true;
      CHECK(me.engine->wait(receives.data(), receives.size(), true, -1));
    });
    waiter.join();
    for (const uint32_t receive : receives) me.finish(receive);
    return yields.load() - before;
  };
  others_compute = true;
  CHECK_EQ(yields_of_wait(1), 1u);
  CHECK_EQ(yields_of_wait(3), 0u);
  others_compute = false;
}

// A rank of two that share a processor waits for a message of the other one, which comes when it sleeps.
class Waiter {
 public:
  Waiter() : network_(2), peer_(fabric(1), options()), me_(fabric(0), options()) {}
  // How often it lets others run, in so many waits.
  uint32_t yields_of(uint32_t waits) {
    const uint32_t before = yields.load();
    for (uint32_t i = 0; i < waits; ++i) {
      const uint32_t receive = me_.irecv(me_.plain(8), 1, 0);
      std::thread waiter([&] {
        counts = true;
        me_.wait(receive);
      });
      while (!network_.is_armed(0)) std::this_thread::sleep_for(std::chrono::microseconds(50));
      peer_.wait(peer_.isend(peer_.filled(8, false, 1), 0, 0));
      waiter.join();
    }
    return yields.load() - before;
  }

 private:
  static RankOptions options() { return {.progress_thread = false}; }
  std::unique_ptr<Fabric> fabric(Rank rank) {
    return std::make_unique<ThreadFabric>(network_, rank, std::make_shared<Heap>());
  }
  ThreadNetwork network_;
  TestRank peer_, me_;
};

TEST(a_wait_beside_ranks_that_wait_lets_them_run) {
  Waiter waiter;
  // Eight each, but for those after a yield in which the machine did something else for long.
  CHECK(waiter.yields_of(100) >= 100);
}

// 49 waits: the first, the 18th and the 51st would let others run, and only once each.
TEST(a_wait_beside_programs_that_compute_sleeps_at_once) {
  Waiter waiter;
  others_compute = true;
  CHECK_EQ(waiter.yields_of(49), 2u);
  others_compute = false;
  CHECK(waiter.yields_of(200) >= 200);
}

}  // namespace

TEST_MAIN(60)
