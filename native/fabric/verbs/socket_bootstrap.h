// The bootstrap of ranks that may be on different machines: each pair that talks has one TCP connection, which carries
// their cards and nothing else. It is made as those of transport 'tcp' are, on demand, and both sides prove that they
// belong to the job before anything is read from it (tcp/handshake.h, tcp/connector.h).
//
//   publish(offered)   connects, unless the peer did; the card leaves when the connection is there
//   look()             the last card that has come
//   standing()         the system closes the sockets of a process that ends, so the end of the connection is that of
//                      the process. A connection that the network ends says nothing about the process: then only the
//                      queue pair tells
//
// All sockets are in one epoll set; `edges_` has that set, edge-triggered. So drain() makes the descriptor unreadable
// without reading a socket, which only the owner may do.
//
//   word      written by                                          order
//   called_   the thread that drains; the owner clears it         release; the owner exchanges it with acquire
//   looks_    any thread that asks called()                       relaxed: it only spaces the looks
//   asked_    the owner: a card of a peer is awaited              relaxed, likewise
//
// Threads: but for what says otherwise, the owner of the engine.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "fabric/tcp/connector.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fabric/verbs/bootstrap.h"

namespace nbc::verbs {

class SocketBootstrap final : public Bootstrap, private tcp::ConnectionOwner {
 public:
  // `options`: what holds for connections of transport 'tcp' holds here, too. Throws FabricError.
  SocketBootstrap(tcp::JobDescription job, const tcp::TcpOptions& options);
  ~SocketBootstrap() override;

  Rank rank() const override { return identity_.rank; }
  Rank size() const override { return identity_.size; }
  void publish(Rank peer, const Card& card, CardState state) override;
  CardState look(Rank peer, Card& card) override;
  std::string refusal(Rank peer) const override;
  bool unreachable(Rank peer) const override;
  Standing standing(Rank peer) override;
  bool is_ending(Rank peer) override;
  Crowd crowd() const override { return crowd_; }
  bool called() const override;
  void forget_calls() override;
  int descriptor() const override { return edges_.get(); }
  void drain() override;
  void close() override;

 private:
  // A card on its way. The version comes first, so it can be read whatever the rest is.
  struct Letter {
    Card card;
    CardState state;
  };

  struct Peer {
    tcp::Socket socket;
    std::string to_send;
    std::array<std::byte, sizeof(Letter)> received;
    size_t bytes = 0;  // of `received`
    Card card{};       // the last one of the peer
    CardState state = CardState::none;
    bool asked = false;  // this rank has published, and the peer's card is not ready
    bool gone = false;   // it has closed, or its process has ended
  };

  void take(Rank rank, tcp::Socket socket) override;
  void answered(Rank) override {}
  void set_timer() override;

  void look_at_sockets();
  void on_timer();
  void send(Rank rank);
  void receive(Rank rank);
  bool open_letter(Rank rank);
  void end(Rank rank, int error);
  void settle(Peer& peer);

  tcp::Identity identity_;
  Crowd crowd_;
  tcp::Socket timer_;
  tcp::Parking parking_;  // for its set of sockets; nobody sleeps there
  Descriptor edges_;
  std::unique_ptr<tcp::Connector> connector_;  // null: closed
  std::vector<Peer> peers_;                    // by rank
  std::atomic<bool> called_{false};
  std::atomic<uint32_t> asked_{0};  // peers that are `asked`
  mutable std::atomic<uint32_t> looks_{0};
};

}  // namespace nbc::verbs
