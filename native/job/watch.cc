#include "job/watch.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "job/presence.h"

namespace nbc::shm {
namespace {

#ifndef SYS_pidfd_open
constexpr long SYS_pidfd_open = 434;  // the same on all architectures
#endif

}  // namespace

Watch::Watch(std::shared_ptr<Segment> segment, const std::vector<uint32_t>& processes) : segment_(std::move(segment)) {
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  if (stop_ < 0) return;
  const auto self = static_cast<uint32_t>(getpid());
  for (Rank rank = 0; rank < std::min<size_t>(processes.size(), segment_->size()); ++rank) {
    if (processes[rank] == 0 || processes[rank] == self) continue;
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, processes[rank], 0));
    if (fd >= 0 || errno == ESRCH) watched_.push_back({rank, fd});
  }
  if (!watched_.empty()) thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    static_cast<void>(::write(stop_, &one, sizeof one));
    thread_.join();
  }
  for (const Watched& watched : watched_) {
    if (watched.fd >= 0) ::close(watched.fd);
  }
  if (stop_ >= 0) ::close(stop_);
}

void Watch::run() {
  RankCaller caller;
  std::vector<pollfd> polled;
  polled.push_back({stop_, POLLIN, 0});
  for (const Watched& watched : watched_) {
    if (watched.fd < 0) announce_closed(*segment_, watched.rank, caller);
    polled.push_back({watched.fd, POLLIN, 0});  // poll() passes over -1
  }
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;  // interrupted
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      announce_closed(*segment_, watched_[i - 1].rank, caller);
      polled[i].fd = -1;
    }
  }
}

}  // namespace nbc::shm
