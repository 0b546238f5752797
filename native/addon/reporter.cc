#include "addon/reporter.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <poll.h>
#include <pthread.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "addon/monitor.h"
#include "fabric/clock.h"

namespace nbc::addon::reporter {
namespace {

// How long the thread that drives has to answer.
constexpr int64_t kAnswer = 500;  // ms
// Between two answers to nbctop, so that clients that ask all the time take little of the rank's.
constexpr int64_t kPause = 20;  // ms
// The meter goes on for so long after an answer. nbctop asks every 10 s at least.
constexpr int64_t kMetered = 30'000;  // ms

std::mutex g_mutex;            // guards the next ones, also while the engine is asked
Engine* g_reported = nullptr;  // what the thread asks
int64_t g_watchdog = 0;
// Never destroyed: the thread goes on until the process has gone.
std::string& g_place = *new std::string();  // members of JSON: which rank this is, for nbctop
Monitor& g_monitor = *new Monitor();
int g_wake[2] = {-1, -1};  // from the handler and from report() to the thread; written once, before both exist
int g_socket = -1;         // to nbcrun; the same

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

// The socket to nbcrun, which started this very process; -1: there is none. A process that a rank started has the
// variable, too, but there the number is that of another file, or of none.
int socket_to_launcher() {
  const int descriptor = number_in("NBC_REPORT_FD");
  ucred peer{};
  socklen_t length = sizeof peer;
  if (descriptor < 0 || getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
  if (peer.pid != getppid()) return -1;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return descriptor;
}

void wake(char what) {
  const int before = errno;
  [[maybe_unused]] const ssize_t written = write(g_wake[1], &what, 1);
  errno = before;
}

void on_signal(int) { wake('s'); }

void say(int descriptor, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = descriptor == STDERR_FILENO
                                ? write(descriptor, text.data() + at, text.size() - at)
                                : send(descriptor, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

// With g_mutex. Empty: no world is open, or it does not answer.
std::optional<Status> ask_locked(Engine::Metering metering) {
  return g_reported == nullptr ? std::nullopt : g_reported->ask(kAnswer, metering);
}

// `open`: a world is.
std::optional<Status> ask(bool& open) {
  const std::lock_guard<std::mutex> guard(g_mutex);
  open = g_reported != nullptr;
  return ask_locked(Engine::Metering::as_it_is);
}

std::string line_for_launcher() {
  bool open;
  const std::optional<Status> status = ask(open);
  if (status) return status->json();
  return open ? "{\"caller\":\"silent\"}\n" : "{\"caller\":\"closed\"}\n";
}

std::string text_for_people() {
  bool open;
  const std::optional<Status> status = ask(open);
  if (status) return status->text();
  return open ? "no answer from the thread that drives the operations\n" : "no world is open\n";
}

constexpr int64_t kNever = INT64_MAX;  // ms of now_milliseconds()

// Answers nbctop, but not all the time.
class Answers {
 public:
  // What is to be polled; -1: nothing, at present.
  int descriptor() const {
    if (now_milliseconds() < pauses_until_) return -1;
    const std::lock_guard<std::mutex> guard(g_mutex);
    return g_monitor.descriptor();
  }
  // When descriptor() may change, or turn_off() has to be called.
  int64_t due() const { return now_milliseconds() < pauses_until_ ? pauses_until_ : metered_until_; }
  void answer() {
    const std::lock_guard<std::mutex> guard(g_mutex);
    g_monitor.answer([this] {
      metered_until_ = now_milliseconds() + kMetered;
      const std::optional<Status> status = ask_locked(Engine::Metering::on);
      return "{" + g_place + "," + (status ? status->members() : "\"caller\":\"silent\"") + "}\n";
    });
    pauses_until_ = now_milliseconds() + kPause;
  }
  void turn_off() {
    if (now_milliseconds() < metered_until_) return;
    const std::lock_guard<std::mutex> guard(g_mutex);
    const bool answered = g_reported == nullptr || ask_locked(Engine::Metering::off);
    metered_until_ = answered ? kNever : now_milliseconds() + kMetered;
  }

 private:
  int64_t pauses_until_ = 0;
  int64_t metered_until_ = kNever;
};

// Tells of an operation that makes no step: once, until there is one.
class Watchdog {
 public:
  // When look() has to be called; kNever: not at all.
  int64_t due() const {
    const std::lock_guard<std::mutex> guard(g_mutex);
    if (g_watchdog == 0 || g_reported == nullptr) return kNever;
    return looked_ + std::max<int64_t>(g_watchdog / 4, 10);
  }
  // True: an operation has been pending, without a step of this rank, for as long as the watchdog waits.
  bool look() {
    looked_ = now_milliseconds();
    bool open;
    const std::optional<Status> status = ask(open);
    if (!status || status->pending == 0) {
      since_ = -1;
      return false;
    }
    const int64_t now = now_milliseconds();
    if (since_ < 0 || status->steps != steps_ || status->pending != pending_) {
      since_ = std::max(now - status->operations.front().milliseconds, since_ < 0 ? 0 : now);
      steps_ = status->steps;
      pending_ = status->pending;
      told_ = false;
    }
    if (told_ || now - since_ < limit()) return false;
    told_ = true;
    return true;
  }

 private:
  static int64_t limit() {
    const std::lock_guard<std::mutex> guard(g_mutex);
    return g_watchdog == 0 ? INT64_MAX : g_watchdog;
  }
  int64_t looked_ = now_milliseconds();
  int64_t since_ = -1;  // of the last step that was seen; -1: nothing was pending
  uint64_t steps_ = 0;
  uint64_t pending_ = 0;
  bool told_ = false;
};

void tell_stuck() {
  if (g_socket >= 0) {
    say(g_socket, "{\"caller\":\"stuck\"}\n");  // nbcrun asks all ranks then
  } else {
    say(STDERR_FILENO, "node-nbc: no step for as long as the watchdog waits: " + text_for_people());
  }
}

void serve() {
  pthread_setname_np(pthread_self(), "nbc-reporter");
  Watchdog watchdog;
  Answers answers;
  for (;;) {
    pollfd files[] = {{g_wake[0], POLLIN, 0}, {g_socket, POLLIN, 0}, {answers.descriptor(), POLLIN, 0}};
    const int64_t due = std::min(watchdog.due(), answers.due());
    const int64_t left = std::clamp<int64_t>(due - now_milliseconds(), 0, INT_MAX);
    const int ready = poll(files, 3, due == kNever ? -1 : static_cast<int>(left));
    char byte;
    if (watchdog.due() <= now_milliseconds() && watchdog.look()) tell_stuck();
    answers.turn_off();
    // Another descriptor may have its number by now: answer() does not block.
    if (ready > 0 && files[2].revents != 0) answers.answer();
    if (ready > 0 && files[0].revents != 0 && read(g_wake[0], &byte, 1) == 1 && byte == 's')
      say(STDERR_FILENO, "node-nbc: " + text_for_people());
    if (ready > 0 && files[1].revents != 0) {
      if (read(g_socket, &byte, 1) == 1) {
        say(g_socket, line_for_launcher());
      } else {
        g_socket = -1;  // nbcrun has ended; only this thread uses it
      }
    }
  }
}

void start(int number) {
  if (pipe2(g_wake, O_CLOEXEC) != 0) return;
  // Before init() returns: the thread may run much later.
  if (g_socket >= 0) say(g_socket, "{\"caller\":\"here\"}\n");
  try {
    std::thread(serve).detach();
  } catch (const std::system_error&) {
    return;  // no thread, no reports
  }
  if (number < 0) return;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

}  // namespace

void report(Engine& engine, const Opening& opening) {
  static const int number = number_in("NBC_REPORT_SIGNAL");
  static const int socket = g_socket = socket_to_launcher();
  const bool wanted = number >= 0 || socket >= 0 || opening.watchdog > 0 || !opening.monitor.empty();
  if (!wanted && g_wake[0] < 0) return;
  static std::once_flag once;
  std::call_once(once, [] { start(number); });
  {
    const std::lock_guard<std::mutex> guard(g_mutex);
    g_reported = &engine;
    g_watchdog = opening.watchdog;
    const auto member = [](const char* name, int64_t value) {
      return std::string("\"") + name + "\":" + std::to_string(value);
    };
    // The ranks of a job on one machine have one parent, whatever the launcher is.
    g_place = member("job", opening.size == 1 ? getpid() : getppid()) + "," + member("process", getpid()) + "," +
              member("rank", opening.rank) + "," + member("size", opening.size);
    if (g_wake[0] >= 0) g_monitor.open(opening.monitor);
  }
  wake('w');
}

void forget() {
  if (g_wake[0] < 0) return;
  {
    const std::lock_guard<std::mutex> guard(g_mutex);
    g_reported = nullptr;
    g_watchdog = 0;
    g_monitor.close();
  }
  wake('w');
}

}  // namespace nbc::addon::reporter
