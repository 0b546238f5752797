#include "fabric/sleepers.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace nbc {
namespace {

constexpr uint32_t kBell = UINT32_MAX;

}  // namespace

Sleepers::Sleepers(std::string transport) : transport_(std::move(transport)) {
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
    bell_[index(who)] = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    set_[index(who)] = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    need(bell_[index(who)] && set_[index(who)]);
    add(who, bell_[index(who)].get(), EPOLLIN, kBell);
  }
}

void Sleepers::need(bool good) const {
  if (!good) throw system_failure("transport '" + transport_ + "': no descriptors to sleep on");
}

bool Sleepers::control(Sleeper who, int operation, int descriptor, uint32_t events, uint32_t name) const {
  epoll_event event{};
  event.events = events;
  event.data.u32 = name;
  return epoll_ctl(set_[index(who)].get(), operation, descriptor, &event) == 0;
}

void Sleepers::add(Sleeper who, int descriptor, uint32_t events, uint32_t name) {
  need(control(who, EPOLL_CTL_ADD, descriptor, events, name));
}

void Sleepers::change(Sleeper who, int descriptor, uint32_t events, uint32_t name) {
  control(who, EPOLL_CTL_MOD, descriptor, events, name);
}

void Sleepers::ring(Sleeper who) {
  const uint64_t one = 1;
  static_cast<void>(!::write(bell_[index(who)].get(), &one, sizeof one));  // can only fail where it is readable already
}

void Sleepers::fired(Sleeper who, uint32_t times) {
  events_.fetch_add(times, std::memory_order_relaxed);
  const auto meant = static_cast<Sleeper>(armed_.exchange(0, std::memory_order_seq_cst));
  if (meant != Sleeper::nobody && meant != who) ring(meant);
}

int Sleepers::sleep(Sleeper who, int64_t nanoseconds, uint32_t* out) {
  const Descriptor& set = set_[index(who)];
  pollfd ready{set.get(), POLLIN, 0};  // a set can be polled itself, which knows nanoseconds
  const timespec limit{static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)};
  const int woken = ppoll(&ready, 1, nanoseconds < 0 ? nullptr : &limit, nullptr);
  if (woken <= 0) return woken == 0 ? -1 : 0;
  epoll_event events[kMost + 1];
  const int count = epoll_wait(set.get(), events, kMost + 1, 0);
  int named = 0;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u32 == kBell) {
      uint64_t rings;
      static_cast<void>(!::read(bell_[index(who)].get(), &rings, sizeof rings));
    } else {
      out[named++] = events[i].data.u32;
    }
  }
  return named;
}

}  // namespace nbc
