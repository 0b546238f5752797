// What two ranks say before the first frame. Each proves that it knows the key of the job without showing it, and
// nothing else is read from a connection that has not: three messages of fixed length, 136 bytes in all.
//
//   acceptor                                    connector
//   Challenge: magic, version, job, nonce  --->
//                                         <---  Answer: sender, receiver, settings, nonce, proof
//   Reply: verdict, settings, proof        --->
//
// The key is made anew for each job, so a process of another job, or of an earlier attempt at this one, knows another
// one. `job` is a number that follows from the key. It lets the connector say what is wrong; it proves nothing.
//
// A proof is an HMAC-SHA-256, keyed with the key of the job, over the side's name, both nonces and all that was said so
// far: so it holds for this connection only, and neither side's can be played back as the other's.
//
// Simultaneous open: two ranks may connect to each other at once. The connection that the lower rank began is the one
// that lives. The lower rank answers simultaneous_open to the higher one, if it has begun itself. The higher one
// accepts the lower rank's connection although it waits for an answer to its own.
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
  std::string key;  // of the job
  Rank rank = 0;
  Rank size = 1;
  uint32_t eager_limit = 0;
};

struct Challenge {
  uint64_t magic;
  uint32_t version;
  uint32_t job;  // see job_number()
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

enum class Verdict : uint32_t {
  none = 0,
  accepted = 1,
  simultaneous_open = 2,  // the connection that the acceptor has begun takes the place of this one
  other_settings = 3,
  doubled = 4,  // the acceptor is connected to this rank already
  gave_up = 5,  // the acceptor could not connect to this rank before
};

struct Reply {
  Verdict verdict;
  uint32_t eager_limit;
  Digest proof;
};
static_assert(sizeof(Reply) == 40);

// Equal for equal keys, and different for nearly all others. It tells nothing about the key.
uint32_t job_number(const std::string& key);

// A pending connection: either side's part of the above, over a socket that never blocks.
class Handshake {
 public:
  enum class State {
    in_progress,  // call advance() when the socket can be read or written
    proven,       // acceptor: the peer has proven itself, call decide()
    settled,      // verdict() holds, both have proven themselves
    failed        // why() tells
  };

  // The acceptor's side.
  Handshake(Socket socket, const Identity& self);
  // The connector's side.
  Handshake(Socket socket, const Identity& self, Rank peer);

  State advance();
  // State proven: what to answer. in_progress until the answer has left.
  State decide(Verdict verdict);

  State state() const { return state_; }
  Rank peer() const { return answer_.from == self_.rank ? answer_.to : answer_.from; }
  Verdict verdict() const { return reply_.verdict; }
  // The peer's settings, once it has proven itself.
  uint32_t their_eager_limit() const { return accepts_ ? answer_.eager_limit : reply_.eager_limit; }
  const std::string& why() const { return why_; }
  // errno, if that was the reason.
  int error() const { return error_; }
  // State failed: the peer closed the connection, and has not said why.
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
  State advance_acceptor();
  State advance_connector();
  Digest connector_proof() const;
  Digest acceptor_proof() const;

  Socket socket_;
  const Identity& self_;
  const bool accepts_;
  bool connecting_ = false;
  State state_ = State::in_progress;
  Challenge challenge_{};
  Answer answer_{};
  Reply reply_{};
  size_t in_ = 0;  // bytes that are here of the message that is expected
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
