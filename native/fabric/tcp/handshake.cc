#include "fabric/tcp/handshake.h"

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/random.h>

namespace nbc::tcp {
namespace {

constexpr uint64_t kMagic = 0x63626e2d65646f6e;  // "node-nbc"
constexpr uint32_t kVersion = 1;

Nonce new_nonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    throw system_failure("transport 'tcp': no random numbers");
  return nonce;
}

template <typename T>
void append(std::string& text, const T& value, size_t bytes = sizeof(T)) {
  text.append(reinterpret_cast<const char*>(&value), bytes);
}

}  // namespace

uint32_t job_number(const std::string& key) {
  const Digest digest = hmac_sha256(key, "node-nbc job");
  uint32_t number;
  std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

Handshake::Handshake(Socket socket, const Identity& self) : socket_(std::move(socket)), self_(self), accepts_(true) {
  challenge_ = {kMagic, kVersion, job_number(self.key), new_nonce()};
  send(&challenge_, sizeof challenge_);
}

Handshake::Handshake(Socket socket, const Identity& self, Rank peer)
    : socket_(std::move(socket)), self_(self), accepts_(false), connecting_(true) {
  answer_.from = self.rank;
  answer_.to = peer;
  answer_.size = self.size;
  answer_.eager_limit = self.eager_limit;
  answer_.nonce = new_nonce();
}

Digest Handshake::connector_proof() const {
  std::string said = "node-nbc connector";
  append(said, challenge_);
  append(said, answer_, offsetof(Answer, proof));
  return hmac_sha256(self_.key, said);
}

Digest Handshake::acceptor_proof() const {
  std::string said = "node-nbc acceptor";
  append(said, challenge_);
  append(said, answer_);
  append(said, reply_, offsetof(Reply, proof));
  return hmac_sha256(self_.key, said);
}

Handshake::State Handshake::fail(std::string why, int error) {
  why_ = std::move(why);
  error_ = error;
  return state_ = State::failed;
}

// --- bytes -----------------------------------------------------------------------------------------------------------

// All of a message is here. False: not yet, or failed.
bool Handshake::received(void* into, size_t bytes) {
  while (in_ < bytes) {
    const ssize_t count = ::recv(socket_.get(), static_cast<uint8_t*>(into) + in_, bytes - in_, MSG_DONTWAIT);
    if (count > 0) {
      in_ += static_cast<size_t>(count);
    } else if (count == 0) {
      cut_off_ = true;
      fail("it closed the connection before both had proven themselves", ECONNRESET);
      return false;
    } else if (errno == EINTR) {
      continue;
    } else {
      cut_off_ = errno == ECONNRESET;
      if (errno != EAGAIN) fail(std::strerror(errno), errno);
      return false;
    }
  }
  in_ = 0;
  return true;
}

void Handshake::send(const void* bytes, size_t count) {
  std::memcpy(out_.data(), bytes, count);
  out_begin_ = 0;
  out_left_ = count;
}

bool Handshake::send_rest() {
  while (out_left_ > 0) {
    const ssize_t count = ::send(socket_.get(), out_.data() + out_begin_, out_left_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      out_begin_ += static_cast<size_t>(count);
      out_left_ -= static_cast<size_t>(count);
    } else if (errno != EINTR) {
      cut_off_ = errno == ECONNRESET || errno == EPIPE;
      if (errno != EAGAIN) fail(std::strerror(errno), errno);
      return false;
    }
  }
  return true;
}

// --- what is said ----------------------------------------------------------------------------------------------------

Handshake::State Handshake::advance() {
  if (state_ != State::in_progress) return state_;
  if (connecting_) {
    if (const int error = outcome(socket_); error != 0) return fail(std::strerror(error), error);
    // Without a peer the outcome is not known yet.
    Address peer;
    peer.bytes = sizeof peer.storage;
    if (::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes) != 0) return state_;
    // Where no rank listens any more, the system may have given this socket the very port that it connects to.
    if (port_of(peer) != 0 && text_of(peer) == text_of(address_of(socket_)))
      return fail(std::strerror(ECONNREFUSED), ECONNREFUSED);
    connecting_ = false;
  }
  if (!send_rest()) return state_;
  return accepts_ ? advance_acceptor() : advance_connector();
}

Handshake::State Handshake::advance_acceptor() {
  // The reply has left.
  if (reply_.verdict != Verdict::none) return state_ = State::settled;
  if (!received(&answer_, sizeof answer_)) return state_;
  if (!same(answer_.proof, connector_proof())) return fail("it does not know the key of this job");
  if (answer_.to != self_.rank || answer_.from >= self_.size || answer_.from == self_.rank ||
      answer_.size != self_.size)
    return fail("it took this rank for another one");
  return state_ = State::proven;
}

Handshake::State Handshake::decide(Verdict verdict) {
  reply_.verdict = verdict;
  reply_.eager_limit = self_.eager_limit;
  reply_.proof = acceptor_proof();
  send(&reply_, sizeof reply_);
  state_ = State::in_progress;
  return advance();
}

Handshake::State Handshake::advance_connector() {
  if (!challenged_) {
    if (!received(&challenge_, sizeof challenge_)) return state_;
    if (challenge_.magic != kMagic) return fail("what listens there is not node-nbc");
    if (challenge_.version != kVersion)
      return fail("it speaks version " + std::to_string(challenge_.version) + " of the protocol, this rank version " +
                  std::to_string(kVersion));
    if (challenge_.job != job_number(self_.key))
      return fail(
          "what listens there belongs to another job, or to an earlier attempt at this one, or has another NBC_SECRET");
    challenged_ = true;
    answer_.proof = connector_proof();
    send(&answer_, sizeof answer_);
    if (!send_rest()) return state_;
  }
  if (!received(&reply_, sizeof reply_)) return state_;
  if (!same(reply_.proof, acceptor_proof())) return fail("it does not know the key of this job");
  return state_ = State::settled;
}

uint32_t events_of(const Handshake& handshake) {
  return handshake.connecting() || handshake.blocked() ? EPOLLOUT : EPOLLIN;
}

}  // namespace nbc::tcp
