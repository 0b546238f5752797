// Two fabrics in one: ranks of this host are reached by shared memory, all others by a network. Each message goes to
// the one or the other by its peer, so all that is to be done here is to sleep for both.
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

#include "fabric/shm/shm_fabric.h"

namespace nbc::mixed {

class MixedFabric final : public Fabric {
 public:
  // Opens the rank: `near` was made to be opened later. The exposed memory of `far` has to come from the arena of
  // `near`. `routes`: for each peer, by shared memory or the network, where that is known before they open; then those
  // by the network need not share a file with this rank. Throws FabricError.
  MixedFabric(std::unique_ptr<shm::ShmFabric> near, std::unique_ptr<FarFabric> far,
              std::vector<job::Route> routes = {});
  ~MixedFabric() override { announce_closed(); }

  Rank rank() const override { return near_->rank(); }
  Rank size() const override { return near_->size(); }
  Connect connect(Rank peer) override;
  std::string why(Rank peer) const override;
  Mailbox outbox(Rank peer) override { return to(peer).outbox(peer); }
  Mailbox inbox(Rank peer) override { return to(peer).inbox(peer); }
  bool has_closed(Rank peer) override { return to(peer).has_closed(peer); }
  bool is_given_up() const override { return near_->is_given_up() || far_->is_given_up(); }
  Error end_of(Rank peer) const override { return to(peer).end_of(peer); }
  const std::shared_ptr<ExposedMemory>& memory() const override { return far_->memory(); }
  bool prepare(Rank peer, const LocalBuffer& buffer, bool sends) override {
    return to(peer).prepare(peer, buffer, sends);
  }
  bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) override {
    return to(peer).expose(peer, buffer, out);
  }
  bool expose_combining(Rank peer, const LocalBuffer& buffer, const Combining& how, ExposedBuffer& out) override {
    return to(peer).expose_combining(peer, buffer, how, out);
  }
  void conceal(Rank peer, const ExposedBuffer& buffer) override { to(peer).conceal(peer, buffer); }
  bool revoke(Rank peer, const ExposedBuffer& buffer, size_t bytes, Error why, uint64_t told) override {
    return to(peer).revoke(peer, buffer, bytes, why, told);
  }
  void retract(Rank peer, void* cookie, Error error, uint64_t told) override {
    to(peer).retract(peer, cookie, error, told);
  }
  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override {
    to(peer).commit(peer, written, bytes, note, cookie);
  }
  bool asynchronous(Rank peer) const override { return to(peer).asynchronous(peer); }
  void flush() override;
  bool flushed() const override { return near_->flushed() && far_->flushed(); }
  void put(Rank peer, const ExposedBuffer& where, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override {
    to(peer).put(peer, where, from, immediate, error, cookie);
  }
  void abandon(Rank peer) override { to(peer).abandon(peer); }
  void reject(Rank peer, const std::string& why) override { to(peer).reject(peer, why); }
  unsigned poll(Completion* out, unsigned max, Effort effort) override;
  uint64_t work() const override { return near_->work() + far_->work(); }
  bool has_short_work() const override;
  bool holds_back() const override { return near_->holds_back() || far_->holds_back(); }
  void expect_immediates(Rank peer, bool expected) override { to(peer).expect_immediates(peer, expected); }
  uint32_t put_window() const override { return std::min(near_->put_window(), far_->put_window()); }
  bool called() const override { return far_->called(); }
  void alarm(Rank peer) override { to(peer).alarm(peer); }
  bool alarmed() override { return near_->alarmed(); }
  bool may_alarm(Rank peer) const override { return routes_[peer] != job::Route::network && near_->may_alarm(peer); }
  bool is_read() const override { return near_->is_read() || far_->is_read(); }
  bool receiver_copies() const override { return near_->receiver_copies() || far_->receiver_copies(); }
  uint32_t ticket(Sleeper who) override { return far_->ticket(who); }
  void arm(Sleeper who, uint32_t need) override;
  void disarm() override;
  bool is_armed() const override { return near_->is_armed() && far_->is_armed(); }
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
  Fabric& to(Rank peer) const {
    return routes_[peer] == job::Route::network ? static_cast<Fabric&>(*far_) : static_cast<Fabric&>(*near_);
  }

  std::unique_ptr<shm::ShmFabric> near_;
  std::unique_ptr<FarFabric> far_;
  bool known_;                       // the routes were given
  std::vector<job::Route> routes_;   // by peer; decided once, when both have opened at the latest
  Sleeper armed_ = Sleeper::nobody;  // the sleeper that arm() was called for, until disarm()
  bool far_first_ = false;           // which of both is polled first
};

}  // namespace nbc::mixed
