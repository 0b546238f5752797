// Ranks of this host are reached by shared memory, all others by a network. Each message goes to the one or the other
// by its peer (by_peer.h), so all that is to be done here is to sleep for both.
//
// Sleeping. A thread cannot sleep on a futex and on descriptors; the network has descriptors, so the doorbell of shared
// memory gets one: its word `armed` says that this rank sleeps on a socket, and the writer that rings sends a datagram
// there (shm/doorbell.h). The socket of each sleeper is in the network's set of that sleeper (FarFabric::wake_on).
//
//   owner                                       peer on this host                       network
//   far: armed = me; arm the queue              write the message                       entry in the queue
//   near: need = k; armed = me, on a socket     fence                                   if armed: event
//   fence; look at both once more;              if armed and need falls to 0:
//     if there is something: disarm both          who = exchange(armed, 0)
//   else sleep on the network's set               if who: datagram to its socket
//   take the datagrams out
//
// No wake-up is lost: each side's own argument holds by itself, since the sleeper arms both before it looks at either,
// and what was rung stays in a descriptor until the one that it was meant for has slept on it, or the owner of the
// engine has disarmed and looks at everything anyway. So a ring is lost to nobody but who no longer needs it. The two
// orders of arming are both right; the network comes first because arming may post.
//
// `need` counts the messages of this host only, while any message of the network wakes. It is never too large: when all
// that is still missing comes from this host, then the last message of the network has come, woken the rank, and made
// it count anew.
//
// is_armed() (the engine, having handed over, looks back at it) is true only while neither side has rung.
#pragma once
#include <memory>
#include <vector>

#include "fabric/mixed/by_peer.h"
#include "fabric/shm/shm_fabric.h"

namespace nbc::mixed {

class MixedFabric final : public ByPeer<Fabric> {
 public:
  // Opens the rank: `near` was made to be opened later. The exposed memory of `far` has to come from the arena of
  // `near`. `routes`: for each peer, by shared memory or the network, where that is known before they open; then those
  // by the network need not share a file with this rank. Throws FabricError.
  MixedFabric(std::unique_ptr<shm::ShmFabric> near, std::unique_ptr<FarFabric> far,
              std::vector<job::Route> routes = {});
  ~MixedFabric() override { announce_closed(); }

  Network network_to(Rank peer) const override;
  Connect connect(Rank peer) override;
  std::string why(Rank peer) const override;
  const std::shared_ptr<ExposedMemory>& memory() const override { return far_->memory(); }
  bool has_short_work() const override;
  bool called() const override { return far_->called(); }
  void alarm(Rank peer) override { to(peer).alarm(peer); }
  bool alarmed() override { return near_->alarmed(); }
  bool may_alarm(Rank peer) const override { return routes_[peer] != job::Route::network && near_->may_alarm(peer); }
  uint32_t ticket(Sleeper who) override { return far_->ticket(who); }
  void arm(Sleeper who, uint32_t need) override;
  void disarm() override;
  void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) override;
  void ring_self(Sleeper who) override { far_->ring_self(who); }
  bool ring_self_later(Sleeper who, int64_t nanoseconds) override { return far_->ring_self_later(who, nanoseconds); }
  void note_processor() override { near_->note_processor(); }
  bool shares_processor(Rank peer) const override {
    return routes_[peer] == job::Route::shared_memory && near_->shares_processor(peer);
  }
  void announce_closed() override;
  Crowd crowd() const override { return known_ ? far_->crowd() : near_->crowd(); }
  void visit_counters(const CounterVisitor& visit) const override;

 private:
  void take(Rank peer, job::Route way);

  std::unique_ptr<shm::ShmFabric> near_;
  std::unique_ptr<FarFabric> far_;
  bool known_;                       // the routes were given
  std::vector<job::Route> routes_;   // by peer; decided once, when both have opened at the latest
  Sleeper armed_ = Sleeper::nobody;  // the sleeper that arm() was called for, until disarm()
};

}  // namespace nbc::mixed
