#include "fabric/tcp/parking.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace nbc::tcp {
namespace {

enum Source : uint64_t { kBell, kTimer, kSockets, kCalls, kOther };

timespec spec_of(int64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)};
}

// Of an eventfd or a timer: how often it rang.
void take(const Socket& descriptor) {
  uint64_t times;
  static_cast<void>(!::read(descriptor.get(), &times, sizeof times));
}

bool control(const Socket& set, int operation, int member, uint32_t events, uint64_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  return epoll_ctl(set.get(), operation, member, &event) == 0;
}

void need(bool good) {
  if (!good) throw FabricError{std::string("transport 'tcp': no descriptors to sleep on: ") + std::strerror(errno)};
}

}  // namespace

Parking::Parking() : sockets_(epoll_create1(EPOLL_CLOEXEC)), calls_(epoll_create1(EPOLL_CLOEXEC)) {
  need(sockets_ && calls_);
  for (size_t i = 0; i < 2; ++i) {
    bell_[i] = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    timer_[i] = Socket(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    set_[i] = Socket(epoll_create1(EPOLL_CLOEXEC));
    need(bell_[i] && timer_[i] && set_[i] && control(set_[i], EPOLL_CTL_ADD, bell_[i].get(), EPOLLIN, kBell) &&
         control(set_[i], EPOLL_CTL_ADD, timer_[i].get(), EPOLLIN, kTimer) &&
         control(set_[i], EPOLL_CTL_ADD, sockets_.get(), 0, kSockets) &&
         control(set_[i], EPOLL_CTL_ADD, calls_.get(), EPOLLIN | EPOLLET, kCalls));
  }
}

void Parking::add(const Socket& socket, uint32_t events, uint64_t name) {
  need(control(sockets_, EPOLL_CTL_ADD, socket.get(), events, name));
}

void Parking::change(const Socket& socket, uint32_t events, uint64_t name) {
  control(sockets_, EPOLL_CTL_MOD, socket.get(), events, name);
}

void Parking::add_call(const Socket& socket, uint32_t events) {
  need(control(calls_, EPOLL_CTL_ADD, socket.get(), events, 0));
}

void Parking::change_call(const Socket& socket, uint32_t events) {
  control(calls_, EPOLL_CTL_MOD, socket.get(), events, 0);
}

void Parking::remove_call(const Socket& socket) { control(calls_, EPOLL_CTL_DEL, socket.get(), 0, 0); }

void Parking::wake_on(Sleeper who, int descriptor) {
  need(control(set_[index(who)], EPOLL_CTL_ADD, descriptor, EPOLLIN, kOther));
  shared_ = true;
}

void Parking::arm(Sleeper who) {
  if (watcher_ != who && watcher_ != Sleeper::nobody)
    control(set_[index(watcher_)], EPOLL_CTL_MOD, sockets_.get(), 0, kSockets);
  watcher_ = who;
  armed_.store(static_cast<uint32_t>(who), std::memory_order_seq_cst);
  control(set_[index(who)], EPOLL_CTL_MOD, sockets_.get(), EPOLLIN | EPOLLONESHOT, kSockets);
}

void Parking::ring(Sleeper who) {
  const uint64_t one = 1;
  static_cast<void>(!::write(bell_[index(who)].get(), &one, sizeof one));
}

void Parking::ring_later(Sleeper who, int64_t nanoseconds) {
  const itimerspec when{{}, spec_of(nanoseconds)};
  timerfd_settime(timer_[index(who)].get(), 0, &when, nullptr);
}

void Parking::sleep(Sleeper who, int64_t nanoseconds) {
  const Socket& set = set_[index(who)];
  pollfd ready{set.get(), POLLIN, 0};  // a set can be polled itself, which knows nanoseconds
  const timespec limit = spec_of(nanoseconds);
  if (ppoll(&ready, 1, nanoseconds < 0 ? nullptr : &limit, nullptr) <= 0) return;
  epoll_event fired[4];
  const int count = epoll_wait(set.get(), fired, 4, 0);
  for (int i = 0; i < count; ++i) {
    switch (fired[i].data.u64) {
      case kBell:
        take(bell_[index(who)]);
        break;
      case kTimer:
        take(timer_[index(who)]);
        break;
      case kSockets: {
        events_.fetch_add(1, std::memory_order_relaxed);
        const auto meant = static_cast<Sleeper>(armed_.exchange(0, std::memory_order_seq_cst));
        if (meant != Sleeper::nobody && meant != who) ring(meant);
        break;
      }
      case kOther:
        break;  // whoever gave it reads it
      default:
        // Whoever owns the engine and sleeps has been woken by `sockets`, where these are, too.
        called_.store(true, std::memory_order_release);
        break;
    }
  }
}

}  // namespace nbc::tcp
