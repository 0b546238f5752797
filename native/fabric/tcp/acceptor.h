// Accepts connections, and keeps each one pending until its peer has proven that it is a rank of this job.
//
// Pending connections cost memory and descriptors, so their number and their time are limited:
//
//   source     A rank connects from the address at which it listens. A connection from another address is closed at
//              once. Where ranks have addresses of both families (IPv4 and IPv6), the system chooses the source address
//              of some of them. Then all unknown addresses together are one more source.
//   quota      Each source has places of its own: two for each of its ranks, and an equal share of `places`. So no
//              source takes the places of another one, and hundreds of ranks may connect at once.
//   grace      A source without a free place gets the place of its oldest pending connection, if that had its grace
//              period. Otherwise the new connection is closed. Its peer, if it is a rank, connects again
//              (connector.h).
//   limit      A connection that has proven nothing within handshake_milliseconds is closed.
//
// So connections that prove nothing leave the system's queue as fast as this rank can accept.
//
// Threads: the owner of the engine.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/tcp/handshake.h"
#include "fabric/tcp/parking.h"
#include "fabric/tcp/socket.h"

namespace nbc::tcp {

// Decides about peers that have proven themselves, and takes their connections.
class Authorizer {
 public:
  virtual Verdict authorize(const Handshake& pending) = 0;
  virtual void connected(Rank peer, Socket socket) = 0;
  // Something is to be done at another time than before, see Acceptor::next().
  virtual void set_timer() = 0;

 protected:
  ~Authorizer() = default;
};

struct AcceptorOptions {
  int64_t handshake_milliseconds = 0;  // until a connection that did not prove itself is closed
  int64_t grace_milliseconds = 0;      // until its place may be given to another connection
  size_t places = 0;                   // shared by all sources
  int silence_milliseconds = 0;        // see prepare()
};

class Acceptor {
 public:
  // `ranks`: the addresses of all ranks. `listener_name`, `pending_name`: what poll() says of its sockets; the index of
  // a pending connection is added to the latter.
  Acceptor(Socket listener, const Identity& identity, const std::vector<Address>& ranks, const AcceptorOptions& options,
           Parking& parking, Authorizer& authorizer, uint64_t listener_name, uint64_t pending_name);

  void accept_all();
  void advance(size_t index);
  // Milliseconds of the clock: when on_time() has something to do; 0: never.
  int64_t next() const;
  void on_time(int64_t now);
  uint64_t accepted() const { return accepted_; }
  // Connections that did not prove themselves, or found no place.
  uint64_t refused() const { return refused_; }
  // What to add to the text of an error; empty if none was refused.
  std::string refusals() const;

 private:
  // An IPv4 address is written as IPv6 writes it.
  using Ip = std::array<uint8_t, 16>;
  struct Source {
    size_t ranks = 0;
    size_t pending = 0;
  };
  struct Pending {
    std::unique_ptr<Handshake> handshake;  // null: the place is free
    Source* source = nullptr;
    Address from;
    int64_t since = 0;  // milliseconds
  };

  static Ip ip_of(const Address& address);
  void count_ranks(const std::vector<Address>& ranks, const Address& own);
  Source* source_of(const Address& address);
  size_t quota(const Source& source) const;
  bool accept_one();
  bool add(Socket socket, const Address& from, Source& source);
  bool make_room(Source& source);
  void refuse(const Address& from);
  void drop(size_t index);
  void pause_accepting();
  void resume_accepting();

  Socket listener_;
  const Identity& identity_;
  AcceptorOptions options_;
  Parking& parking_;
  Authorizer& authorizer_;
  uint64_t listener_name_;
  uint64_t pending_name_;
  std::map<Ip, Source> sources_;
  Source elsewhere_;  // of ranks whose source address is not known
  std::vector<Pending> pending_;
  std::vector<size_t> free_;  // places in pending_
  int64_t paused_until_ = 0;  // milliseconds: when this rank accepts again; 0: it does
  uint64_t refused_ = 0;
  uint64_t accepted_ = 0;
  Address last_refused_;
};

}  // namespace nbc::tcp
