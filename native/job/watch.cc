#include "job/watch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "job/presence.h"

namespace nbc::job {
namespace {

#ifndef SYS_pidfd_open
constexpr long SYS_pidfd_open = 434;  // the same on all architectures
#endif

constexpr int kLookMilliseconds = 1000;

bool out_of_something(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENODEV; }

}  // namespace

// The state follows the process's name, in parentheses: proc(5), stat.
bool has_ended(uint32_t process) {
  if (::kill(static_cast<pid_t>(process), 0) != 0) return errno == ESRCH;
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
  const size_t name = line.rfind(')');
  return name + 2 < line.size() && (line[name + 2] == 'Z' || line[name + 2] == 'X');
}

Watch::Watch(std::shared_ptr<Segment> segment, const std::vector<uint32_t>& processes)
    : segment_(std::move(segment)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw system_failure("watching the processes of other ranks (eventfd)", errno);
  const auto self = static_cast<uint32_t>(getpid());
  for (Rank rank = 0; rank < std::min<size_t>(processes.size(), segment_->size()); ++rank) {
    if (processes[rank] == 0 || processes[rank] == self) continue;
    Descriptor fd(static_cast<int>(syscall(SYS_pidfd_open, processes[rank], 0)));
    if (!fd && out_of_something(errno)) {
      const int error = errno;
      const std::string what =
          "watching process " + std::to_string(processes[rank]) + " of rank " + std::to_string(rank) + " (pidfd_open)";
      throw system_failure(what, error);
    }
    watched_.push_back({rank, processes[rank], std::move(fd)});
  }
  if (!watched_.empty()) thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof one));
  thread_.join();
}

void Watch::run() {
  RankCaller caller;
  std::vector<pollfd> polled;
  polled.push_back({stop_.get(), POLLIN, 0});
  for (const Watched& watched : watched_) polled.push_back({watched.fd.get(), POLLIN, 0});  // poll() passes over -1
  std::vector<Watched> sought;  // those without a descriptor
  for (const Watched& watched : watched_) {
    if (!watched.fd) sought.push_back({watched.rank, watched.process, Descriptor()});
  }
  for (;;) {
    std::erase_if(sought, [&](const Watched& one) {
      const bool ended = has_ended(one.process);
      if (ended) announce_closed(*segment_, one.rank, caller);
      return ended;
    });
    if (::poll(polled.data(), polled.size(), sought.empty() ? -1 : kLookMilliseconds) < 0) continue;  // interrupted
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      announce_closed(*segment_, watched_[i - 1].rank, caller);
      polled[i].fd = -1;
      polled[i].revents = 0;
    }
  }
}

}  // namespace nbc::job
