// Hostile bytes on a pending connection. A peer that does not know the key gets no further than the challenge. A peer
// that does may say anything, and every connection is settled or failed in the end.
//
//   byte 0   bit 0: we accept or connect; bit 1: the peer knows the key; the rest: how what it sends is cut into pieces
//   byte 1   what we decide, if we accept; bit 7: the peer is gone by then. If we connect, bit 6: the peer says that it
//            is of another job
//   then     what the peer sends. If it knows the key: without the proof and the number of the job, which are put in
//            where they belong
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>

#include "fabric/tcp/handshake.h"

using namespace nbc;
using namespace nbc::tcp;

namespace {

constexpr Rank kPeer = 2;
// Fits into the socket, if it is sent at once.
constexpr size_t kMost = 4096;
const Identity kSelf{"a key", 0, 4, 255};
using State = Handshake::State;

void require(bool holds) {
  if (!holds) abort();
}

class Case {
 public:
  Case(const uint8_t* data, size_t size)
      : accepts_((data[0] & 1) != 0),
        piece_(size_t{1} + (data[0] >> 2)),
        choice_(data[1]),
        input_(reinterpret_cast<const char*>(data + 2), size - 2),
        peer_(make()),
        handshake_(accepts_ ? Handshake(Socket(own_), kSelf) : Handshake(Socket(own_), kSelf, kPeer)) {
    handshake_.advance();
  }

  void without_key() {
    deliver(input_);
    require(handshake_.state() == State::in_progress || handshake_.state() == State::failed);
    end();
  }

  void acceptor() {
    const Challenge challenge = heard<Challenge>();
    Answer answer{};
    if (!take(&answer, offsetof(Answer, proof))) return end();
    std::string said = "node-nbc connector";
    append(said, &challenge, sizeof challenge);
    append(said, &answer, offsetof(Answer, proof));
    answer.proof = hmac_sha256(kSelf.key, said);
    say(answer);
    const bool fits =
        answer.to == kSelf.rank && answer.from < kSelf.size && answer.from != kSelf.rank && answer.size == kSelf.size;
    require(handshake_.state() == (fits ? State::proven : State::failed));
    if (!fits) return end();
    require(handshake_.peer() == answer.from && handshake_.their_eager_limit() == answer.eager_limit);
    deliver(input_, kMost);  // it does not wait for the reply
    require(handshake_.state() == State::proven);
    const auto verdict = static_cast<Verdict>(1 + choice_ % 5);
    if ((choice_ & 0x80) != 0) peer_.reset();
    if (handshake_.decide(verdict) != State::settled) return end();
    require((choice_ & 0x80) == 0);
    const Reply reply = heard<Reply>();
    said = "node-nbc acceptor";
    append(said, &challenge, sizeof challenge);
    append(said, &answer, sizeof answer);
    append(said, &reply, offsetof(Reply, proof));
    require(reply.verdict == verdict && reply.eager_limit == kSelf.eager_limit &&
            same(reply.proof, hmac_sha256(kSelf.key, said)));
    left_alone();
  }

  void connector() {
    Challenge challenge{};
    if (!take(&challenge, sizeof challenge)) return end();
    challenge.job = job_number(kSelf.key) ^ (choice_ & 0x40u);
    say(challenge);
    const bool ours = challenge.magic == 0x63626e2d65646f6e && challenge.version == 1 && (choice_ & 0x40) == 0;
    require(handshake_.state() == (ours ? State::in_progress : State::failed));
    if (!ours) return end();
    const Answer answer = heard<Answer>();
    std::string said = "node-nbc connector";
    append(said, &challenge, sizeof challenge);
    append(said, &answer, offsetof(Answer, proof));
    require(answer.from == kSelf.rank && answer.to == kPeer && answer.size == kSelf.size &&
            same(answer.proof, hmac_sha256(kSelf.key, said)));
    Reply reply{};
    if (!take(&reply, offsetof(Reply, proof))) return end();
    said = "node-nbc acceptor";
    append(said, &challenge, sizeof challenge);
    append(said, &answer, sizeof answer);
    append(said, &reply, offsetof(Reply, proof));
    reply.proof = hmac_sha256(kSelf.key, said);
    say(reply);
    require(handshake_.state() == State::settled && handshake_.peer() == kPeer &&
            handshake_.verdict() == reply.verdict && handshake_.their_eager_limit() == reply.eager_limit);
    deliver(input_, kMost);
    left_alone();
  }

  bool accepts() const { return accepts_; }

 private:
  int make() {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    own_ = ends[1];
    return ends[0];
  }

  static void append(std::string& text, const void* bytes, size_t count) {
    text.append(static_cast<const char*>(bytes), count);
  }

  // The next bytes of the input; false: it has no more.
  bool take(void* into, size_t bytes) {
    if (input_.size() < bytes) {
      deliver(input_);
      return false;
    }
    std::memcpy(into, input_.data(), bytes);
    input_.erase(0, bytes);
    return true;
  }

  template <typename Message>
  void say(const Message& message) {
    deliver(std::string(reinterpret_cast<const char*>(&message), sizeof message));
  }

  void deliver(const std::string& bytes) { deliver(bytes, piece_); }

  void deliver(const std::string& bytes, size_t piece) {
    for (size_t at = 0; at < bytes.size(); at += piece) {
      const size_t count = std::min(piece, bytes.size() - at);
      if (::send(peer_.get(), bytes.data() + at, count, MSG_NOSIGNAL) != static_cast<ssize_t>(count)) return;
      handshake_.advance();
    }
  }

  template <typename Message>
  Message heard() {
    Message message;
    require(::recv(peer_.get(), &message, sizeof message, 0) == static_cast<ssize_t>(sizeof message));
    return message;
  }

  // The peer goes: a connection that is not settled fails, and says why.
  void end() {
    peer_.reset();
    handshake_.advance();
    require(handshake_.state() == State::failed && !handshake_.why().empty());
  }

  // What came behind the handshake stays in the socket.
  void left_alone() {
    const Socket socket = handshake_.take_socket();
    for (size_t at = 0; at < input_.size();) {
      char bytes[4096];
      const ssize_t count = ::recv(socket.get(), bytes, std::min(sizeof bytes, input_.size() - at), 0);
      require(count > 0 && input_.compare(at, static_cast<size_t>(count), bytes, static_cast<size_t>(count)) == 0);
      at += static_cast<size_t>(count);
    }
  }

  const bool accepts_;
  const size_t piece_;
  const uint8_t choice_;
  std::string input_;
  int own_ = -1;
  Socket peer_;
  Handshake handshake_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > kMost) return 0;
  Case one(data, size);
  if ((data[0] & 2) == 0) {
    one.without_key();
  } else if (one.accepts()) {
    one.acceptor();
  } else {
    one.connector();
  }
  return 0;
}
