// The bootstrap of ranks that may be on different machines: each pair that talks has one TCP connection, which carries
// their cards and nothing else. It is made as those of transport 'tcp' are, on demand, and both sides prove that they
// belong to the job before anything is read from it (tcp/handshake.h, tcp/connector.h).
//
//   publish(offered)   connects, unless the peer did; the card leaves when the connection is there
//   look()             the last card that has come
//   standing()         the system closes the sockets of a process that ends, so the end of the connection is that of
//                      the process. A connection that the network ends says nothing about the process: then only
//                      what the fabric sends to it tells
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
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "fabric/tcp/connector.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fabric/cards/bootstrap.h"

namespace nbc::cards {

class SocketBootstrap final : public Bootstrap, private tcp::ConnectionOwner {
 public:
  // `transport`: for the text of errors. `options`: what holds for connections of transport 'tcp' holds here, too.
  // Throws FabricError.
  SocketBootstrap(tcp::JobDescription job, const tcp::TcpOptions& options, const std::string& transport);
  ~SocketBootstrap() override;

  Rank rank() const override { return identity_.rank; }
  Rank size() const override { return identity_.size; }
  void publish(Rank peer, std::string_view card, CardState state) override;
  CardState look(Rank peer, std::string_view& card) override;
  std::string refusal(Rank peer) const override;
  Connect verdict(Rank peer) const override;
  Standing standing(Rank peer) override;
  bool is_ending(Rank peer) override;
  Crowd crowd() const override { return crowd_; }
  bool called() const override;
  void forget_calls() override;
  int descriptor() const override { return edges_.get(); }
  void drain() override;
  void close() override;

 private:
  // In front of a card on its way.
  struct Head {
    CardState state;
    uint32_t bytes;  // of the card; 0 where it has been told before
  };

  struct Peer {
    tcp::Socket socket;
    std::string to_send;
    std::string received;  // of what is not complete yet
    std::string card;      // the first one of the peer: it holds, because what it names may be in use
    CardState state = CardState::none;
    bool told = false;   // this rank has published its card
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
  bool open_letters(Rank rank);
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

}  // namespace nbc::cards
