// Sleeping until a socket has something, without lost wake-ups.
//
// Two threads may sleep here at a time: the calling thread, which then owns the engine, and the progress thread, which does not. Each has an
// eventfd (ring), a timer (ring_later), and an epoll set with both. All sockets are in one more set, `sockets`, which is in both of these, once-only: it wakes
// whom it was armed for, once, and nobody until it is armed again.
//
//   arm(who)   enables `sockets` in who's set. Something that is there already makes it fire at once, so no look is needed in between
//   a firing   takes `armed_` back; if it was meant for the other by now, it is passed on
//
// What asks for a connection must be answered even if nobody is armed: the listening socket and the handshakes are in a set of their own, `calls`,
// which is in both sets edge-triggered: it sets `called_`, and the owner answers.
//
//   word      written by                                         order
//   armed_    owner: arm(), disarm(); whoever sees the firing    seq_cst: hand_over() in engine.cc looks back at it across the lock
//   called_   whoever sees `calls`                               release; the owner exchanges it with acquire
#pragma once
#include <atomic>
#include <cstdint>

#include "fabric/fabric.h"
#include "fabric/tcp/socket.h"

namespace nbc::tcp {

class Parking {
 public:
  // Throws FabricError.
  Parking();

  // Sockets whose readiness poll() looks for: `events` of epoll, `name` comes back. add_call: also a call.
  void add(const Socket& socket, uint32_t events, uint64_t name);
  void change(const Socket& socket, uint32_t events, uint64_t name);
  void add_call(const Socket& socket, uint32_t events);
  // Of what is there already: a call, too.
  void change_call(const Socket& socket, uint32_t events);
  void remove_call(const Socket& socket);
  int sockets() const { return sockets_.get(); }

  // FarFabric::wake_on().
  void wake_on(Sleeper who, int descriptor);
  bool shared() const { return shared_; }
  void arm(Sleeper who);
  void disarm() {
    if (armed_.load(std::memory_order_relaxed) != 0) armed_.store(0, std::memory_order_seq_cst);
  }
  bool is_armed() const { return armed_.load(std::memory_order_seq_cst) != 0; }
  void sleep(Sleeper who, int64_t nanoseconds);
  void ring(Sleeper who);
  void ring_later(Sleeper who, int64_t nanoseconds);
  bool called() const { return called_.load(std::memory_order_relaxed); }
  void answer_calls() {
    if (called()) called_.exchange(false, std::memory_order_acquire);
  }
  uint64_t events() const { return events_.load(std::memory_order_relaxed); }

 private:
  static size_t index(Sleeper who) { return who == Sleeper::progress ? 1 : 0; }

  Socket sockets_;  // descriptors of other kinds, closed the same way
  Socket calls_;
  Socket bell_[2];
  Socket timer_[2];
  Socket set_[2];
  bool shared_ = false;                // another fabric's descriptors are in the sets, too
  Sleeper watcher_ = Sleeper::nobody;  // in whose set `sockets` may fire; owner
  std::atomic<uint32_t> armed_{0};
  std::atomic<bool> called_{false};
  std::atomic<uint64_t> events_{0};
};

}  // namespace nbc::tcp
