// Runs a test program under a limit of time. The tests run in a child; this process watches it. When the limit is hit
// it prints what every thread of the child does, and of the processes that the tests have started, and ends the child.
//
// The limit counts what the machine can do (limit.h).
//
// The child is made before the program has other threads. Whatever the child's tests set (limits, signals, namespaces)
// stays in the child.
#pragma once
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fstream>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "test/limit.h"

namespace nbc::check {

// In memory that both processes share. The child writes `name`, `passed` and `failed` before and after each test;
// the parent reads them after the child has stopped. The rest belongs to the signal that asks one thread at a time for
// its stack: the handler writes it, then stores `answered` with release. The parent loads that with acquire, reads the
// stack, and stores 0 with release, which the next handler loads with acquire.
struct Watched {
  char name[120];
  unsigned passed;
  unsigned failed;
  bool finished;
  std::atomic<pid_t> answered;
  int depth;
  void* stack[48];
};

inline Watched& watched() {
  static Watched* const shared = [] {
    void* memory = mmap(nullptr, sizeof(Watched), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return new (memory) Watched{};
  }();
  return *shared;
}

inline void tell_stack(int) {
  const int before = errno;
  watched().answered.load(std::memory_order_acquire);  // after the thread that answered before this one
  watched().depth = backtrace(watched().stack, 48);
  watched().answered.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
  errno = before;
}

inline std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Whether a process has this program, at the same addresses, and this handler: it was forked, and has executed nothing.
inline bool is_forked(pid_t process) {
  const auto program = [](const std::string& path) {
    char text[4096] = "";
    return readlink(path.c_str(), text, sizeof text - 1) > 0 ? std::string(text) : std::string();
  };
  return program("/proc/" + std::to_string(process) + "/exe") == program("/proc/self/exe");
}

// Prints where a thread of a forked process is.
inline void print_stack(pid_t child, pid_t thread) {
  Watched& at = watched();
  at.answered.store(0, std::memory_order_release);
  if (syscall(SYS_tgkill, child, thread, SIGUSR2) != 0) return;
  for (int i = 0; i < 200 && at.answered.load(std::memory_order_acquire) != thread; ++i) usleep(10'000);
  if (at.answered.load(std::memory_order_acquire) != thread) {
    std::printf("    it does not answer\n");
    return;
  }
  for (int i = 2; i < at.depth; ++i) {  // the first two are the handler's
    Dl_info where;
    if (dladdr(at.stack[i], &where) == 0 || where.dli_fname == nullptr) continue;
    const auto offset = reinterpret_cast<uintptr_t>(at.stack[i]) - reinterpret_cast<uintptr_t>(where.dli_fbase);
    char command[512];
    std::snprintf(command, sizeof command, "addr2line -Cfips -e '%s' %#zx 2>/dev/null", where.dli_fname, offset - 1);
    char line[400] = "";
    if (FILE* pipe = popen(command, "r"); pipe != nullptr) {
      if (std::fgets(line, sizeof line, pipe) == nullptr) line[0] = '\0';
      pclose(pipe);
    }
    line[std::strcspn(line, "\n")] = '\0';
    if (line[0] != '\0' && line[0] != '?') std::printf("    %s\n", line);
  }
}

// Of a process, and of all that it has started.
inline void print_threads(pid_t child) {
  const bool forked = is_forked(child);
  std::vector<pid_t> started;
  const std::string folder = "/proc/" + std::to_string(child) + "/task";
  DIR* tasks = opendir(folder.c_str());
  if (tasks == nullptr) return;
  while (const dirent* entry = readdir(tasks)) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread == 0) continue;
    const std::string path = folder + "/" + entry->d_name;
    const std::string stat = first_line(path + "/stat");
    const size_t state = stat.rfind(')') + 2;
    std::printf("  thread %d (%s), state %c, in the kernel at %s\n", thread, first_line(path + "/comm").c_str(),
                state < stat.size() ? stat[state] : '?', first_line(path + "/wchan").c_str());
    if (forked) print_stack(child, thread);
    std::ifstream children(path + "/children");
    for (pid_t one = 0; children >> one;) started.push_back(one);
  }
  closedir(tasks);
  for (const pid_t one : started) {
    std::printf(" process %d, which process %d has started:\n", one, child);
    print_threads(one);
  }
}

// Waits until the child has ended. False: the limit was hit.
inline bool ends_within(pid_t child, double seconds) {
  const int end = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  for (Limit limit(seconds); !limit.hit();) {
    pollfd one{end, POLLIN, 0};
    if (poll(&one, 1, 1000) > 0) return close(end) == 0;
  }
  close(end);
  return false;
}

// Runs `tests` in a child and returns the exit status of the program. 0 seconds: no limit and no child, for a debugger.
inline int run_watched(double seconds, const std::function<int()>& tests) {
  Watched& at = watched();
  if (seconds == 0) return tests();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(3);
    void* none[1];
    backtrace(none, 1);  // loads what it needs, so that the handler need not
    struct sigaction action {};
    action.sa_handler = tell_stack;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, nullptr);
    return tests();
  }
  std::string why;
  if (!ends_within(child, seconds)) {
    char text[80];
    std::snprintf(text, sizeof text, "the program did not end within %.0f s", seconds);
    why = text;
    std::printf("%s; what its threads do:\n", text);
    print_threads(child);
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (at.finished && WIFEXITED(status)) _exit(WEXITSTATUS(status));
  if (why.empty()) {
    why = WIFSIGNALED(status) ? std::string("ended by signal ") + strsignal(WTERMSIG(status))
                              : "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  std::printf("not ok %s — %s\n%u passed, %u failed\n", at.name, why.c_str(), at.passed, at.failed + 1);
  _exit(2);
}

}  // namespace nbc::check
