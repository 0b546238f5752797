// Tests that do not end as tests should, for watchdog_test: what is printed then.
#include <cstdlib>
#include <thread>
#include <unistd.h>

#include "test/check.h"

namespace {

TEST(passes) { CHECK(true); }

[[gnu::noinline]] void wait_for_ever() {
  for (;;) pause();
}

TEST(waits_for_ever) {
  std::thread other(wait_for_ever);
  other.join();
}

TEST(is_aborted) { std::abort(); }

TEST(exits) { std::_Exit(7); }

TEST(fails) { CHECK_EQ(1, 2); }

}  // namespace

TEST_MAIN(60)
