// A rank that shares its processor lets others run before it sleeps, unless they keep the processor for long:
// YieldHistory in engine/spin_history.h. This program has a sched_yield() of its own.
#include <algorithm>
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

// So long that a wait which sleeps is over before another yield is tried.
constexpr auto kSlice = std::chrono::milliseconds(20);

// Of the thread that waits.
thread_local bool counts = false;
std::atomic<uint32_t> yields{0};
enum class Others { nobody, wait, compute };  // who else wants the processor
std::atomic<Others> others{Others::wait};
// Of ranks that look once and let others run in turn.
constexpr auto kTurns = std::chrono::microseconds(20);

}  // namespace

extern "C" int sched_yield() noexcept {
  if (counts) {
    yields.fetch_add(1, std::memory_order_relaxed);
    const Others now = others.load(std::memory_order_relaxed);
    if (now == Others::compute) std::this_thread::sleep_for(kSlice);
    const auto until = std::chrono::steady_clock::now() + kTurns;
    while (now == Others::wait && std::chrono::steady_clock::now() < until) {
    }
    return 0;
  }
  static const auto system = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "sched_yield"));
  return system();
}

namespace {

using namespace nbc;
using namespace nbc::check;

TEST(long_yields_that_take_most_of_the_time_are_left_out_for_many_times_as_long) {
  using std::chrono::milliseconds;
  YieldHistory history;
  YieldHistory::Time now = std::chrono::steady_clock::now();
  const auto some = [&](int count, milliseconds between) {
    for (int i = 0; i < count; ++i) {
      now += between;
      CHECK(history.worth_it(now));
      history.was_long(now, now + milliseconds(3));
      now += milliseconds(3);
    }
  };
  some(20, milliseconds(4));
  CHECK(history.worth_it(now));
  some(4, milliseconds(1));
  CHECK(!history.worth_it(now));  // the last of those before was the first of five
  CHECK(!history.worth_it(now + milliseconds(150)));
  now += milliseconds(195);
  // On probation one is enough.
  some(1, milliseconds(0));
  CHECK(!history.worth_it(now + milliseconds(150)));
  now += milliseconds(300);
  some(4, milliseconds(1));
  CHECK(history.worth_it(now));
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
  auto made = std::make_unique<Hooked>(network, 0, std::make_shared<Heap>());
  Hooked& fabric = *made;
  TestRank peer(std::make_unique<ThreadFabric>(network, 1, std::make_shared<Heap>()), mode(false));
  TestRank me(std::move(made), mode(false));
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
  others = Others::compute;
  CHECK_EQ(yields_of_wait(1), 5u);
  CHECK_EQ(yields_of_wait(3), 0u);
  others = Others::wait;
}

// A rank of two that share a processor waits for a message of the other one, which comes when it sleeps.
class Waiter {
 public:
  Waiter() : network_(2), peer_(fabric(1), mode(false)), me_(fabric(0), mode(false)) {}
  // How often it lets others run in each of so many waits.
  std::vector<uint32_t> each_of(uint32_t waits) {
    std::vector<uint32_t> each;
    for (uint32_t i = 0; i < waits; ++i) {
      const uint32_t before = yields.load();
      const uint32_t receive = me_.irecv(me_.plain(8), 1, 0);
      std::thread waiter([&] {
        counts = true;
        me_.wait(receive);
      });
      while (!network_.is_armed(0)) std::this_thread::sleep_for(std::chrono::microseconds(50));
      peer_.wait(peer_.isend(peer_.filled(8, false, 1), 0, 0));
      waiter.join();
      each.push_back(yields.load() - before);
    }
    return each;
  }
  uint32_t yields_of(uint32_t waits) {
    uint32_t sum = 0;
    for (const uint32_t each : each_of(waits)) sum += each;
    return sum;
  }

 private:
  std::unique_ptr<Fabric> fabric(Rank rank) {
    return std::make_unique<ThreadFabric>(network_, rank, std::make_shared<Heap>());
  }
  ThreadNetwork network_;
  TestRank peer_, me_;
};

TEST(a_wait_beside_ranks_that_wait_lets_them_run) {
  Waiter waiter;
  // Eight each, but for those after a yield in which the machine did something else for long.
  const std::vector<uint32_t> each = waiter.each_of(100);
  CHECK(std::count(each.begin(), each.end(), 8u) >= 10);
  // A waiter that gets up in vain begins again.
  CHECK(std::count_if(each.begin(), each.end(), [](uint32_t of_one) { return of_one > 8; }) <= 10);
}

// The shortest time between two readings of the clock.
std::chrono::nanoseconds clock_reading() {
  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 1000; ++i) {
    const auto before = std::chrono::steady_clock::now();
    shortest = std::min<std::chrono::nanoseconds>(shortest, std::chrono::steady_clock::now() - before);
  }
  return shortest;
}

TEST(a_wait_that_nobody_wants_the_processor_of_polls_for_as_long_as_one_with_its_own) {
  // The waiter takes the time of a yield, and more than 800 ns for one in which others ran.
  if (clock_reading() > std::chrono::nanoseconds(300)) SKIP("to read the clock takes longer than a yield");
  Waiter waiter;
  others = Others::nobody;
  // A yield takes longer where the machine does something else then, and counts.
  const auto longer = [](const std::vector<uint32_t>& each) {
    return std::count_if(each.begin(), each.end(), [](uint32_t of_one) { return of_one > 16; });
  };
  CHECK(longer(waiter.each_of(4)) >= 1);
  // In vain: from now on one of 16, and then of more.
  waiter.each_of(10);
  CHECK(longer(waiter.each_of(32)) <= 3);
  others = Others::wait;
}

TEST(a_wait_beside_programs_that_compute_sleeps_at_once) {
  Waiter waiter;
  others = Others::compute;
  const auto start = std::chrono::steady_clock::now();
  const uint32_t found = waiter.yields_of(50);
  const auto lasted = std::chrono::steady_clock::now() - start;
  CHECK(found >= 5);
  CHECK(found <= 5 + lasted / (30 * kSlice));
  others = Others::wait;
  // They come back: the watchdog of this program ends it otherwise.
  while (waiter.yields_of(1) == 0) {
  }
}

}  // namespace

TEST_MAIN(60)
