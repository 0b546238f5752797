// Sleeping until a socket has something, without lost wake-ups (fabric/sleepers.h).
//
// Each of the two that sleep has a timer (ring_later). All sockets are in a third set, `sockets`, which is in the
// sets of both sleepers with EPOLLONESHOT: it wakes the sleeper that armed it, once.
//
//   arm(who)   enables `sockets` in who's set. Something that is there already makes it fire at once, so no look is
//              needed in between
//   a firing   takes the arming back; if it was meant for the other by now, it is passed on
//
// What asks for a connection must be answered even if nobody is armed: the listening socket and the handshakes are in a
// set of their own, `calls`, which is in both sets edge-triggered: it notes a call, and the owner answers.
#pragma once
#include "fabric/sleepers.h"
#include "fabric/tcp/socket.h"

namespace nbc::tcp {

class Parking : public Sleepers {
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
  void sleep(Sleeper who, int64_t nanoseconds);
  void ring_later(Sleeper who, int64_t nanoseconds);

 private:
  Descriptor& timer(Sleeper who) { return timer_[who == Sleeper::progress ? 1 : 0]; }

  Descriptor sockets_;
  Descriptor calls_;
  Descriptor timer_[2];
  bool shared_ = false;                // another fabric's descriptors are in the sets, too
  Sleeper watcher_ = Sleeper::nobody;  // in whose set `sockets` may fire; owner
};

}  // namespace nbc::tcp
