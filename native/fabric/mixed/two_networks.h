// Verbs to some peers and TCP to the others, where not every pair of ranks reaches each other by verbs. All ranks have
// told what they have, so both ends of a pair know which it is.
//
// Sleeping. Both sleep on descriptors. The set of TCP's sleepers is a descriptor in the set of those of verbs, so a
// thread sleeps on the latter, and then takes out what is in the former.
//
//   owner                            sleeper                              a peer, by TCP
//   arm TCP; arm verbs;              sleep on the set of verbs            writes to the socket: the set of TCP is
//   look at both once more           empty the set of TCP, without        readable, and therefore that of verbs
//                                    waiting: that tells it who was rung
//
// No wake-up is lost, since each side's own argument holds, and what is in TCP's set stays there until it was taken.
#pragma once
#include <memory>
#include <vector>

#include "fabric/mixed/by_peer.h"

namespace nbc::mixed {

class TwoNetworks final : public ByPeer<FarFabric> {
 public:
  enum class Way : uint8_t { none, tcp, verbs };  // none: this rank and those of its host

  // The exposed memory of `tcp` has to be that of `verbs`. `ways`: by rank.
  TwoNetworks(std::unique_ptr<FarFabric> verbs, std::unique_ptr<FarFabric> tcp, std::vector<Way> ways);
  ~TwoNetworks() override { announce_closed(); }

  Connect connect(Rank peer) override { return to(peer).connect(peer); }
  std::string why(Rank peer) const override;
  const std::shared_ptr<ExposedMemory>& memory() const override { return verbs_->memory(); }
  uint64_t short_work() const override { return tcp_->short_work(); }
  bool called() const override { return verbs_->called() || tcp_->called(); }
  uint32_t ticket(Sleeper who) override { return verbs_->ticket(who); }
  void arm(Sleeper who, uint32_t need) override;
  void disarm() override;
  void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) override;
  void ring_self(Sleeper who) override { verbs_->ring_self(who); }
  bool ring_self_later(Sleeper who, int64_t nanoseconds) override { return tcp_->ring_self_later(who, nanoseconds); }
  void wake_on(Sleeper who, int descriptor) override { verbs_->wake_on(who, descriptor); }
  int sleeping_set(Sleeper who) const override { return verbs_->sleeping_set(who); }
  void announce_closed() override;
  Crowd crowd() const override { return tcp_->crowd(); }
  void visit_counters(const CounterVisitor& visit) const override;

 private:
  std::unique_ptr<FarFabric> verbs_;
  std::unique_ptr<FarFabric> tcp_;
  std::vector<Way> ways_;
};

}  // namespace nbc::mixed
