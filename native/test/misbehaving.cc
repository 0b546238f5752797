// Tests that do not end as tests should, for watchdog_test: what is printed then.
#include <csignal>
#include <cstdlib>
#include <sys/prctl.h>
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

TEST(has_a_child_that_waits_for_ever) {
  if (fork() == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  wait_for_ever();
}

TEST(has_a_child_with_another_program) {
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("sleep", "sleep", "1000", nullptr);
  }
  wait_for_ever();
}

TEST(is_aborted) { std::abort(); }

TEST(exits) { std::_Exit(7); }

TEST(fails) { CHECK_EQ(1, 2); }

}  // namespace

TEST_MAIN(60)
