#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/parking.h"

#include <fcntl.h>
#include <sys/epoll.h>

namespace nbc::verbs {
namespace {

// From kBell on: the bells, in their order.
enum Source : uint32_t { kChannel, kDevice, kBootstrap, kOther, kBell };

}  // namespace

Parking::Parking(std::shared_ptr<Device> device, cards::Bootstrap& bootstrap, std::vector<Bell*> bells)
    : Sleepers("verbs"), device_(std::move(device)), bootstrap_(bootstrap), bells_(std::move(bells)) {
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
    // Edge-triggered: the descriptor is read by the owner, and must not wake anybody twice until then.
    add(who, device_->context->async_fd, EPOLLIN | EPOLLET, kDevice);
    for (uint32_t i = 0; i < bells_.size(); ++i) add(who, bells_[i]->descriptor(), EPOLLIN, kBell + i);
    if (bootstrap_.descriptor() >= 0) add(who, bootstrap_.descriptor(), EPOLLIN, kBootstrap);
  }
  channel_ = device_->lib.create_comp_channel(device_->context);
  need(channel_ != nullptr);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  try {
    for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) add(who, channel_->fd, 0, kChannel);
  } catch (const FabricError&) {
    device_->lib.destroy_comp_channel(channel_);
    throw;
  }
}

Parking::~Parking() { device_->lib.destroy_comp_channel(channel_); }

void Parking::wake_on(Sleeper who, int descriptor) { add(who, descriptor, EPOLLIN, kOther); }

void Parking::arm(Sleeper who, bool any_completion) {
  if (watcher_ != who) {
    if (watcher_ != Sleeper::nobody) change(watcher_, channel_->fd, 0, kChannel);
    change(who, channel_->fd, EPOLLIN, kChannel);
    watcher_ = who;
  }
  mark_armed(who);
  ibv_req_notify_cq(queue_, any_completion ? 0 : 1);
}

// The channel may have moved to the other's set since ours was ready, and this event with it.
void Parking::take_events(Sleeper who) {
  ibv_cq* queue;
  void* context;
  uint32_t count = 0;
  while (device_->lib.get_cq_event(channel_, &queue, &context) == 0) ++count;
  unacknowledged_.fetch_add(count, std::memory_order_relaxed);
  fired(who, count);
}

void Parking::acknowledge() {
  if (const uint32_t count = unacknowledged_.exchange(0, std::memory_order_relaxed); count > 0)
    device_->lib.ack_cq_events(queue_, count);
}

bool Parking::sleep(Sleeper who, int64_t nanoseconds) {
  uint32_t sources[kMost];
  const int count = Sleepers::sleep(who, nanoseconds, sources);
  for (int i = 0; i < count; ++i) {
    switch (sources[i]) {
      case kChannel:
        take_events(who);
        break;
      case kOther:
        break;
      default:
        if (sources[i] == kBootstrap) bootstrap_.drain();
        if (sources[i] >= kBell) bells_[sources[i] - kBell]->drain();
        note_call();
        if (who == Sleeper::progress && is_armed_for(Sleeper::caller)) ring(Sleeper::caller);
        break;
    }
  }
  return count >= 0;
}

}  // namespace nbc::verbs
#endif
