// A test program: any number of TEST()s, CHECKs inside them, and one TEST_MAIN(seconds).
//
//   ok NAME                      each test prints one line
//   ok NAME # skipped: REASON
//   not ok NAME — WHY
//   N passed, N failed           the last line; the exit status is 1 if anything failed
//
// An argument runs only tests whose name contains it. `seconds` is how long the whole program may take on an idle
// machine. When that time is up, a watchdog (watchdog.h) prints what every thread does and ends the program, because
// most of what can go wrong here is a hang. NBC_TEST_SECONDS overrides it; 0 turns it off, for a debugger. CHECKs may
// run on any thread of a test that is run by run_ranks() (ranks.h); a failed one ends its rank.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <net/if.h>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "test/watchdog.h"

namespace nbc::check {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#else
constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif
#else
constexpr bool kAddressSanitizer = false;
#endif

// Repetitions under a sanitizer: it costs a factor of five to twenty.
constexpr uint32_t repetitions(uint32_t plain, uint32_t sanitized) {
  return kThreadSanitizer || kAddressSanitizer ? sanitized : plain;
}

// A test that takes so many seconds, or more, has them printed.
constexpr double kTold = 1;

struct Failure {
  std::string why;
};
struct Skip {
  std::string why;
};

struct Test {
  const char* name;
  std::function<void()> run;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

// A network stack of its own for what runs here: no other process of the machine holds its ports and socket names, or
// those of a test. Only root can have one; without, the tests share the machine's.
inline void take_own_network() {
  if (unshare(CLONE_NEWNET) != 0) return;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0) std::perror("loopback of this test's network");
  if (any >= 0) close(any);
}

inline int run_tests(const char* filter) {
  Watched& at = watched();
  for (const Test& test : tests()) {
    if (std::strstr(test.name, filter) == nullptr) continue;
    std::snprintf(at.name, sizeof at.name, "%s", test.name);
    const auto begin = std::chrono::steady_clock::now();
    try {
      test.run();
      ++at.passed;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      std::printf("ok %s", test.name);
      if (took.count() >= kTold) std::printf(" (%.1f s)", took.count());
      std::printf("\n");
    } catch (const Skip& skip) {
      std::printf("ok %s # skipped: %s\n", test.name, skip.why.c_str());
    } catch (const Failure& failure) {
      ++at.failed;
      std::printf("not ok %s — %s\n", test.name, failure.why.c_str());
    }
  }
  std::printf("%u passed, %u failed\n", at.passed, at.failed);
  at.finished = true;
  return at.failed == 0 ? 0 : 1;
}

enum class Network { own, of_the_machine };

inline int main_of(int argc, char** argv, unsigned seconds, Network network) {
  const char* filter = argc > 1 ? argv[1] : "";
  if (const char* wanted = std::getenv("NBC_TEST_SECONDS"); wanted != nullptr)
    seconds = static_cast<unsigned>(std::atoi(wanted));
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  return run_watched(seconds, [=] {
    if (network == Network::own) take_own_network();
    return run_tests(filter);
  });
}

template <typename T>
std::string text_of(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<int64_t>(value);
  } else {
    out << value;
  }
  return out.str();
}

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  const char* slash = std::strrchr(file, '/');
  throw Failure{std::string(slash != nullptr ? slash + 1 : file) + ":" + std::to_string(line) + ": " + what};
}

template <typename A, typename B>
void equal(const char* file, int line, const char* texts, const A& a, const B& b) {
  if (!(a == b)) fail(file, line, std::string(texts) + ": " + text_of(a) + " and " + text_of(b));
}

}  // namespace nbc::check

#define TEST(name)                                                               \
  static void test_##name();                                                     \
  static const nbc::check::Registration registration_##name{#name, test_##name}; \
  static void test_##name()

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) nbc::check::fail(__FILE__, __LINE__, #condition); \
  } while (false)

#define CHECK_EQ(a, b) nbc::check::equal(__FILE__, __LINE__, #a " == " #b, (a), (b))

#define SKIP(why) \
  throw nbc::check::Skip { why }

#define TEST_MAIN(seconds) \
  int main(int argc, char** argv) { return nbc::check::main_of(argc, argv, seconds, nbc::check::Network::own); }

// For tests with RDMA devices, which belong to the machine's network.
#define TEST_MAIN_WITH_DEVICES(seconds)                                                   \
  int main(int argc, char** argv) {                                                       \
    return nbc::check::main_of(argc, argv, seconds, nbc::check::Network::of_the_machine); \
  }
