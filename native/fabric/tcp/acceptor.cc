#include "fabric/tcp/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "fabric/clock.h"

namespace nbc::tcp {
namespace {

constexpr int64_t kPauseMilliseconds = 100;  // until this rank tries again to accept, if there was no descriptor
constexpr int kAcceptsPerLook = 64;          // about 1 ms, if all of them are closed at once
constexpr size_t kPlacesPerRank = 2;         // an attempt, and the next one if the first was cut off

}  // namespace

Acceptor::Acceptor(Socket listener, const Identity& identity, const std::vector<Address>& ranks,
                   const AcceptorOptions& options, Parking& parking, Authorizer& authorizer, uint64_t listener_name,
                   uint64_t pending_name)
    : listener_(std::move(listener)),
      identity_(identity),
      options_(options),
      parking_(parking),
      authorizer_(authorizer),
      listener_name_(listener_name),
      pending_name_(pending_name) {
  count_ranks(ranks, ranks[identity.rank]);
  parking_.add(listener_, EPOLLIN, listener_name_);
  parking_.add_call(listener_, EPOLLIN);
}

// --- sources ---------------------------------------------------------------------------------------------------------

Acceptor::Ip Acceptor::ip_of(const Address& address) {
  Ip ip{};
  if (address.storage.ss_family == AF_INET6) {
    std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr, ip.size());
  } else {
    ip[10] = ip[11] = 0xff;
    std::memcpy(ip.data() + 12, &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, 4);
  }
  return ip;
}

void Acceptor::count_ranks(const std::vector<Address>& ranks, const Address& own) {
  for (const Address& address : ranks) {
    // A rank of the other family cannot connect from its own address.
    Source& source = address.storage.ss_family == own.storage.ss_family ? sources_[ip_of(address)] : elsewhere_;
    ++source.ranks;
  }
}

// nullptr: no rank connects from there.
Acceptor::Source* Acceptor::source_of(const Address& address) {
  const auto found = sources_.find(ip_of(address));
  if (found != sources_.end()) return &found->second;
  return elsewhere_.ranks > 0 ? &elsewhere_ : nullptr;
}

size_t Acceptor::quota(const Source& source) const {
  const size_t sources = sources_.size() + (elsewhere_.ranks > 0 ? 1 : 0);
  return options_.places / sources + kPlacesPerRank * source.ranks;
}

// The oldest pending connection of this source gives its place away, if it had its grace period.
bool Acceptor::make_room(Source& source) {
  size_t oldest = pending_.size();
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].source == &source && (oldest == pending_.size() || pending_[i].since < pending_[oldest].since))
      oldest = i;
  }
  if (oldest == pending_.size() || now_milliseconds() - pending_[oldest].since < options_.grace_milliseconds)
    return false;
  refuse(pending_[oldest].from);
  drop(oldest);
  return true;
}

void Acceptor::refuse(const Address& from) {
  ++refused_;
  last_refused_ = from;
}

std::string Acceptor::refusals() const {
  if (refused_ == 0) return "";
  return "; so far this rank has refused " + std::to_string(refused_) +
         (refused_ == 1 ? " connection" : " connections") + " that did not prove to be of this job, the last from " +
         text_of(last_refused_);
}

// --- accepting -------------------------------------------------------------------------------------------------------

void Acceptor::accept_all() {
  for (int i = 0; i < kAcceptsPerLook; ++i) {
    if (!accept_one()) return;
  }
  // There may be more, and nothing will announce them again.
  parking_.note_call();
}

// False: there is none, or none can be accepted now.
bool Acceptor::accept_one() {
  Address from;
  from.bytes = sizeof from.storage;
  Socket socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EINTR || errno == ECONNABORTED) return true;
    // Otherwise: no descriptor, or no memory.
    if (errno != EAGAIN) pause_accepting();
    return false;
  }
  Source* source = source_of(from);
  if (source == nullptr || (source->pending >= quota(*source) && !make_room(*source))) {
    refuse(from);
    return true;
  }
  if (add(std::move(socket), from, *source)) return true;
  pause_accepting();
  return false;
}

// False: the system has no means for it.
bool Acceptor::add(Socket socket, const Address& from, Source& source) {
  size_t index = pending_.size();
  if (free_.empty()) {
    pending_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Pending& pending = pending_[index];
  pending.source = &source;
  pending.from = from;
  pending.since = now_milliseconds();
  ++source.pending;
  prepare(socket, options_.silence_milliseconds);
  try {
    pending.handshake = std::make_unique<Handshake>(std::move(socket), identity_);
    parking_.add(pending.handshake->socket(), EPOLLIN, pending_name_ + index);
    parking_.add_call(pending.handshake->socket(), EPOLLIN);
  } catch (const FabricError&) {
    refuse(from);
    drop(index);
    return false;
  }
  authorizer_.set_timer();
  advance(index);
  return true;
}

void Acceptor::drop(size_t index) {
  Pending& pending = pending_[index];
  pending.handshake.reset();
  --pending.source->pending;
  pending.source = nullptr;
  free_.push_back(index);
  // A descriptor is free again.
  resume_accepting();
}

void Acceptor::pause_accepting() {
  paused_until_ = now_milliseconds() + kPauseMilliseconds;
  parking_.change(listener_, 0, listener_name_);
  parking_.change_call(listener_, 0);
  authorizer_.set_timer();
}

void Acceptor::resume_accepting() {
  if (paused_until_ == 0) return;
  paused_until_ = 0;
  parking_.change(listener_, EPOLLIN, listener_name_);
  // This notes a call if a connection waits already.
  parking_.change_call(listener_, EPOLLIN);
}

// --- pending connections ---------------------------------------------------------------------------------------------

void Acceptor::advance(size_t index) {
  Pending& pending = pending_[index];
  if (pending.handshake == nullptr) return;
  Handshake& handshake = *pending.handshake;
  Handshake::State state = handshake.advance();
  if (state == Handshake::State::proven) state = handshake.decide(authorizer_.authorize(handshake));
  switch (state) {
    case Handshake::State::in_progress:
    case Handshake::State::proven:
      parking_.change(handshake.socket(), events_of(handshake), pending_name_ + index);
      break;
    case Handshake::State::failed:
      refuse(pending.from);
      drop(index);
      break;
    case Handshake::State::settled:
      if (handshake.verdict() == Verdict::accepted) {
        ++accepted_;
        parking_.remove_call(handshake.socket());
        authorizer_.connected(handshake.peer(), handshake.take_socket());
      }
      drop(index);
      break;
  }
}

int64_t Acceptor::next() const {
  int64_t first = paused_until_;
  for (const Pending& pending : pending_) {
    if (pending.handshake == nullptr) continue;
    const int64_t end = pending.since + options_.handshake_milliseconds;
    if (first == 0 || end < first) first = end;
  }
  return first;
}

void Acceptor::on_time(int64_t now) {
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].handshake == nullptr || pending_[i].since + options_.handshake_milliseconds > now) continue;
    // This rank may not have looked for long: what the peer has said meanwhile counts.
    advance(i);
    if (pending_[i].handshake == nullptr) continue;
    refuse(pending_[i].from);
    drop(i);
  }
  if (paused_until_ != 0 && paused_until_ <= now) resume_accepting();
}

}  // namespace nbc::tcp
