#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/parking.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace nbc::verbs {
namespace {

enum Source : uint32_t { kBell, kChannel, kDevice, kBootstrap, kOther };

bool add(int set, int descriptor, Source source, uint32_t flags = 0) {
  epoll_event event{};
  event.events = EPOLLIN | flags;
  event.data.u32 = source;
  return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

Parking::Parking(std::shared_ptr<Device> device, Bootstrap& bootstrap)
    : device_(std::move(device)), bootstrap_(bootstrap) {
  bool good = true;
  for (size_t i = 0; i < 2; ++i) {
    bell_[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    set_[i] = epoll_create1(EPOLL_CLOEXEC);
    good = good && bell_[i] >= 0 && set_[i] >= 0 && add(set_[i], bell_[i], kBell);
    // Edge-triggered: the descriptor is read by the owner, and must not wake anybody twice until then.
    good = good && add(set_[i], device_->context->async_fd, kDevice, EPOLLET);
    if (bootstrap_.descriptor() >= 0) good = good && add(set_[i], bootstrap_.descriptor(), kBootstrap);
  }
  channel_ = device_->lib.create_comp_channel(device_->context);
  if (!good || channel_ == nullptr) {
    const int error = errno;
    release();
    throw FabricError{std::string("transport 'verbs': no descriptors to sleep on: ") + std::strerror(error)};
  }
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
}

Parking::~Parking() { release(); }

void Parking::release() {
  if (channel_ != nullptr) device_->lib.destroy_comp_channel(channel_);
  channel_ = nullptr;
  for (int* descriptors : {bell_, set_}) {
    for (size_t i = 0; i < 2; ++i) {
      if (descriptors[i] >= 0) close(descriptors[i]);
      descriptors[i] = -1;
    }
  }
}

void Parking::wake_on(Sleeper who, int descriptor) {
  if (!add(set_[index(who)], descriptor, kOther))
    throw FabricError{std::string("no descriptors to sleep on: ") + std::strerror(errno)};
}

void Parking::arm(Sleeper who, bool any_completion) {
  if (watcher_ != who) {
    if (watcher_ != Sleeper::nobody) epoll_ctl(set_[index(watcher_)], EPOLL_CTL_DEL, channel_->fd, nullptr);
    add(set_[index(who)], channel_->fd, kChannel);
    watcher_ = who;
  }
  armed_.store(static_cast<uint32_t>(who), std::memory_order_seq_cst);
  ibv_req_notify_cq(queue_, any_completion ? 0 : 1);
}

void Parking::take_events(Sleeper who) {
  ibv_cq* queue;
  void* context;
  uint32_t count = 0;
  while (device_->lib.get_cq_event(channel_, &queue, &context) == 0) ++count;
  unacknowledged_.fetch_add(count, std::memory_order_relaxed);
  events_.fetch_add(count, std::memory_order_relaxed);
  // The channel may have moved to the other's set since ours was ready, and this event with it.
  const auto meant = static_cast<Sleeper>(armed_.exchange(0, std::memory_order_seq_cst));
  if (meant != Sleeper::nobody && meant != who) ring(meant);
}

void Parking::acknowledge() {
  if (const uint32_t count = unacknowledged_.exchange(0, std::memory_order_relaxed); count > 0)
    device_->lib.ack_cq_events(queue_, count);
}

void Parking::sleep(Sleeper who, int64_t nanoseconds) {
  const int set = set_[index(who)];
  pollfd ready{set, POLLIN, 0};  // a set can be polled itself, which knows nanoseconds
  timespec limit{static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)};
  if (ppoll(&ready, 1, nanoseconds < 0 ? nullptr : &limit, nullptr) <= 0) return;
  epoll_event events[5];  // as many as there are sources
  const int count = epoll_wait(set, events, 5, 0);
  for (int i = 0; i < count; ++i) {
    switch (events[i].data.u32) {
      case kBell: {
        uint64_t rings;
        static_cast<void>(read(bell_[index(who)], &rings, sizeof rings));
        break;
      }
      case kChannel:
        take_events(who);
        break;
      case kOther:
        break;
      default:
        if (events[i].data.u32 == kBootstrap) bootstrap_.drain();
        called_.store(true, std::memory_order_release);
        if (who == Sleeper::progress &&
            armed_.load(std::memory_order_seq_cst) == static_cast<uint32_t>(Sleeper::caller))
          ring(Sleeper::caller);
        break;
    }
  }
}

void Parking::ring(Sleeper who) {
  const uint64_t one = 1;
  static_cast<void>(write(bell_[index(who)], &one, sizeof one));  // can only fail where it is readable already
}

}  // namespace nbc::verbs
#endif
