// How the verbs fabric connects to its peers, and how it learns that one is gone.
#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/verbs_fabric.h"

#include "fabric/clock.h"

namespace nbc::verbs {

using cards::CardState;
using cards::Standing;

namespace {

constexpr uint32_t kLooks = 64;  // looks for closed peers between two at the clock

}  // namespace

Connect VerbsFabric::connect(Rank peer) {
  if (peer == rank_) {
    if (self_ == nullptr) self_ = std::make_unique<Box>();
    return Connect::ready;
  }
  if (connecting_.has_results()) take_connected();
  return advance(peer, true);
}

// One step, if there is one to take. Without `wanted` only if the peer has asked.
Connect VerbsFabric::advance(Rank peer, bool wanted) {
  Link& link = links_[peer];
  if (link.verdict != Connect::later) return link.verdict;
  std::string_view card;
  const CardState state = bootstrap_->look(peer, card);
  if (link.connection == nullptr && state == CardState::none && !wanted) return Connect::later;
  try {
    if (link.connection == nullptr) {
      if (connections_ == depths_.connections)
        throw FabricError{"this rank has " + std::to_string(connections_) +
                          " connections, as many as a completion queue of " + device_->name + " serves"};
      queue_.reserve(depths_.completions(connections_ + 1));
      link.connection =
          std::make_unique<Connection>(peer, Equipment{device_, mailboxes_, queue_.get(), shared_.get(), depths_.send,
                                                       depths_.receive, options_.most_inline, counters_});
      ++connections_;
      owners_[link.connection->number()] = peer;
      bootstrap_->publish(peer, bytes_of(link.connection->card(options_.eager_limit)), CardState::offered);
    }
    if (state == CardState::none) return is_refused(link, peer) ? link.verdict : Connect::later;
    Card theirs;
    if (!fits(card, link, theirs)) return link.verdict = Connect::refused;
    Connection& connection = *link.connection;
    if (connection.state == Connection::State::offered)
      connecting_.start(peer, connection.begin(theirs, *choose_way(connection.port(), theirs.port), options_));
    if (connection.state == Connection::State::connecting) return Connect::later;
    if (state == CardState::ready) {
      connection.state = Connection::State::ready;
      link.verdict = Connect::ready;
    } else {
      is_refused(link, peer);
    }
  } catch (const FabricError& error) {
    link.why = error.message;
    link.verdict = Connect::broken;
  }
  return link.verdict;
}

// Whether what leads to the peer's card has come to an end; the link says then why.
bool VerbsFabric::is_refused(Link& link, Rank peer) {
  link.why = bootstrap_->refusal(peer);
  if (link.why.empty()) return false;
  link.verdict = bootstrap_->verdict(peer);
  return true;
}

// Whether the two may talk; if not, the link says why.
bool VerbsFabric::fits(std::string_view card, Link& link, Card& theirs) const {
  const auto differ = [&](const char* option, const std::string& there, const std::string& here) {
    link.why = other_setting(link.connection->peer, option, there, here);
    return false;
  };
  const Rank peer = link.connection->peer;
  if (const uint32_t version = cards::version_of(card); version != kCardVersion) {
    link.why = cards::other_version(peer, version, kCardVersion);
    return false;
  }
  if (!read_card(card, theirs)) {
    link.why = "what rank " + std::to_string(peer) + " of the world sent is not an address of a queue pair";
    return false;
  }
  if (const Port& here = link.connection->port(); !choose_way(here, theirs.port)) {
    link.why = why_no_way(here, theirs.port, "rank " + std::to_string(peer) + " of the world", device_->name);
    return false;
  }
  if (theirs.eager_limit != options_.eager_limit)
    return differ("eagerLimit", std::to_string(theirs.eager_limit), std::to_string(options_.eager_limit));
  if (theirs.eager != options_.eager)
    return differ("verbs.eager", std::string("'") + name_of(theirs.eager) + "'",
                  std::string("'") + name_of(options_.eager) + "'");
  return true;
}

// What became of queue pairs that were to be connected.
void VerbsFabric::take_connected() {
  connecting_.drain();
  Connecting::Result result;
  while (connecting_.take(result)) {
    Link& link = links_[result.peer];
    if (link.connection->state != Connection::State::connecting) continue;  // broken off meanwhile
    if (!result.why.empty()) {
      link.why = result.why;
      link.verdict = Connect::broken;
    } else {
      link.connection->state = Connection::State::connected;
      bootstrap_->publish(result.peer, bytes_of(link.connection->card(options_.eager_limit)), CardState::ready);
      advance(result.peer, false);
    }
    if (link.verdict != Connect::later)
      arrived_.push({Completion::Kind::answered, Error::none, result.peer, 0, 0, nullptr});
  }
}

void VerbsFabric::answer_calls() {
  bootstrap_->forget_calls();
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer != rank_) advance(peer, false);
  }
}

Connection* VerbsFabric::ready(Rank peer) {
  Connection* connection = links_[peer].connection.get();
  return connection != nullptr && connection->state == Connection::State::ready ? connection : nullptr;
}

Mailbox VerbsFabric::outbox(Rank peer) {
  return mailbox_at(peer == rank_ ? self_->bytes : links_[peer].connection->place.outbox);
}

Mailbox VerbsFabric::inbox(Rank peer) {
  return mailbox_at(peer == rank_ ? self_->bytes : links_[peer].connection->place.inbox);
}

bool VerbsFabric::has_closed(Rank peer) {
  if (peer == rank_) return closed_;
  if (++looks_ % kLooks == 0) {
    probe();
    flush();  // who asks may give the engine up next
  }
  const Link& link = links_[peer];
  // One that closed has said so behind everything else.
  if (advance(peer, false) == Connect::ready) return link.connection->peer_closed;
  return link.verdict == Connect::later && bootstrap_->standing(peer) >= Standing::gone;
}

void VerbsFabric::abandon(Rank peer) {
  if (links_[peer].connection != nullptr) break_off(links_[peer], Error::peer_closed, "the peer has closed its world");
}

void VerbsFabric::reject(Rank peer, const std::string& why) {
  if (links_[peer].connection != nullptr) break_off(links_[peer], Error::unreachable, why);
}

void VerbsFabric::break_off(Link& link, Error error, const std::string& why) {
  Connection& connection = *link.connection;
  if (connection.state == Connection::State::broken) return;
  if (connection.peer_closed || bootstrap_->is_ending(connection.peer)) error = Error::peer_closed;
  link.why = "the connection to rank " + std::to_string(connection.peer) + " of the world broke: " + why;
  link.verdict = error == Error::peer_closed ? Connect::closed : Connect::broken;
  connection.stop();
  if (connection.probing) --awaited_;
  connection.probing = false;
  for (size_t i = 0; i < connection.puts.size(); ++i) finish(connection.puts[i], connection.peer, error);
  connection.puts.clear();
  drop_unregistered(connection.peer, error);
  arrived_.push({Completion::Kind::broken, error, connection.peer, 0, 0, nullptr});
}

void VerbsFabric::probe() {
  const int64_t now = now_milliseconds();
  if (now - probed_ < kProbeMilliseconds) return;
  probed_ = now;
  registrations_.drop_expired();
  for (Link& link : links_) {
    Connection* connection = link.connection.get();
    if (connection == nullptr || connection->state != Connection::State::ready) continue;
    const Standing standing = connection->heard ? Standing::open : bootstrap_->standing(connection->peer);
    if (connection->heard) {
      connection->silent = 0;
    } else if (standing == Standing::lost) {
      break_off(link, Error::unreachable,
                "it did not answer for as long as option peerTimeout says; its process may be stopped");
    } else if (standing == Standing::gone) {
      // What it wrote before comes first; it may have said good-bye.
      while (collect() > 0) {
      }
      if (!connection->peer_closed) break_off(link, Error::peer_closed, "its process has ended");
    } else if (connection->probing) {
      give_up_if_lost(link);
    } else {
      send_probe(*connection);
    }
    connection->heard = false;
  }
}

void VerbsFabric::send_probe(Connection& connection) {
  connection.probing = true;
  ++awaited_;
  ++counters_.probes;
  Work work;
  work.to = connection.theirs.inbox;
  work.remote_key = connection.theirs.inbox_key;
  work.signalled = true;
  queue_work(connection, work);
}

// A device ends what it cannot deliver with an error. One that has lost it says nothing, for ever: Soft-RoCE (Linux
// 6.1) does so if its link goes down between a timeout and the packet that it is to send again. The probes are counted,
// not the time, so that a process that was stopped, or did not call for a while, blames nobody.
void VerbsFabric::give_up_if_lost(Link& link) {
  Connection& connection = *link.connection;
  const uint32_t patience = connection.patience();
  if (patience == 0 || ++connection.silent < patience) return;
  while (collect() > 0) {
  }
  if (connection.heard) return;
  break_off(link, Error::unreachable,
            "it has not answered for " + std::to_string(connection.silent) + " s, and the device does not say why");
}

}  // namespace nbc::verbs
#endif
