#include "addon/hang_report.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

namespace nbc::addon {

namespace {

std::mutex g_mutex;            // guards g_reported, also while it is described
Engine* g_reported = nullptr;  // what the reporting thread describes
int g_pipe[2] = {-1, -1};      // from the handler to the thread; written once, before both exist

void ask(int) {
  const int before = errno;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(g_pipe[1], &byte, 1);
  errno = before;
}

void answer() {
  for (char byte; read(g_pipe[0], &byte, 1) == 1;) {
    const std::lock_guard<std::mutex> guard(g_mutex);
    const std::string text = g_reported == nullptr ? std::string("node-nbc: no world is open\n")
                                                   : "node-nbc: " + g_reported->describe_pending();
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
}

void start(int number) {
  if (pipe2(g_pipe, O_CLOEXEC) != 0) return;
  std::thread(answer).detach();
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

}  // namespace

void report_on_signal(Engine* engine) {
  static const char* const number = std::getenv("NBC_REPORT_SIGNAL");
  if (number == nullptr) return;
  static std::once_flag once;
  std::call_once(once, [] { start(std::atoi(number)); });
  const std::lock_guard<std::mutex> guard(g_mutex);
  g_reported = engine;
}

}  // namespace nbc::addon
