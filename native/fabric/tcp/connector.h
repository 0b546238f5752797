// How connections to peers come to be: this rank connects when it first needs a peer, and accepts peers that connect.
//
// An attempt to connect can fail although the peer lives: the queue of its listening socket is full, or another
// connection needed its place there (acceptor.h), or this rank answered too late, or has no descriptor left. Then it
// tries again, until connect_milliseconds have passed since the first attempt. It takes the peer for closed at once
// where nothing listens at its address, and fails at once where what listens there is no rank of this job.
//
// Threads: the owner of the engine.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/tcp/acceptor.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/parking.h"

namespace nbc::tcp {

// What a socket in the set of Parking is; an index follows.
enum Name : uint64_t { kListener, kTimer, kPending, kHandshake, kConnection };
constexpr uint64_t name_of(Name name, size_t index = 0) { return static_cast<uint64_t>(name) << 32 | index; }

// Takes the connections. Each pair of ranks has one at most.
class ConnectionOwner {
 public:
  // Throws FabricError if it cannot take it.
  virtual void take(Rank peer, Socket socket) = 0;
  // Connector::verdict() of this peer has changed.
  virtual void answered(Rank peer) = 0;
  // Something is to be done at another time than before, see Connector::next().
  virtual void set_timer() = 0;

 protected:
  ~ConnectionOwner() = default;
};

struct ConnectorOptions {
  int64_t connect_milliseconds = 0;  // that a peer is given to answer
  AcceptorOptions acceptor;
};

class Connector final : private Authorizer {
 public:
  // `identity` stays where it is.
  Connector(Socket listener, std::vector<Address> addresses, const Identity& identity, const ConnectorOptions& options,
            Parking& parking, ConnectionOwner& owner);

  // Begins to connect, unless that has begun.
  Connect connect(Rank peer);
  Connect verdict(Rank peer) const { return links_[peer].verdict; }
  const std::string& why(Rank peer) const { return links_[peer].why; }
  // The connection to this peer is no more.
  void lost(Rank peer, Connect verdict, std::string why);
  // The socket of this name is ready.
  void advance(Name name, uint32_t index);

  // Milliseconds of the clock: when on_time() has something to do; 0: never.
  int64_t next() const;
  void on_time(int64_t now);
  const Acceptor& acceptor() const { return acceptor_; }

 private:
  struct Link {
    std::unique_ptr<Handshake> handshake;  // that this rank began
    Connect verdict = Connect::later;
    bool connected = false;  // now or before
    int64_t deadline = 0;    // milliseconds: when this rank gives the peer up; 0: no attempt has begun
    int64_t pause = 0;       // milliseconds: no attempt begins before; 0: none waits for that
    std::string why;
  };

  void begin(Rank peer);
  void end_attempt(Rank peer, Connect verdict, std::string why);
  void try_again(Rank peer, const std::string& why, Connect verdict = Connect::broken);
  void advance_handshake(Rank peer);
  void failed(Rank peer);
  void settled(Rank peer);
  void pause(Link& link, int64_t milliseconds);
  void give_up_late(Rank peer, int64_t now);
  std::string other_eager_limit(Rank peer, uint32_t theirs) const;

  Verdict authorize(const Handshake& pending) override;
  void connected(Rank peer, Socket socket) override;
  void set_timer() override { owner_.set_timer(); }

  const std::vector<Address> addresses_;
  const Identity& identity_;
  const ConnectorOptions options_;
  Parking& parking_;
  ConnectionOwner& owner_;
  Acceptor acceptor_;
  std::vector<Link> links_;  // by rank
};

}  // namespace nbc::tcp
