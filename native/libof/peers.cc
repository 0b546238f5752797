// Peers: connecting, the list of those from which something is expected, and their ends.
#include <algorithm>

#include "libof/peer.h"

namespace nbc::libof {

LibOF::Peer& LibOF::peer_of(Rank rank) {
  if (peers_[rank] == nullptr) {
    peers_[rank] = std::make_unique<Peer>();
    Peer& peer = *peers_[rank];
    peer.rank = rank;
    peer.eager_limit = fabric_.eager_limit(rank, options_.eager_limit);
    peer.slots = eager_slots(peer.eager_limit);
    for (uint32_t* number :
         {&peer.eager_sent, &peer.eager_consumed, &peer.eager_matched, &peer.eager_received,
          &peer.eager_received_reported, &peer.matched, &peer.matched_reported, &peer.rtr_sent, &peer.rtr_consumed,
          &peer.rtr_received, &peer.rtr_received_reported, &peer.eager_arrived, &peer.rtr_arrived})
      *number = options_.first_message;
    connect(peer);
  }
  return *peers_[rank];
}

bool LibOF::connect(Peer& peer) {
  if (peer.unfit != Error::none) return false;
  switch (fabric_.connect(peer.rank)) {
    case Connect::later:
      return false;
    case Connect::refused:
      peer.unfit = Error::mismatch;
      return false;
    case Connect::broken:
      peer.unfit = Error::unreachable;
      return false;
    case Connect::exhausted:
      peer.unfit = Error::descriptors;
      return false;
    case Connect::closed:
      peer.unfit = Error::peer_closed;
      return false;
    case Connect::ready:
      break;
  }
  peer.out = fabric_.outbox(peer.rank);
  peer.in = fabric_.inbox(peer.rank);
  peer.asynchronous = fabric_.asynchronous(peer.rank);
  peer.has_bodies = peer.out.compact && has_heads(peer.eager_limit);
  peer.slot_bytes = static_cast<uint32_t>(peer.has_bodies ? kHeadBytes : eager_slot_bytes(peer.eager_limit));
  const auto acks = [&](const Mailbox& box) {
    return reinterpret_cast<AckLine*>(peer.has_bodies ? box.slots + acks_at(peer.slots) : box.control);
  };
  peer.ack_out = acks(peer.out);
  peer.ack_in = acks(peer.in);
  peer.connected = true;
  ++counters_.connections;
  return true;
}

void LibOF::activate(Peer& peer) {
  if (peer.active) return;
  peer.active = true;
  peer.active_index = static_cast<uint32_t>(active_.size());
  active_.push_back(&peer);
  if (!peer.connected) ++connecting_;
}

void LibOF::deactivate_if_idle(Peer& peer) {
  if (!peer.active || peer.receives.count + peer.sends.count > 0 || !peer.stalled.empty() || !peer.sending.empty() ||
      peer.has_queued_rtrs() || !peer.poisons.empty() || !peer.notices.empty())
    return;
  peer.active = false;
  if (!peer.connected) --connecting_;
  active_[peer.active_index] = active_.back();
  active_[peer.active_index]->active_index = peer.active_index;
  active_.pop_back();
}

bool LibOF::poll_peer(Peer& peer) {
  if (!peer.connected) {
    if (!connect(peer)) {
      if (peer.unfit == Error::none) return false;
      fail(peer, peer.unfit);
      return !peer.active;
    }
    --connecting_;
    drain_eager(peer);                 // what it has raised an alarm for, perhaps, before this rank could look
    if (!peer.connected) return true;  // rejected
  }
  bool moved = false;
  // Whatever waits for the peer to make room looks into the mailbox too: acknowledgements may have ridden on messages
  // nobody awaits yet.
  const bool sends = !peer.stalled.empty() || !peer.poisons.empty() || !peer.notices.empty();
  if (peer.receives.count > 0 || sends || peer.has_queued_rtrs()) moved |= drain_eager(peer);
  if (peer.connected && (peer.sends.count > 0 || sends)) moved |= drain_rtrs(peer);
  if (!peer.connected) return true;  // rejected
  if (!peer.notices.empty()) moved |= send_notices(peer);
  if (!peer.poisons.empty()) moved |= send_poisons(peer);
  if (!peer.stalled.empty()) moved |= send_stalled(peer);
  if (peer.has_queued_rtrs()) moved |= send_rtrs(peer);
  return moved;
}

Rank LibOF::peer_on_own_processor() const {
  for (const Peer* peer : active_) {
    if (fabric_.shares_processor(peer->rank)) return peer->rank;
  }
  return kNobody;
}

bool LibOF::fail_closed_peers() {
  bool closed = false;
  for (const Peer* peer : active_) closed |= fabric_.has_closed(peer->rank);
  if (!closed) return false;
  // What a closed peer wrote is all there; take it before giving up on the rest.
  std::vector<Rank> gone;
  for (const Peer* peer : active_) {
    if (fabric_.has_closed(peer->rank)) gone.push_back(peer->rank);
  }
  for (const Rank rank : gone) fabric_.abandon(rank);
  while (progress(Effort::helping)) {
  }
  for (const Rank rank : gone) {
    Peer& peer = *peers_[rank];
    const Error end = fabric_.end_of(rank);
    if (end != Error::peer_closed) {
      break_off(peer, end);
      continue;
    }
    if (peer.connected) drain_eager(peer);  // also where only sends wait for it: it may have told why it goes
    if (peer.active) fail(peer, Error::peer_closed);
  }
  return true;
}

void LibOF::fail(Peer& peer, Error error) {
  peer.receives.each([&](Request* receive) {
    // Of a peer that was rejected or given up and is alive: what it has not begun it cannot begin any more. On shared
    // memory it may be in the middle of a copy, for ever if it is stopped.
    if (receive->rtr_written && receive->exposes && (!receive->given_up || !peer.asynchronous)) {
      receive->given_up = true;
      const bool taken_back = fabric_.revoke(peer.rank, receive->exposed, receive->bytes, reason(), 0);
      if (!taken_back && !peer.asynchronous) receive->owner->buffers_in_use = true;
    }
    if (!receive->data_here) {
      receive->data_here = true;
      receive->error = error;
    }
    // The fabric may have still to tell that its RTR has left, and names the request then: it ends after that.
    finish_receive(peer, *receive);
  });
  peer.sends.each([&](Request* send) {
    take_waiting(peer, *send);
    --sends_pending_;
    complete(*send, error);
  });
  while (Request* send = peer.stalled.head) {
    peer.stalled.remove(send);
    --sends_pending_;
    complete(*send, error);
  }
  rtrs_pending_ -= static_cast<uint32_t>(peer.urgent_rtrs.size() + peer.rtr_queue.size());
  peer.urgent_rtrs.clear();
  peer.rtr_queue.clear();
  poisons_pending_ -= static_cast<uint32_t>(peer.poisons.size());
  peer.poisons.clear();
  notices_pending_ -= static_cast<uint32_t>(peer.notices.size());
  peer.notices.clear();
  deactivate_if_idle(peer);
}

// The connection has ended for good: whatever needs it fails, now and later. What has arrived stays.
void LibOF::break_off(Peer& peer, Error error) {
  while (peer.connected && drain_eager(peer)) {
  }
  end(peer, error);
}

// What it wrote is not what LibOF writes: nothing in its mailbox is looked at again.
void LibOF::reject(Peer& peer, const char* why) {
  fabric_.reject(peer.rank, why);
  end(peer, Error::unreachable);
}

void LibOF::end(Peer& peer, Error error) {
  if (peer.connected && peer.active) ++connecting_;
  peer.connected = false;
  peer.unfit = error;
  fail(peer, error);
}

}  // namespace nbc::libof
