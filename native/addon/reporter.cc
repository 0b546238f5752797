#include "addon/reporter.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <pthread.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "addon/reported_world.h"
#include "fabric/clock.h"
#include "processor_set.h"

namespace nbc::addon::reporter {
namespace {

// For the answers of all worlds of the process to one question. nbcrun waits for longer.
constexpr int64_t kAnswers = 1000;  // ms
constexpr int64_t kNever = ReportedWorld::kNever;

std::mutex g_mutex;  // guards the next one, also while engines are asked
// Never destroyed: the thread goes on until the process has gone.
using Worlds = std::vector<std::unique_ptr<ReportedWorld>>;
Worlds& g_worlds = *new Worlds();  // those that are open
int g_wake[2] = {-1, -1};          // from the handler and from report() to the thread; written once, before both exist
int g_socket = -1;                 // to nbcrun; the same

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

// Asks worlds in turn, all within kAnswers. With g_mutex.
class Question {
 public:
  std::optional<Status> ask(ReportedWorld& world) const {
    return world.ask(std::clamp<int64_t>(until_ - now_milliseconds(), 0, ReportedWorld::kAnswer));
  }

 private:
  int64_t until_ = now_milliseconds() + kAnswers;
};

// For nbcrun (src/cli/nbcrun/report.ts): what the rank does that is the process, or those that are its threads.
std::string line_for_launcher() {
  const std::lock_guard<std::mutex> guard(g_mutex);
  const Question question;
  std::string ranks;
  for (const auto& world : g_worlds) {
    if (!world->is_launched()) continue;
    const std::optional<Status> status = question.ask(*world);
    const std::string members = status ? status->members_for_nbcrun() : "\"caller\":\"silent\"";
    if (world->is_process()) return "{" + members + "}\n";
    if (!ranks.empty()) ranks += ",";
    ranks += "{\"rank\":" + std::to_string(world->rank()) + "," + members + "}";
  }
  return ranks.empty() ? "{\"caller\":\"closed\"}\n" : "{\"caller\":\"threads\",\"ranks\":[" + ranks + "]}\n";
}

// With g_mutex. Of all worlds, or those of one job.
std::string text_for_people(const ReportedWorld* of = nullptr) {
  const Question question;
  std::string text;
  for (const auto& world : g_worlds) {
    if (of != nullptr && !world->is_in_job_of(*of)) continue;
    const std::optional<Status> status = question.ask(*world);
    text += world->is_process() ? " " : "\n  rank " + std::to_string(world->rank()) + " is ";
    std::string said = status ? status->text() : "no answer from the thread that drives the operations\n";
    if (!world->is_process()) said.pop_back();
    text += said;
  }
  if (text.empty()) return " no world is open\n";
  return text.back() == '\n' ? text : text + "\n";
}

// With g_mutex: of a world that makes no step.
void tell_stuck(const ReportedWorld& stuck) {
  if (stuck.is_launched() && g_socket >= 0) {
    say(g_socket, "{" + stuck.members_of_stuck() + "}\n");  // nbcrun asks all ranks then
    return;
  }
  say(STDERR_FILENO, "node-nbc: no step for as long as the watchdog waits:" + text_for_people(&stuck));
  for (const auto& world : g_worlds)
    if (world->is_in_job_of(stuck)) world->told();
}

// What is to be polled, and until when.
struct Polled {
  std::vector<pollfd> files;  // wake, nbcrun, and of each world
  std::vector<const ReportedWorld*> worlds;
  int64_t due = kNever;
};

Polled polled() {
  Polled found;
  found.files = {{g_wake[0], POLLIN, 0}, {g_socket, POLLIN, 0}};
  const int64_t now = now_milliseconds();
  const std::lock_guard<std::mutex> guard(g_mutex);
  for (const auto& world : g_worlds) {
    found.files.push_back({world->monitor_descriptor(now), POLLIN, 0});
    found.worlds.push_back(world.get());
    found.due = std::min({found.due, world->watchdog_due(), world->monitor_due(now)});
  }
  return found;
}

// Worlds may have been closed, and others opened, since they were polled.
void serve_worlds(const Polled& before) {
  const std::lock_guard<std::mutex> guard(g_mutex);
  for (const auto& world : g_worlds) {
    if (world->watchdog_due() <= now_milliseconds() && world->look()) tell_stuck(*world);
    world->turn_meter_off();
    for (size_t i = 0; i < before.worlds.size(); ++i)
      if (before.worlds[i] == world.get() && before.files[2 + i].revents != 0) world->answer_monitor();
  }
}

void serve() {
  pthread_setname_np(pthread_self(), "nbc-reporter");
  // It serves the whole process; the rank that began it may be bound.
  ProcessorSet::allowed(getpid()).bind();
  for (;;) {
    Polled found = polled();
    const int64_t left = std::clamp<int64_t>(found.due - now_milliseconds(), 0, INT_MAX);
    poll(found.files.data(), found.files.size(), found.due == kNever ? -1 : static_cast<int>(left));
    serve_worlds(found);
    char byte;
    if (found.files[0].revents != 0 && read(g_wake[0], &byte, 1) == 1 && byte == 's') {
      const std::lock_guard<std::mutex> guard(g_mutex);
      say(STDERR_FILENO, "node-nbc:" + text_for_people());
    }
    if (found.files[1].revents != 0) {
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
  if (g_wake[0] < 0) return;
  {
    const std::lock_guard<std::mutex> guard(g_mutex);
    g_worlds.push_back(std::make_unique<ReportedWorld>(engine, opening));
  }
  wake('w');
}

void forget(const Engine& engine) {
  if (g_wake[0] < 0) return;
  {
    const std::lock_guard<std::mutex> guard(g_mutex);
    std::erase_if(g_worlds, [&](const auto& world) { return world->is_of(engine); });
  }
  wake('w');
}

void forget_all() {
  if (g_wake[0] < 0) return;
  const std::lock_guard<std::mutex> guard(g_mutex);
  g_worlds.clear();
}

}  // namespace nbc::addon::reporter
