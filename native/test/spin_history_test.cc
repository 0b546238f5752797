// When a waiter spins before it sleeps, and when it no longer does.
#include "engine/spin_history.h"
#include "test/check.h"

namespace {

using namespace nbc;

// Attempts to spin, all in vain, in so many times of waiting.
uint32_t attempts(SpinHistory& history, uint32_t waits) {
  uint32_t attempts = 0;
  for (uint32_t i = 0; i < waits; ++i) {
    if (!history.worth_it()) continue;
    ++attempts;
    history.in_vain();
  }
  return attempts;
}

TEST(spins_in_vain_become_rare_but_never_stop) {
  SpinHistory history;
  CHECK_EQ(attempts(history, 4), 4u);
  CHECK_EQ(attempts(history, 15), 0u);
  CHECK_EQ(attempts(history, 1), 1u);
  CHECK_EQ(attempts(history, 31), 0u);
  CHECK_EQ(attempts(history, 1), 1u);
  CHECK(attempts(history, 10'000) < 20);
  CHECK(attempts(history, 10'000) >= 9);
}

TEST(one_success_is_enough_to_spin_again) {
  SpinHistory history;
  attempts(history, 10'000);
  history.worked();
  CHECK_EQ(attempts(history, 4), 4u);
}

// Two ranks send each other a message in turn. One that spins answers in 1 µs; one that sleeps has to be woken, which
// takes 150 µs. Both begin asleep, after many spins in vain.
uint32_t turns_until_both_spin(uint32_t microseconds) {
  constexpr uint32_t kWake = 150;
  SpinHistory histories[2];
  bool spins[2] = {false, false};
  for (SpinHistory& history : histories) attempts(history, 100);
  for (uint32_t turn = 0; turn < 10'000; ++turn) {
    const uint32_t rank = turn % 2;
    const uint32_t answer = 1 + (spins[1 - rank] ? 1 : kWake);
    const bool tries = histories[rank].worth_it();
    spins[rank] = tries && answer <= microseconds;
    if (spins[rank]) {
      histories[rank].worked();
    } else if (tries) {
      histories[rank].in_vain();
    }
    if (spins[0] && spins[1]) return turn;
  }
  return UINT32_MAX;
}

TEST(a_spin_that_outlasts_a_wake_up_makes_both_ranks_fast) {
  CHECK(turns_until_both_spin(200) < 200);
  CHECK_EQ(turns_until_both_spin(50), UINT32_MAX);
}

}  // namespace

TEST_MAIN(10)
