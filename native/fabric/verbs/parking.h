// Sleeping until the network has something, without lost wake-ups (fabric/sleepers.h).
//
// The completion channel is looked for in the set of one of the two that sleep: the one that the queue was armed for
// last. So an event wakes, and is taken from the channel by, the thread that it is meant for.
//
//   owner                                            network
//   armed = me; look for the channel in my set           write completes: entry in the queue
//   arm the queue (solicited events only)            if armed: event in the channel
//   look once more; if there is something:
//     armed = nobody, and handle it
//   else sleep on my set
//
// A thread that has just woken may take an event that came after the other one armed the queue for itself: then it
// passes it on.
//
// Arming comes before the last look, and the device adds the entry before it looks whether it is armed: one of them
// sees the other.
//
// The descriptors of the bootstrap, of what is done beside the engine, and of the device's events are in both sets;
// they are calls. Either thread may drain them; if it is the progress thread, and the calling thread sleeps and owns
// the engine, it passes that on.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/sleepers.h"
#include "fabric/cards/bootstrap.h"
#include "fabric/verbs/beside.h"
#include "fabric/verbs/device.h"

namespace nbc::verbs {

class Parking : public Sleepers {
 public:
  // `bells`: they live as long as this. Throws FabricError.
  Parking(std::shared_ptr<Device> device, cards::Bootstrap& bootstrap, std::vector<Bell*> bells);
  ~Parking();
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  ibv_comp_channel* channel() const { return channel_; }
  // For events of this queue; before anything is armed.
  void watch(ibv_cq* queue) { queue_ = queue; }

  void arm(Sleeper who, bool any_completion);
  // While armed for solicited events only: from now on any completion wakes.
  void arm_for_any() { ibv_req_notify_cq(queue_, 0); }
  // Another descriptor that keeps `who` from sleeping while it is readable; read by its owner. Throws
  // FabricError.
  void wake_on(Sleeper who, int descriptor);
  // False: the time has passed.
  bool sleep(Sleeper who, int64_t nanoseconds);
  // Events that were taken must be acknowledged before their queue can go.
  void acknowledge();

 private:
  void take_events(Sleeper who);

  std::shared_ptr<Device> device_;
  cards::Bootstrap& bootstrap_;
  std::vector<Bell*> bells_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  Sleeper watcher_ = Sleeper::nobody;  // in whose set the channel is; owner
  std::atomic<uint32_t> unacknowledged_{0};
};

}  // namespace nbc::verbs
