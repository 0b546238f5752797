// Sleeping until the network has something, without lost wake-ups.
//
// Two threads may sleep here at a time, each for its own reason: the calling thread, which then owns the engine, and the progress thread,
// which does not. Each has an eventfd (ring_self) and an epoll set with it. The completion channel is in the set of one of the two:
// the one that the queue was armed for last. So an event wakes, and is taken from the channel by, the thread that it is meant for.
//
//   owner                                            network
//   armed = me; put the channel in my set            write completes: entry in the queue
//   arm the queue (solicited events only)            if armed: event in the channel
//   look once more; if there is something:
//     armed = nobody, and handle it
//   else sleep on my set
//
// A thread that has just woken may take an event that came after the other one armed the queue for itself: then it passes it on.
//
// Arming comes before the last look, and the device adds the entry before it looks whether it is armed: one of them sees the other.
//
//   word      written by                                         order
//   armed_    owner: arm(), disarm(); whoever takes the event    seq_cst: hand_over() in engine.cc looks back at it across the lock
//   called_   whoever sees a descriptor of another kind          release; the owner exchanges it with acquire
//
// The bootstrap's descriptor and the device's events are in both sets. Either thread may drain them; if it is the progress thread, and
// the calling thread sleeps and owns the engine, it passes that on.
#pragma once
#include <atomic>
#include <cstdint>

#include "fabric/verbs/bootstrap.h"
#include "fabric/verbs/device.h"

namespace nbc::verbs {

class Parking {
 public:
  Parking(std::shared_ptr<Device> device, Bootstrap& bootstrap);
  ~Parking();
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  ibv_comp_channel* channel() const { return channel_; }
  // For events of this queue; before anything is armed.
  void watch(ibv_cq* queue) { queue_ = queue; }

  void arm(Sleeper who, bool any_completion);
  void disarm() {
    if (armed_.load(std::memory_order_relaxed) != 0) armed_.store(0, std::memory_order_seq_cst);
  }
  bool is_armed() const { return armed_.load(std::memory_order_seq_cst) != 0; }
  // While armed for solicited events only: from now on any completion wakes.
  void arm_for_any() { ibv_req_notify_cq(queue_, 0); }
  // Another descriptor that keeps `who` from sleeping while it is readable; read by whoever gave it. Throws FabricError.
  void wake_on(Sleeper who, int descriptor);
  void sleep(Sleeper who, int64_t nanoseconds);
  void ring(Sleeper who);
  bool called() const { return called_.load(std::memory_order_relaxed); }
  bool answer_calls() { return called() && called_.exchange(false, std::memory_order_acquire); }
  uint64_t events() const { return events_.load(std::memory_order_relaxed); }
  // Events that were taken must be acknowledged before their queue can go.
  void acknowledge();

 private:
  void take_events(Sleeper who);
  void release();
  static size_t index(Sleeper who) { return who == Sleeper::progress ? 1 : 0; }

  std::shared_ptr<Device> device_;
  Bootstrap& bootstrap_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  int bell_[2] = {-1, -1};
  int set_[2] = {-1, -1};
  Sleeper watcher_ = Sleeper::nobody;  // in whose set the channel is; owner
  std::atomic<uint32_t> armed_{0};
  std::atomic<bool> called_{false};
  std::atomic<uint64_t> events_{0};
  std::atomic<uint32_t> unacknowledged_{0};
};

}  // namespace nbc::verbs
