#include "fabric/mixed/mixed_fabric.h"

#include <algorithm>
#include <cstring>

namespace nbc::mixed {

using job::Route;

MixedFabric::MixedFabric(std::unique_ptr<shm::ShmFabric> near, std::unique_ptr<FarFabric> far,
                         std::vector<Route> routes)
    : ByPeer(*near, *far),
      near_(std::move(near)),
      far_(std::move(far)),
      known_(!routes.empty()),
      routes_(near_->size(), Route::unknown) {
  for (Rank peer = 0; peer < routes.size(); ++peer) take(peer, routes[peer]);
  near_->open_sockets();
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) far_->wake_on(who, near_->descriptor(who));
  near_->open(true, {});
}

void MixedFabric::take(Rank peer, Route way) {
  routes_[peer] = way;
  if (way == Route::network) route(peer, *far_);
}

Network MixedFabric::network_to(Rank peer) const {
  const Route way = routes_[peer] == Route::unknown ? near_->route_to(peer) : routes_[peer];
  if (way == Route::unknown) return Network::unknown;
  return way == Route::network ? far_->network_to(peer) : near_->network_to(peer);
}

// Until the peer has opened nobody knows which way it is to be reached, so neither side begins. Where there is none,
// shared memory says why.
Connect MixedFabric::connect(Rank peer) {
  if (routes_[peer] == Route::unknown) {
    take(peer, near_->route_to(peer));
    // Shared memory must not look once more: the peer may open between two looks.
    if (routes_[peer] == Route::unknown) return near_->connect(peer, Route::unknown);
  }
  return to(peer).connect(peer);
}

std::string MixedFabric::why(Rank peer) const { return peer == rank() ? far_->why(peer) : to(peer).why(peer); }

// Where the network has a part in it, its limit holds for all.
bool MixedFabric::has_short_work() const {
  const uint64_t far = far_->work(far_->short_work() + 1);
  const uint64_t most = far > 0 ? far_->short_work() : near_->short_work();
  if (far > most) return false;
  const uint64_t all = far + near_->work(most - far + 1);
  return all > 0 && all <= most;
}

void MixedFabric::arm(Sleeper who, uint32_t need) {
  armed_ = who;
  far_->arm(who, need);
  near_->arm_on_socket(who, need);
}

void MixedFabric::disarm() {
  if (armed_ == Sleeper::nobody) return;
  // A ring that nobody slept for must not stay unread: it counts against what its sender may send.
  if (!near_->is_armed()) near_->drain_socket(armed_);
  near_->disarm();
  far_->disarm();
  armed_ = Sleeper::nobody;
}

void MixedFabric::sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) {
  far_->sleep(who, ticket, nanoseconds);
  near_->drain_socket(who);
}

// The network first: it may still have to wait for what was sent, and on this host nobody needs to be waited for.
// A peer that sees that this rank has closed sees all that it wrote.
void MixedFabric::announce_closed() {
  far_->announce_closed();
  near_->announce_closed();
}

// All sleeping is done by the network, which counts it. Each of both may count all peers as its own.
void MixedFabric::visit_counters(const CounterVisitor& visit) const {
  const auto peers = [&](Route route) {
    const auto all = std::count(routes_.begin(), routes_.end(), route);
    return static_cast<double>(all - (routes_[rank()] == route ? 1 : 0));
  };
  near_->visit_counters([&](Counter counter, double value) {
    if (counter == Counter::parks) return;
    visit(counter, counter == Counter::peers_by_memory ? peers(Route::shared_memory) : value);
  });
  far_->visit_counters([&](Counter counter, double value) {
    const bool counts_peers = counter == Counter::peers_by_tcp || counter == Counter::peers_by_verbs;
    visit(counter, counts_peers ? std::min(value, peers(Route::network)) : value);
  });
}

}  // namespace nbc::mixed
