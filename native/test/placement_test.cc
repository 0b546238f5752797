// When a rank that shares its processor with a peer moves to another one.
#include <cerrno>
#include <unistd.h>

#include "engine/placement.h"
#include "processor_set.h"
#include "test/check.h"

namespace {

using namespace nbc;

// A machine of which the test says what idles.
struct Machine {
  int64_t time = 1'000'000;
  int current = 0;
  std::vector<int> allowed{0, 1, 2};
  std::vector<int64_t> idle{0, 0, 0};  // in hundredths of a millisecond
  uint32_t readings = 0;               // of idle times

  // Time passes, in which the processors are idle for so many hundredths of it.
  void pass(int64_t milliseconds, const std::vector<int>& percent) {
    time += milliseconds;
    for (size_t i = 0; i < idle.size(); ++i) idle[i] += milliseconds * percent[i];
  }
};

class Fake : public Processors {
 public:
  explicit Fake(Machine& machine) : machine_(machine) {}
  int64_t now() override { return machine_.time; }
  int current() override { return machine_.current; }
  std::vector<int> allowed() override { return machine_.allowed; }
  std::vector<int64_t> idle() override {
    ++machine_.readings;
    std::vector<int64_t> found;
    for (const int64_t hundredths : machine_.idle) found.push_back(hundredths / 100);
    return found;
  }
  bool move_to(int processor) override {
    machine_.current = processor;
    return true;
  }

 private:
  Machine& machine_;
};

struct Rank {
  Machine machine;
  Placement placement{std::make_unique<Fake>(machine)};

  // Shares its processor, again and again, for so long.
  void share(int64_t milliseconds, const std::vector<int>& percent) {
    for (int64_t i = 0; i < milliseconds; ++i) {
      for (uint32_t times = 0; times < 100; ++times) placement.shares_processor();
      machine.pass(1, percent);
    }
  }
};

TEST(a_rank_moves_to_the_processor_that_idles_most) {
  Rank rank;
  rank.share(60, {0, 80, 95});
  CHECK_EQ(rank.machine.current, 2);
  CHECK_EQ(rank.placement.moves(), 1u);
}

TEST(a_rank_stays_where_no_other_processor_idles) {
  Rank rank;
  rank.share(60'000, {100, 60, 10});
  CHECK_EQ(rank.placement.moves(), 0u);
}

TEST(a_rank_stays_on_the_processors_that_it_is_bound_to) {
  Rank rank;
  rank.machine.allowed = {0};
  rank.share(60'000, {0, 100, 100});
  CHECK_EQ(rank.placement.moves(), 0u);
}

TEST(a_rank_that_shares_its_processor_now_and_then_stays) {
  Rank rank;
  for (int i = 0; i < 63; ++i) rank.placement.shares_processor();
  rank.machine.pass(60'000, {0, 100, 100});
  // The measurement begins, and is far too old when it is asked about.
  rank.placement.shares_processor();
  rank.machine.pass(60'000, {0, 100, 100});
  for (int i = 0; i < 64; ++i) rank.placement.shares_processor();
  CHECK_EQ(rank.placement.moves(), 0u);
}

TEST(decisions_become_rare_while_they_do_not_help) {
  Rank rank;
  for (int second = 0; second < 60; ++second) {
    rank.share(1000, {0, 100, 100});
    rank.machine.current = 0;  // something puts it back
  }
  CHECK(rank.placement.moves() >= 8);
  CHECK(rank.placement.moves() <= 15);
  CHECK(rank.machine.readings <= 2 * 15);
}

TEST(what_the_system_does_not_tell_moves_no_rank) {
  Rank rank;
  rank.machine.idle.clear();
  rank.share(1000, {});
  CHECK_EQ(rank.placement.moves(), 0u);
}

TEST(the_system_tells_where_the_thread_runs_and_moves_it) {
  const std::unique_ptr<Processors> processors = system_processors();
  const std::vector<int> allowed = processors->allowed();
  CHECK(!allowed.empty());
  CHECK(processors->idle().size() > static_cast<size_t>(allowed.back()));
  CHECK(processors->idle().size() <= static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)));
  for (const int processor : allowed) CHECK(processors->move_to(processor));
  CHECK(processors->allowed() == allowed);
}

// cpu_set_t alone has no room for such processors, and to set a bit beyond it would write over other memory.
TEST(a_set_has_room_for_every_processor_that_linux_knows) {
  const ProcessorSet last(kMaxProcessors - 1);
  CHECK_EQ(last.count(), 1u);
  CHECK(last.has(kMaxProcessors - 1));
  CHECK(!last.has(CPU_SETSIZE));
  for (const size_t none : {kMaxProcessors, SIZE_MAX}) {
    const ProcessorSet empty(none);
    CHECK_EQ(empty.count(), 0u);
    CHECK(!empty.bind());
    CHECK_EQ(errno, EINVAL);
  }
  CHECK(ProcessorSet::allowed().count() > 0);
}

}  // namespace

TEST_MAIN(30)
