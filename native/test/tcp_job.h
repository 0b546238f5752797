// A job over TCP on loopback: where its ranks listen, its key, and the fabric of each rank.
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

struct TcpJob {
  explicit TcpJob(Rank size, const std::string& key = "of this test") : key(key) {
    for (Rank rank = 0; rank < size; ++rank) {
      listeners.push_back(tcp::listen_on(tcp::parse_address("127.0.0.1", 0)));
      addresses.push_back(tcp::address_of(listeners.back()));
    }
  }
  std::unique_ptr<TcpFabric> fabric(Rank rank, const TcpOptions& options = {}) {
    return std::make_unique<TcpFabric>(description(rank), options);
  }
  tcp::JobDescription description(Rank rank) {
    tcp::JobDescription own;
    own.rank = rank;
    own.addresses = addresses;
    own.hosts.assign(addresses.size(), 0);
    own.processors = std::thread::hardware_concurrency();
    own.key = key;
    own.listener = std::move(listeners[rank]);
    return own;
  }
  std::string key;
  std::vector<tcp::Socket> listeners;
  std::vector<tcp::Address> addresses;
};

}  // namespace nbc::check
