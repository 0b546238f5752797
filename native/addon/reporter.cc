#include "addon/reporter.h"

#include <algorithm>
#include <cerrno>
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

#include "fabric/clock.h"

namespace nbc::addon::reporter {
namespace {

// How long the thread that drives has to answer.
constexpr int64_t kAnswer = 500;  // ms

std::mutex g_mutex;            // guards g_reported and g_watchdog, also while the engine is asked
Engine* g_reported = nullptr;  // what the thread asks
int64_t g_watchdog = 0;
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

// Empty: no world is open, or it does not answer. `open`: one is.
std::optional<Status> ask(bool& open) {
  const std::lock_guard<std::mutex> guard(g_mutex);
  open = g_reported != nullptr;
  return open ? g_reported->ask(kAnswer) : std::nullopt;
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

// Tells of an operation that makes no step: once, until there is one.
class Watchdog {
 public:
  // Milliseconds until look() has to be called; -1: not at all.
  static int64_t period() {
    const std::lock_guard<std::mutex> guard(g_mutex);
    return g_watchdog == 0 || g_reported == nullptr ? -1 : std::max<int64_t>(g_watchdog / 4, 10);
  }
  // True: an operation has been pending, without a step of this rank, for as long as the watchdog waits.
  bool look() {
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
  if (g_socket >= 0) say(g_socket, "{\"caller\":\"here\"}\n");
  Watchdog watchdog;
  for (;;) {
    pollfd files[] = {{g_wake[0], POLLIN, 0}, {g_socket, POLLIN, 0}};
    const int ready = poll(files, 2, static_cast<int>(Watchdog::period()));
    char byte;
    if (ready == 0 && watchdog.look()) tell_stuck();
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

void report(Engine* engine, int64_t watchdog) {
  static const int number = number_in("NBC_REPORT_SIGNAL");
  static const int socket = g_socket = socket_to_launcher();
  if (number < 0 && socket < 0 && watchdog == 0 && g_wake[0] < 0) return;
  static std::once_flag once;
  std::call_once(once, [] { start(number); });
  {
    const std::lock_guard<std::mutex> guard(g_mutex);
    g_reported = engine;
    g_watchdog = watchdog;
  }
  wake('w');
}

}  // namespace nbc::addon::reporter
