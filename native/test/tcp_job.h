// Ranks over TCP on loopback, before they are ranks: where everybody listens, and the secret.
#pragma once
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fabric/tcp/tcp_fabric.h"
#include "test/fabrics.h"

namespace nbc::check {

using tcp::TcpFabric;
using tcp::TcpOptions;

struct Town {
  explicit Town(Rank size, const std::string& secret = "of this test") : secret(secret) {
    for (Rank rank = 0; rank < size; ++rank) {
      listeners.push_back(tcp::listen_on(tcp::parse_address("127.0.0.1", 0)));
      addresses.push_back(tcp::address_of(listeners.back()));
    }
  }
  std::unique_ptr<TcpFabric> fabric(Rank rank, TcpOptions options = {}) {
    if (options.eager_limit == 0) options.eager_limit = 255;
    tcp::Job job;
    job.rank = rank;
    job.addresses = addresses;
    job.hosts.assign(addresses.size(), 0);
    job.processors = std::thread::hardware_concurrency();
    job.secret = secret;
    job.listener = std::move(listeners[rank]);
    return std::make_unique<TcpFabric>(std::move(job), options);
  }
  std::string secret;
  std::vector<tcp::Socket> listeners;
  std::vector<tcp::Address> addresses;
};

}  // namespace nbc::check
