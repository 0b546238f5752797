// What two ranks say before the first frame. Each proves that it knows the job's secret without showing it, and nothing
// else is read of a connection that has not: three messages of fixed length, 136 bytes in all.
//
//   acceptor                                    connector
//   Challenge: magic, version, nonce  ------->
//                                     <-------  Answer: who, to whom, settings, nonce, proof
//   Verdict: what now, settings, proof ------>
//
// A proof is an HMAC-SHA-256, keyed with the secret, over the side's name, both nonces and all that was said so far: so
// it holds for this connection only, and neither side's can be played back as the other's.
//
// Two ranks may connect to each other at once. The lower rank's connection is the one that lives: it answers mine_comes
// to the higher one if it has begun itself, and the higher one welcomes it although it waits for an answer of its own.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fabric/fabric.h"
#include "fabric/tcp/hmac.h"
#include "fabric/tcp/socket.h"

namespace nbc::tcp {

using Nonce = std::array<uint8_t, 16>;

// What both ranks must have in common, and who this one is.
struct Identity {
  std::string secret;
  Rank rank = 0;
  Rank size = 1;
  uint32_t eager_limit = 0;
};

struct Challenge {
  uint64_t magic;
  uint32_t version;
  uint32_t reserved;
  Nonce nonce;
};
static_assert(sizeof(Challenge) == 32);

struct Answer {
  uint32_t from;
  uint32_t to;
  uint32_t size;
  uint32_t eager_limit;
  Nonce nonce;
  Digest proof;
};
static_assert(sizeof(Answer) == 64);

enum class Verdict : uint32_t { none = 0, welcome = 1, mine_comes = 2, other_settings = 3, doubled = 4, gave_up = 5 };

struct Reply {
  Verdict verdict;
  uint32_t eager_limit;
  Digest proof;
};
static_assert(sizeof(Reply) == 40);

// A connection that is not one yet: both sides' part of the above over a socket that never blocks.
class Handshake {
 public:
  enum class State {
    going_on,  // call advance() when the socket can be read or written
    asked,     // acceptor: the peer has proven itself, decide()
    settled,   // verdict() holds, both have proven themselves
    failed     // why() tells
  };

  // The acceptor's side.
  Handshake(Socket socket, const Identity& self);
  // The connector's side.
  Handshake(Socket socket, const Identity& self, Rank peer);

  State advance();
  // State asked: what to answer. going_on until it has left.
  State decide(Verdict verdict);

  State state() const { return state_; }
  Rank peer() const { return answer_.from == self_.rank ? answer_.to : answer_.from; }
  Verdict verdict() const { return reply_.verdict; }
  // The peer's settings, once it has proven itself.
  uint32_t their_eager_limit() const { return accepts_ ? answer_.eager_limit : reply_.eager_limit; }
  const std::string& why() const { return why_; }
  // errno, if that was the reason.
  int error() const { return error_; }
  // State failed: the peer ended it, and has not said why.
  bool cut_off() const { return cut_off_; }
  const Socket& socket() const { return socket_; }
  bool connecting() const { return connecting_; }
  // There is something to send that found no room.
  bool blocked() const { return out_left_ > 0; }
  // Once settled.
  Socket take_socket() { return std::move(socket_); }

 private:
  bool received(void* into, size_t bytes);
  bool send_rest();
  void send(const void* bytes, size_t count);
  State fail(std::string why, int error = 0);
  State listen_to_connector();
  State listen_to_acceptor();
  Digest connector_proof() const;
  Digest acceptor_proof() const;

  Socket socket_;
  const Identity& self_;
  const bool accepts_;
  bool connecting_ = false;
  State state_ = State::going_on;
  Challenge challenge_{};
  Answer answer_{};
  Reply reply_{};
  size_t in_ = 0;  // bytes of the message that is expected which are here
  bool challenged_ = false;
  std::array<uint8_t, 64> out_{};
  size_t out_begin_ = 0;
  size_t out_left_ = 0;
  std::string why_;
  int error_ = 0;
  bool cut_off_ = false;
};

// What epoll is to look for so that it goes on.
uint32_t events_of(const Handshake& handshake);

}  // namespace nbc::tcp
