#include "fabric/mixed/two_networks.h"

namespace nbc::mixed {

TwoNetworks::TwoNetworks(std::unique_ptr<FarFabric> verbs, std::unique_ptr<FarFabric> tcp, std::vector<Way> ways)
    : ByPeer(*verbs, *tcp), verbs_(std::move(verbs)), tcp_(std::move(tcp)), ways_(std::move(ways)) {
  for (Rank peer = 0; peer < ways_.size(); ++peer) {
    if (ways_[peer] == Way::tcp) route(peer, *tcp_);
  }
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) verbs_->wake_on(who, tcp_->sleeping_set(who));
}

// About this rank: what it could not do. Memory that a network card refuses is more often the reason.
std::string TwoNetworks::why(Rank peer) const {
  if (peer != rank()) return to(peer).why(peer);
  const std::string why = verbs_->why(peer);
  return why.empty() ? tcp_->why(peer) : why;
}

void TwoNetworks::arm(Sleeper who, uint32_t need) {
  tcp_->arm(who, need);
  verbs_->arm(who, need);
}

void TwoNetworks::disarm() {
  verbs_->disarm();
  tcp_->disarm();
}

void TwoNetworks::sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) {
  verbs_->sleep(who, ticket, nanoseconds);
  tcp_->sleep(who, ticket, 0);
}

// Each may wait for what was sent.
void TwoNetworks::announce_closed() {
  verbs_->announce_closed();
  tcp_->announce_closed();
}

// All sleeping is done by verbs, which count it. Both count all peers as their own, and what wakes a rank.
void TwoNetworks::visit_counters(const CounterVisitor& visit) const {
  const auto peers = [&](Way way) { return static_cast<double>(std::count(ways_.begin(), ways_.end(), way)); };
  double events = 0;
  const auto visit_one = [&](Counter counter, double value) {
    if (counter == Counter::events) {
      events += value;
    } else {
      visit(counter, value);
    }
  };
  verbs_->visit_counters([&](Counter counter, double value) {
    visit_one(counter, counter == Counter::peers_by_verbs ? peers(Way::verbs) : value);
  });
  tcp_->visit_counters([&](Counter counter, double value) {
    if (counter != Counter::parks) visit_one(counter, counter == Counter::peers_by_tcp ? peers(Way::tcp) : value);
  });
  visit(Counter::events, events);
}

}  // namespace nbc::mixed
