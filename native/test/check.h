// A test program: any number of TEST()s, CHECKs inside them, and one TEST_MAIN(seconds).
//
//   ok NAME                      each test prints one line
//   ok NAME # skipped: REASON
//   not ok NAME — WHY
//   N passed, N failed           the last line; the exit status is 1 if anything failed
//
// An argument runs only tests whose name contains it. `seconds` is how long the whole program may take: then a watchdog
// ends it, because most of what can go wrong here is a hang. NBC_TEST_SECONDS overrides it. CHECKs may run on any
// thread of a test that is run by run_ranks() (ranks.h); a failed one ends its rank.
#pragma once
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

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

struct Failure {
  std::string why;
};
struct Skip {
  std::string why;
};

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

// What the watchdog prints; it may only use what is async-signal-safe.
struct Progress {
  const char* name = "";
  unsigned passed = 0;
  unsigned failed = 0;
  unsigned seconds = 0;
};
inline Progress& progress() {
  static Progress the;
  return the;
}

inline void on_alarm(int) {
  char text[256];
  const Progress& at = progress();
  // snprintf of integers and strings allocates nothing in glibc; the process is about to end anyway.
  const int length =
      std::snprintf(text, sizeof text, "not ok %s — the program did not end within %u s\n%u passed, %u failed\n",
                    at.name, at.seconds, at.passed, at.failed + 1);
  if (length > 0 && write(STDOUT_FILENO, text, static_cast<size_t>(length)) < 0) _exit(3);
  _exit(2);
}

inline int main_of(int argc, char** argv, unsigned seconds) {
  const char* filter = argc > 1 ? argv[1] : "";
  if (const char* wanted = std::getenv("NBC_TEST_SECONDS"); wanted != nullptr)
    seconds = static_cast<unsigned>(std::atoi(wanted));
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  Progress& at = progress();
  at.seconds = seconds;
  std::signal(SIGALRM, on_alarm);
  alarm(seconds);
  for (const Test& test : tests()) {
    if (std::strstr(test.name, filter) == nullptr) continue;
    at.name = test.name;
    try {
      test.run();
      ++at.passed;
      std::printf("ok %s\n", test.name);
    } catch (const Skip& skip) {
      std::printf("ok %s # skipped: %s\n", test.name, skip.why.c_str());
    } catch (const Failure& failure) {
      ++at.failed;
      std::printf("not ok %s — %s\n", test.name, failure.why.c_str());
    }
  }
  std::printf("%u passed, %u failed\n", at.passed, at.failed);
  return at.failed == 0 ? 0 : 1;
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
  int main(int argc, char** argv) { return nbc::check::main_of(argc, argv, seconds); }
