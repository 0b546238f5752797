// A rank on two networks: TCP, and another one.
#pragma once
#include <memory>
#include <vector>

#include "fabric/mixed/two_networks.h"
#include "test/tcp_job.h"

namespace nbc::check {

// `one` to every second rank, TCP to the others.
inline std::unique_ptr<Fabric> beside_tcp(std::unique_ptr<FarFabric> one, TcpJob& job, Rank rank,
                                          uint32_t eager_limit) {
  using mixed::TwoNetworks;
  TcpOptions options;
  options.eager_limit = eager_limit;
  auto tcp = std::make_unique<TcpFabric>(job.description(rank), options, one->memory());
  std::vector<TwoNetworks::Way> ways;
  for (Rank peer = 0; peer < one->size(); ++peer)
    ways.push_back((rank + peer) % 2 == 0 ? TwoNetworks::Way::tcp : TwoNetworks::Way::verbs);
  return std::make_unique<TwoNetworks>(std::move(one), std::move(tcp), std::move(ways));
}

}  // namespace nbc::check
