#include "fabric/tcp/connector.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fabric/clock.h"

namespace nbc::tcp {
namespace {

constexpr int64_t kPauseMilliseconds = 50;  // between two attempts
// This rank was late itself if it sees that much later that a peer's time has passed.
constexpr int64_t kLateMilliseconds = 1000;

// Of this process or machine, and for a while.
bool out_of_means(int error) { return error == ENOBUFS || error == ENOMEM; }

// The network, not the peer: a link that is down for a moment has no route either.
bool out_of_reach(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN || error == EHOSTDOWN;
}

}  // namespace

Connector::Connector(Socket listener, std::vector<Address> addresses, const Identity& identity,
                     const ConnectorOptions& options, Parking& parking, ConnectionOwner& owner)
    : addresses_(std::move(addresses)),
      identity_(identity),
      options_(options),
      parking_(parking),
      owner_(owner),
      acceptor_(std::move(listener), identity_, addresses_, options_.acceptor, parking_, *this, name_of(kListener),
                name_of(kPending)),
      links_(addresses_.size()) {}

Connect Connector::connect(Rank peer) {
  Link& link = links_[peer];
  if (link.verdict == Connect::later && link.handshake == nullptr && link.pause == 0) begin(peer);
  return link.verdict;
}

void Connector::lost(Rank peer, Connect verdict, std::string why) {
  links_[peer].verdict = verdict;
  links_[peer].why = std::move(why);
}

void Connector::advance(Name name, uint32_t index) {
  if (name == kListener) return acceptor_.accept_all();
  if (name == kPending) return acceptor_.advance(index);
  advance_handshake(index);
}

// --- attempts --------------------------------------------------------------------------------------------------------

void Connector::begin(Rank peer) {
  Link& link = links_[peer];
  if (link.deadline == 0) link.deadline = now_milliseconds() + options_.connect_milliseconds;
  // From the address at which this rank listens, by which the peer knows it, unless the peer's is of another family.
  const Address& own = addresses_[identity_.rank];
  const bool same = own.storage.ss_family == addresses_[peer].storage.ss_family;
  Socket socket = begin_connect(addresses_[peer], options_.acceptor.silence_milliseconds, same ? &own : nullptr);
  if (!socket) {
    const int error = errno;
    if (out_of_descriptors(error)) return try_again(peer, std::strerror(error), Connect::exhausted);
    if (out_of_means(error) || out_of_reach(error)) return try_again(peer, std::strerror(error));
    return end_attempt(peer, ended(error) ? Connect::closed : Connect::broken, std::strerror(error));
  }
  try {
    link.handshake = std::make_unique<Handshake>(std::move(socket), identity_, peer);
    parking_.add(link.handshake->socket(), events_of(*link.handshake), name_of(kHandshake, peer));
  } catch (const FabricError& error) {
    return end_attempt(peer, Connect::broken, error.message);
  }
  set_timer();
}

void Connector::end_attempt(Rank peer, Connect verdict, std::string why) {
  Link& link = links_[peer];
  link.handshake.reset();
  link.pause = 0;
  link.verdict = verdict;
  link.why = "connecting to rank " + std::to_string(peer) + " of the world at " + text_of(addresses_[peer]) + ": " +
             std::move(why);
  if (verdict == Connect::broken) link.why += acceptor_.refusals();
  owner_.answered(peer);
}

// Within the time that the peer is given. `verdict`: if that has passed.
void Connector::try_again(Rank peer, const std::string& why, Connect verdict) {
  Link& link = links_[peer];
  if (now_milliseconds() >= link.deadline)
    return end_attempt(peer, verdict,
                       why + ", again and again for " + std::to_string(options_.connect_milliseconds) + " ms");
  link.handshake.reset();
  pause(link, kPauseMilliseconds);
}

void Connector::pause(Link& link, int64_t milliseconds) {
  link.pause = now_milliseconds() + milliseconds;
  set_timer();
}

void Connector::advance_handshake(Rank peer) {
  Link& link = links_[peer];
  if (link.handshake == nullptr) return;
  Handshake& handshake = *link.handshake;
  const Handshake::State state = handshake.advance();
  const bool over = state == Handshake::State::failed || state == Handshake::State::settled;
  const bool accepted = state == Handshake::State::settled && handshake.verdict() == Verdict::accepted;
  // The connection that the peer has begun takes the place of this one, see authorize().
  if (over && (link.connected || (link.pause != 0 && !accepted))) return link.handshake.reset();
  if (state == Handshake::State::failed) return failed(peer);
  if (state == Handshake::State::settled) return settled(peer);
  parking_.change(handshake.socket(), events_of(handshake), name_of(kHandshake, peer));
}

void Connector::failed(Rank peer) {
  const Handshake& handshake = *links_[peer].handshake;
  const int error = handshake.error();
  // Cut off: the peer's acceptor gave the place of this connection away, or the peer is closing its world, and then
  // nothing listens there at the next attempt.
  if (handshake.cut_off() || out_of_reach(error)) return try_again(peer, handshake.why());
  end_attempt(peer, error != 0 && ended(error) ? Connect::closed : Connect::broken, handshake.why());
}

void Connector::settled(Rank peer) {
  Link& link = links_[peer];
  const Handshake& handshake = *link.handshake;
  switch (handshake.verdict()) {
    case Verdict::accepted: {
      Socket socket = link.handshake->take_socket();
      link.handshake.reset();
      return connected(peer, std::move(socket));
    }
    case Verdict::simultaneous_open:
      if (now_milliseconds() >= link.deadline)
        return end_attempt(peer, Connect::broken, "it answers that it connects itself, and does not");
      // If its connection does not come, this rank tries again: the peer may have died.
      link.handshake.reset();
      return pause(link, options_.acceptor.handshake_milliseconds);
    case Verdict::other_settings:
      return end_attempt(peer, Connect::refused, other_eager_limit(peer, handshake.their_eager_limit()));
    case Verdict::doubled:
      return end_attempt(peer, Connect::refused,
                         "it is connected to another process that says it is rank " + std::to_string(identity_.rank));
    case Verdict::gave_up:
      return end_attempt(peer, Connect::broken, "it has tried to connect to this rank itself, and failed");
    case Verdict::none:
      return end_attempt(peer, Connect::broken, "it gave an answer that makes no sense");
  }
}

std::string Connector::other_eager_limit(Rank peer, uint32_t theirs) const {
  return other_setting(peer, "tcp.eagerLimit", std::to_string(theirs), std::to_string(identity_.eager_limit));
}

// --- peers that connect ----------------------------------------------------------------------------------------------

Verdict Connector::authorize(const Handshake& pending) {
  Link& link = links_[pending.peer()];
  if (pending.their_eager_limit() != identity_.eager_limit) {
    if (link.verdict == Connect::later)
      end_attempt(pending.peer(), Connect::refused, other_eager_limit(pending.peer(), pending.their_eager_limit()));
    return Verdict::other_settings;
  }
  if (link.verdict != Connect::later) return link.connected ? Verdict::doubled : Verdict::gave_up;
  if (link.handshake != nullptr && identity_.rank < pending.peer()) return Verdict::simultaneous_open;
  // The peer's connection takes the place of the one that this rank has begun. That one goes on until the peer has
  // answered it; otherwise the peer would take this rank for one that is closing.
  pause(link, options_.acceptor.handshake_milliseconds);
  return Verdict::accepted;
}

void Connector::connected(Rank peer, Socket socket) {
  Link& link = links_[peer];
  link.pause = 0;
  try {
    owner_.take(peer, std::move(socket));
  } catch (const FabricError& error) {
    return end_attempt(peer, Connect::broken, error.message);
  }
  link.connected = true;
  link.verdict = Connect::ready;
  owner_.answered(peer);
}

// --- what is limited in time -----------------------------------------------------------------------------------------

int64_t Connector::next() const {
  int64_t first = acceptor_.next();
  const auto at = [&](int64_t time) {
    if (time != 0 && (first == 0 || time < first)) first = time;
  };
  for (const Link& link : links_) {
    at(link.pause);
    if (link.verdict == Connect::later && link.handshake != nullptr) at(link.deadline);
  }
  return first;
}

void Connector::on_time(int64_t now) {
  acceptor_.on_time(now);
  for (Rank peer = 0; peer < links_.size(); ++peer) {
    Link& link = links_[peer];
    if (link.verdict == Connect::later && link.handshake != nullptr && link.deadline <= now) give_up_late(peer, now);
    if (link.pause == 0 || link.pause > now) continue;
    link.pause = 0;
    if (link.handshake == nullptr) begin(peer);
  }
}

// The peer's time has passed. What it has said meanwhile counts, and so does that this rank did not look for long.
void Connector::give_up_late(Rank peer, int64_t now) {
  Link& link = links_[peer];
  const bool late = now - link.deadline > kLateMilliseconds;
  if (late) link.deadline = now + options_.connect_milliseconds;
  advance_handshake(peer);
  if (late || link.handshake == nullptr || link.verdict != Connect::later) return;
  end_attempt(peer, Connect::broken,
              "it did not answer within " + std::to_string(options_.connect_milliseconds) + " ms");
}

}  // namespace nbc::tcp
