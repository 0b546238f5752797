// Limits of time of tests, and what a program of tests prints that does not end by itself (misbehaving.cc).
#include <array>
#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "test/check.h"

namespace {

using namespace nbc;

struct Outcome {
  int status;
  std::string output;
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

// Runs one test of misbehaving, which lies beside this program. It has `seconds` of an idle machine.
Outcome run(const std::string& test, unsigned seconds) {
  std::array<char, 4096> path{};
  CHECK(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  const std::string here(path.data());
  const std::string program = here.substr(0, here.rfind('/') + 1) + "misbehaving";
  const std::string command = "NBC_TEST_SECONDS=" + std::to_string(seconds) + " '" + program + "' " + test + " 2>&1";
  Outcome outcome{};
  FILE* pipe = popen(command.c_str(), "r");
  CHECK(pipe != nullptr);
  std::array<char, 400> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) outcome.output += line.data();
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

// Runs one test of misbehaving under a limit that is not hit.
void check_outcome(const std::string& test, int status, std::initializer_list<const char*> says) {
  const Outcome outcome = run(test, 60);
  CHECK_EQ(outcome.status, status);
  for (const char* text : says) CHECK(outcome.says(text));
}

TEST(a_program_that_ends_keeps_its_status) {
  check_outcome("passes", 0, {"ok passes\n1 passed, 0 failed\n"});
  check_outcome("fails", 1, {"not ok fails", "0 passed, 1 failed\n"});
}

TEST(a_program_that_hangs_is_ended_and_its_threads_are_told) {
  const Outcome outcome = run("waits_for_ever", 1);
  CHECK_EQ(outcome.status, 2);
  CHECK(outcome.says("the program did not end within 1 s; what its threads do:\n"));
  size_t threads = 0;
  for (size_t at = 0; (at = outcome.output.find("  thread ", at)) != std::string::npos; ++at) ++threads;
  CHECK(threads >= 2);  // ThreadSanitizer has some of its own
  CHECK(outcome.says("not ok waits_for_ever"));
  CHECK(outcome.says("0 passed, 1 failed\n"));
}

TEST(processes_that_a_program_has_started_are_told_of) {
  const Outcome forked = run("has_a_child_that_waits_for_ever", 1), other = run("has_a_child_with_another_program", 1);
  for (const Outcome* outcome : {&forked, &other}) {
    CHECK_EQ(outcome->status, 2);
    const size_t child = outcome->output.find(" process ");
    CHECK(child != std::string::npos);
    CHECK(outcome->output.find("  thread ", child) != std::string::npos);
  }
  // Nothing but a copy of the program answers the signal that asks for the stack; it would end any other.
  CHECK(other.says("(sleep)"));
}

TEST(a_program_that_ends_too_early_is_a_failure_of_the_test_it_was_in) {
  check_outcome("is_aborted", 2, {"not ok is_aborted — ended by signal Aborted\n0 passed, 1 failed\n"});
  check_outcome("exits", 2, {"not ok exits — ended with status 7\n0 passed, 1 failed\n"});
}

TEST(a_limit_is_hit_after_its_time_and_not_before) {
  CHECK(check::slowness() >= 1);
  const auto begin = std::chrono::steady_clock::now();
  check::Limit soon(1.5), late(1e6);
  while (!soon.hit()) {
    CHECK(!late.hit());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // A busy machine has more time, none has less.
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(1500));
}

}  // namespace

TEST_MAIN(120)
