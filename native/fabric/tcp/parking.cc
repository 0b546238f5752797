#include "fabric/tcp/parking.h"

#include <ctime>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace nbc::tcp {
namespace {

enum Source : uint32_t { kTimer, kSockets, kCalls, kOther };

bool manage(const Descriptor& set, int operation, const Socket& socket, uint32_t events, uint64_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  return epoll_ctl(set.get(), operation, socket.get(), &event) == 0;
}

}  // namespace

Parking::Parking() : Sleepers("tcp"), sockets_(epoll_create1(EPOLL_CLOEXEC)), calls_(epoll_create1(EPOLL_CLOEXEC)) {
  need(sockets_ && calls_);
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
    timer(who) = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    need(static_cast<bool>(timer(who)));
    Sleepers::add(who, timer(who).get(), EPOLLIN, kTimer);
    Sleepers::add(who, sockets_.get(), 0, kSockets);
    Sleepers::add(who, calls_.get(), EPOLLIN | EPOLLET, kCalls);
  }
}

void Parking::add(const Socket& socket, uint32_t events, uint64_t name) {
  need(manage(sockets_, EPOLL_CTL_ADD, socket, events, name));
}

void Parking::change(const Socket& socket, uint32_t events, uint64_t name) {
  manage(sockets_, EPOLL_CTL_MOD, socket, events, name);
}

void Parking::add_call(const Socket& socket, uint32_t events) {
  need(manage(calls_, EPOLL_CTL_ADD, socket, events, 0));
}

void Parking::change_call(const Socket& socket, uint32_t events) { manage(calls_, EPOLL_CTL_MOD, socket, events, 0); }

void Parking::remove_call(const Socket& socket) { manage(calls_, EPOLL_CTL_DEL, socket, 0, 0); }

void Parking::wake_on(Sleeper who, int descriptor) {
  Sleepers::add(who, descriptor, EPOLLIN, kOther);
  shared_ = true;
}

void Parking::arm(Sleeper who) {
  if (watcher_ != who && watcher_ != Sleeper::nobody) Sleepers::change(watcher_, sockets_.get(), 0, kSockets);
  watcher_ = who;
  mark_armed(who);
  Sleepers::change(who, sockets_.get(), EPOLLIN | EPOLLONESHOT, kSockets);
}

void Parking::ring_later(Sleeper who, int64_t nanoseconds) {
  const itimerspec when{{},
                        {static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)}};
  timerfd_settime(timer(who).get(), 0, &when, nullptr);
}

void Parking::sleep(Sleeper who, int64_t nanoseconds) {
  uint32_t sources[kMost];
  const int count = Sleepers::sleep(who, nanoseconds, sources);
  for (int i = 0; i < count; ++i) {
    switch (sources[i]) {
      case kTimer: {
        uint64_t times;
        static_cast<void>(!::read(timer(who).get(), &times, sizeof times));
        break;
      }
      case kSockets:
        fired(who, 1);
        break;
      case kOther:
        break;  // its owner reads it
      default:
        // The owner of the engine, if it sleeps, has been woken by `sockets`, which has these, too.
        note_call();
        break;
    }
  }
}

}  // namespace nbc::tcp
