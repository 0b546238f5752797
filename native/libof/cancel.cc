// Giving messages up: a failed operation gets its buffers back before its other messages have met their peers.
//
// What peers count on still happens, without the buffers. The peers of an operation that has a Poison learn of its
// failure in place of the messages that have not left (poison.cc). Of other operations, a small message is sent from a
// copy, and a large one is answered with Error::abandoned when its RTR comes. A receive stays, and drops what comes for
// it. The owner of all these is then `orphans_`. The operation waits only for transfers that the fabric cannot stop at
// once, and only for a limited time (time_for()). Then a peer that is reached asynchronously is rejected. A peer on
// shared memory cannot be kept from a copy that it is in the middle of, not even if its process is stopped: then the
// operation ends, and its buffers stay in use.
#include <algorithm>
#include <cstring>

#include "fabric/clock.h"
#include "libof/peer.h"

namespace nbc::libof {

void LibOF::cancel(RequestOwner& owner) {
  if (owner.cancelled) return;
  owner.cancelled = cancels_ = true;
}

bool LibOF::give_up_cancelled() {
  if (!cancels_) return false;
  cancels_ = false;
  for (Request& request : pool_) {
    if (request.state != State::done && request.owner->cancelled && !request.given_up) give_up(request);
  }
  return ready_ != nullptr;
}

void LibOF::give_up(Request& request) {
  Peer& peer = *peers_[request.peer];
  request.given_up = true;
  const Poison poison = request.owner->poison;
  const bool ended = mismatch_of(request.key.context) != nullptr;
  switch (request.state) {
    case State::eager_send_init:
      if (poison != 0 || ended) return poison_send(peer, request, ended);
      if (request.bytes > 0) {
        auto* copy = new std::byte[request.bytes];
        std::memcpy(copy, request.buffer, request.bytes);
        request.buffer = copy;
        request.owns_buffer = true;
      }
      return adopt(request);
    case State::eager_sending:
      return adopt(request);  // the mailbox holds the bytes
    case State::send_waiting_rtr:
      if (poison != 0 || ended) return poison_send(peer, request, ended);
      request.buffer = nullptr;
      request.error = reason();
      return adopt(request);
    case State::send_sending_data:
      await_peer(peer, request);
      if (request.error == Error::none) fabric_.retract(peer.rank, &request, reason(), poison);
      return;
    case State::recv_waiting_eager:
    case State::rndv_recv_init:
    case State::recv_sending_rtr:
      return give_up_receive(peer, request);
    case State::done:
      return;
  }
}

void LibOF::give_up_receive(Peer& peer, Request& receive) {
  if (receive.data_here) return adopt(receive);  // only its RTR's local completion is awaited
  receive.discard = true;
  receive.poison = receive.owner->poison;
  if (closing_ && receive.poison == 0) receive.poison = poison_of(fabric_.rank(), Error::closed);
  if (!receive.rtr_written) {
    const bool asks = receive.rtr_asked;
    if (asks) cancel_queued_rtr(peer, receive);
    if (mismatch_of(receive.key.context) != nullptr) {
      // Nothing will come for it.
      peer.receives.remove(&receive);
      complete(receive, Error::none);
      return deactivate_if_idle(peer);
    }
    receive.buffer = nullptr;
    adopt(receive);
    if (asks && !closing_) ask_by_rtr(peer, receive);  // as one that is abandoned
    return;
  }
  const bool revoked = fabric_.revoke(peer.rank, receive.exposed, receive.bytes, reason(), receive.poison);
  const RtrKind kind = revoked ? RtrKind::withdraw : RtrKind::revoke;
  if (!revoked || !closing_) queue_rtr(peer, {kind, receive.key, nullptr, receive.poison}, true);
  if (revoked) return adopt(receive);
  await_peer(peer, receive);
}

void LibOF::await_peer(Peer& peer, Request& given_up) {
  revoking_.push_back({&given_up, given_up.generation, time_for(peer)});
}

// When a peer that has been asked now should have answered. A device or a socket carries on with the messages that it
// has begun, and the answer comes behind them. Over an emulated device three messages of 24 MiB took more than 4 s, and
// the peer was well.
int64_t LibOF::time_for(const Peer& peer) const {
  constexpr size_t kSlowest = 10'000;  // bytes per millisecond
  constexpr size_t kMost = 60'000;     // milliseconds
  size_t on_its_way = 0;
  if (peer.asynchronous) {
    for (const Request& request : pool_) {
      if (request.peer != peer.rank || request.state == State::done) continue;
      const bool comes = request.rtr_written && !request.data_here;
      if (comes || request.state == State::send_sending_data) on_its_way += request.bytes;
    }
  }
  return now_milliseconds() + options_.revoke_limit + static_cast<int64_t>(std::min(on_its_way / kSlowest, kMost));
}

// A peer that writes is there. While it is awaited, its time begins again.
void LibOF::has_written(Rank peer) {
  const auto awaits = [&](const Revoking& entry) { return entry.request->peer == peer; };
  if (std::none_of(revoking_.begin(), revoking_.end(), awaits)) return;
  Peer& awaited = *peers_[peer];
  awaited.answers_by = time_for(awaited);
}

// The request has nothing to do with its owner's buffers any more.
void LibOF::adopt(Request& request) {
  RequestOwner& owner = *request.owner;
  request.owner = &orphans_;
  ++orphans_.outstanding;
  if (request.state == State::send_waiting_rtr) {
    --owner.waiting_rtr;
    ++orphans_.waiting_rtr;
  }
  if (--owner.outstanding == 0) make_ready(owner);
}

// The sender will write no data. The receive stays until the send is answered, and its memory need not be exposed.
void LibOF::revoked(Peer& peer, const MessageKey& key) {
  Request* receive = peer.receives.find(key);
  if (receive == nullptr || !receive->given_up || receive->owner == &orphans_) return;  // it was not asked
  conceal(peer, *receive);
  receive->exposes = false;
  adopt(*receive);
}

bool LibOF::poll_revoking() {
  bool moved = false;
  for (size_t i = 0; i < revoking_.size();) {
    const Revoking entry = revoking_[i];
    Request& request = *entry.request;
    const bool ended =
        request.generation != entry.generation || request.state == State::done || request.owner == &orphans_;
    const bool receives = request.state != State::send_sending_data;
    if (!ended && receives && fabric_.revoke(request.peer, request.exposed, request.bytes, reason(), request.poison)) {
      adopt(request);
    } else if (!ended) {
      Peer& peer = *peers_[request.peer];
      const bool late = now_milliseconds() >= std::max(entry.limit, peer.answers_by);
      if (peer.asynchronous || !late) {
        // Once it has no connection any more, the fabric ends what is left.
        if (peer.asynchronous && peer.connected && late)
          reject(peer, "it did not answer when this rank gave a message up");
        ++i;
        continue;
      }
      request.owner->buffers_in_use = true;
      adopt(request);
    }
    revoking_[i] = revoking_.back();
    revoking_.pop_back();
    moved = true;
  }
  return moved;
}

}  // namespace nbc::libof
