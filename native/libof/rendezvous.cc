// Large messages: RTRs, the data, RTSs.
#include <algorithm>

#include "libof/peer.h"

namespace nbc::libof {

// --- sender ----------------------------------------------------------------------------------------------------------

// The RTR of a send is here, or will not come.
void LibOF::take_waiting(Peer& peer, Request& send) {
  peer.sends.remove(&send);
  --send.owner->waiting_rtr;
  if (!send.announced) --unannounced_;
}

void LibOF::announce_sends() {
  if (unannounced_ == 0) return;
  for (Peer* peer : active_) {
    if (!peer->connected || !peer->stalled.empty()) continue;
    peer->sends.each([&](Request* send) {
      if (send->announced || !may_send_eager(*peer, 0)) return;
      write_eager(*peer, EagerKind::rts, send->key, nullptr, 0, nullptr, send->owner->signature);
      ++counters_.rts_sent;
      send->announced = true;
      --unannounced_;
    });
  }
}

bool LibOF::drain_rtrs(Peer& peer) {
  bool moved = false;
  for (;;) {
    const RtrSlot& slot = peer.rtr_in(peer.rtr_received);
    // acquire: pairs with the release in write_rtr()
    if (slot.stamp.load(std::memory_order_acquire) != peer.rtr_received + 1) break;
    if (peer.asynchronous && peer.rtr_received == peer.rtr_arrived) break;
    moved = true;
    ++peer.rtr_received;
    if (!handle_rtr(peer, read_rtr(peer, slot))) return true;
    report(peer, false);
  }
  return moved;
}

LibOF::Rtr LibOF::read_rtr(const Peer& peer, const RtrSlot& slot) const {
  Rtr rtr{{slot.context, slot.tag, slot.sequence},
          {slot.address, slot.buffer_key, nullptr},
          slot.bytes,
          slot.receive,
          slot.kind,
          slot.signature};
  if (const RtrSlot* withdraw = rtr.kind == RtrKind::ready ? find_withdraw(peer, rtr.key) : nullptr) {
    rtr.kind = RtrKind::abandon;
    rtr.buffer.address = withdraw->address;
  }
  return rtr;
}

// False: the peer has broken a rule, and the connection with it has ended.
bool LibOF::handle_rtr(Peer& peer, const Rtr& rtr) {
  EarlyRtr* early = nullptr;
  if (rtr.kind > kLastRtrKind) {
    reject(peer, "it wrote an RTR of a kind that there is not");
    return false;
  }
  switch (rtr.kind) {
    case RtrKind::cancel:
      if ((early = peer.early_rtrs.find(rtr.key)) != nullptr) {
        peer.early_rtrs.remove(early);
        delete early;
      }
      return true;
    case RtrKind::withdraw:
    case RtrKind::revoke:
      if ((early = peer.early_rtrs.find(rtr.key)) != nullptr)
        withdraw(peer, *early, rtr.buffer.address, rtr.kind == RtrKind::revoke);
      return true;
    case RtrKind::revoked:
      revoked(peer, rtr.key);
      return true;
    default:
      return handle_data_rtr(peer, rtr);
  }
}

// The RTR asks for data: its send, or what is in the place of that, answers it, now or later. False: as handle_rtr().
bool LibOF::handle_data_rtr(Peer& peer, const Rtr& rtr) {
  Request* send = peer.sends.find(rtr.key);
  const auto is_of_another = [&](const Request& own) {
    return is_of_another_call(peer, rtr.key, *own.owner, rtr.signature, rtr.asks_for_another_length(own.bytes));
  };
  if (send != nullptr && !is_of_another(*send)) {
    take_waiting(peer, *send);
    answer(peer, *send, rtr);
    return true;
  }
  if (answer_by_poison(peer, rtr.key, rtr.kind)) return true;
  Request* stalled = peer.stalled.head;
  while (stalled != nullptr && !(stalled->key == rtr.key)) stalled = stalled->next;
  if (stalled != nullptr) is_of_another(*stalled);
  if (ends(peer, rtr.key, {rtr.signature})) {
    if (rtr.kind != RtrKind::refuse) queue_poison(peer, {rtr.key, poison_by(*mismatch_of(rtr.key.context)), true});
    return true;
  }
  if (stalled == nullptr) return keep_rtr(peer, rtr);
  peer.stalled.remove(stalled);
  answer(peer, *stalled, rtr);
  return true;
}

// Until its send comes. False: as handle_rtr().
bool LibOF::keep_rtr(Peer& peer, const Rtr& rtr) {
  peer.early_rtrs.push(new EarlyRtr(rtr));
  ++counters_.rtr_early;
  // As many RTRs again may say that a receive has failed: nothing answers those.
  if (peer.early_rtrs.count <= uint64_t{2} * options_.rtr_window) return true;
  reject(peer, "it asked for more messages without a send than its window allows");
  return false;
}

// A send meets its RTR.
void LibOF::answer(Peer& peer, Request& send, const Rtr& rtr) {
  if (rtr.kind == RtrKind::refuse) return refused(send, rtr.buffer);
  if (rtr.kind == RtrKind::abandon) abandoned_by_peer(send, poison_told(rtr.buffer.address));
  start_data(peer, send, rtr);
}

// Another RTR that has arrived takes the one with this key back. So no data leave once their receiver has said that.
const RtrSlot* LibOF::find_withdraw(const Peer& peer, const MessageKey& key) const {
  for (uint32_t n = peer.rtr_received;; ++n) {
    const RtrSlot& slot = peer.rtr_in(n);
    // acquire: pairs with the release in write_rtr()
    if (slot.stamp.load(std::memory_order_acquire) != n + 1) return nullptr;
    if (peer.asynchronous && n == peer.rtr_arrived) return nullptr;
    if (takes_back(slot.kind) && MessageKey{slot.context, slot.tag, slot.sequence} == key) return &slot;
  }
}

// The send is not there yet: it will be answered with the error. The receiver is told once.
void LibOF::withdraw(Peer& peer, EarlyRtr& rtr, uint64_t poison, bool asks) {
  rtr.kind = RtrKind::abandon;
  rtr.buffer.address = poison;
  if (!asks || rtr.revoked) return;
  rtr.revoked = true;
  queue_rtr(peer, {RtrKind::revoked, rtr.key, nullptr, 0}, true);
}

// The receiver could not expose its memory.
void LibOF::refused(Request& send, const ExposedBuffer& told) {
  send.poison = poison_told(told.address);
  --sends_pending_;
  complete(send, Error::abandoned);
}

void LibOF::start_data(Peer& peer, Request& send, const Rtr& rtr) {
  set_state(send, State::send_sending_data);
  peer.sending.push(&send);
  ++counters_.data_sent;
  const uint32_t receive = rtr.receive | (send.announced ? kAnnounced : 0);
  // With an error both learn of it, and nothing is written. That one of them has given the message up may follow from
  // the disagreement.
  const uint64_t room = rtr.bytes & ~kAtMost;
  if ((rtr.bytes & kAtMost) != 0 ? send.bytes > room : send.bytes != room) {
    send.error = Error::truncated;
    send.got = room;
  }
  LocalBuffer from = local_buffer(send);
  if (send.error == Error::abandoned) from.bytes = send.poison;  // told, not written
  fabric_.put(peer.rank, rtr.buffer, from, receive, send.error, &send);
}

// --- receiver --------------------------------------------------------------------------------------------------------

// A receiver of a large message has sent its RTR, or is about to. A receiver of a small one sends an RTR now, and both
// ranks learn from the answer that they disagree.
void LibOF::handle_rts(Peer& peer, Request& receive, Signature theirs) {
  ++peer.matched;
  if (is_of_another_call(peer, receive.key, *receive.owner, theirs, false))
    return;  // its owner is about to be cancelled
  if (receive.data_here || receive.rtr_written) return;
  if (receive.rtr_asked) cancel_queued_rtr(peer, receive);  // it may wait for room in the window
  ask_by_rtr(peer, receive, true);
}

// `announced`: there is an RTS, so the RTR meets a send.
void LibOF::ask_by_rtr(Peer& peer, Request& receive, bool announced) {
  receive.rtr_asked = true;
  queue_rtr(peer, {receive.discard ? RtrKind::abandon : RtrKind::ready, receive.key, &receive, receive.poison},
            announced);
}

void LibOF::cancel_rtr(Peer& peer, const MessageKey& key) { queue_rtr(peer, {RtrKind::cancel, key, nullptr, 0}, true); }

bool LibOF::may_ask(const Peer& peer) const { return peer.immediates < options_.rtr_window; }

// Written at once, if there is room.
void LibOF::queue_rtr(Peer& peer, const QueuedRtr& rtr, bool urgent) {
  const bool first = urgent ? peer.urgent_rtrs.empty() : !peer.has_queued_rtrs() && may_ask(peer);
  if (peer.connected && first && is_prepared(peer, rtr) && write_rtr(peer, rtr)) return;
  if (rtr.receive != nullptr) ++counters_.rtr_stalled;
  (urgent ? peer.urgent_rtrs : peer.rtr_queue).push_back(rtr);
  ++rtrs_pending_;
  activate(peer);  // where it answers a revoke, nothing else may be pending
}

// The message came without its RTR. Its queued RTR goes: the request will be another one.
void LibOF::cancel_queued_rtr(Peer& peer, const Request& receive) {
  for (std::list<QueuedRtr>* queue : {&peer.urgent_rtrs, &peer.rtr_queue}) {
    const auto rtr = std::find_if(queue->begin(), queue->end(),
                                  [&](const QueuedRtr& candidate) { return candidate.receive == &receive; });
    if (rtr == queue->end()) continue;
    queue->erase(rtr);
    --rtrs_pending_;
    return;
  }
}

// A fabric that has to register memory needs to be told of its life.
bool LibOF::expose(Peer& peer, Request& receive) {
  const LocalBuffer buffer = local_buffer(receive);
  receive.combines = receive.combining.kernel != nullptr &&
                     fabric_.expose_combining(peer.rank, buffer, receive.combining, receive.exposed);
  return receive.combines || fabric_.expose(peer.rank, buffer, receive.exposed);
}

void LibOF::conceal(Peer& peer, Request& receive) {
  if (receive.exposes && (peer.asynchronous || receive.given_up || receive.combines))
    fabric_.conceal(peer.rank, receive.exposed);
}

bool LibOF::write_rtr(Peer& peer, const QueuedRtr& rtr) {
  if (peer.rtr_sent - peer.rtr_consumed >= kRtrSlots) {
    read_ack_line(peer);
    if (peer.rtr_sent - peer.rtr_consumed >= kRtrSlots) return false;
  }
  Request* const receive = rtr.receive;
  const bool exposes = rtr.kind == RtrKind::ready;
  const bool refuse = exposes && !expose(peer, *receive);
  RtrSlot& slot = peer.rtr_out(peer.rtr_sent);
  slot.kind = refuse ? RtrKind::refuse : rtr.kind;
  slot.context = rtr.key.context;
  slot.tag = rtr.key.tag;
  slot.sequence = rtr.key.sequence;
  slot.address = refuse ? poison_of(fabric_.rank(), Error::memory) : rtr.poison;
  slot.signature = receive != nullptr ? receive->owner->signature : 0;
  if (receive != nullptr && !refuse) {
    if (!exposes) receive->exposed = {};
    receive->exposes = exposes;
    if (exposes) slot.address = receive->exposed.address;
    slot.buffer_key = receive->exposed.key;
    slot.bytes = receive->length == Length::exact ? receive->bytes : receive->bytes | kAtMost;
    slot.receive = immediate_of(*receive);
    receive->rtr_written = true;
    receive->rtr_local = !peer.asynchronous || !exposes;
    if (receive->state == State::rndv_recv_init) set_state(*receive, State::recv_sending_rtr);
    if (peer.immediates++ == 0) fabric_.expect_immediates(peer.rank, true);
    ++counters_.rtr_sent;
  }
  ++peer.rtr_sent;
  // release: the RTR before its stamp; pairs with the acquire in drain_rtrs()
  slot.stamp.store(peer.rtr_sent, std::memory_order_release);
  const bool revokes = rtr.kind == RtrKind::revoke || rtr.kind == RtrKind::revoked;
  fabric_.commit(peer.rank, &slot, sizeof slot, revokes ? kNoteRevoke : kNoteRtr,
                 refuse || !exposes ? nullptr : receive);
  if (refuse) {
    receive->data_here = true;  // nothing more will happen to it
    receive->error = Error::memory;
    finish_receive(peer, *receive);
    deactivate_if_idle(peer);
  }
  return true;
}

// Its buffer can be exposed at once.
bool LibOF::is_prepared(Peer& peer, const QueuedRtr& rtr) {
  return rtr.kind != RtrKind::ready || fabric_.prepare(peer.rank, local_buffer(*rtr.receive), false);
}

// In their order, but for those whose buffers are being prepared.
bool LibOF::send_rtrs(Peer& peer) {
  bool moved = false;
  const auto send = [&](std::list<QueuedRtr>& queue, bool limited) {
    for (auto rtr = queue.begin(); rtr != queue.end() && (!limited || may_ask(peer));) {
      if (!is_prepared(peer, *rtr)) {
        ++rtr;
        continue;
      }
      if (!write_rtr(peer, *rtr)) return false;
      rtr = queue.erase(rtr);
      --rtrs_pending_;
      moved = true;
    }
    return true;
  };
  if (send(peer.urgent_rtrs, false)) send(peer.rtr_queue, true);
  return moved;
}

// The second event of a receive has happened; completes it unless its RTR is still on its way out.
void LibOF::finish_receive(Peer& peer, Request& receive) {
  if (!receive.data_here || (receive.rtr_written && !receive.rtr_local)) return;
  peer.receives.remove(&receive);
  if (receive.rtr_written) {
    if (--peer.immediates == 0) fabric_.expect_immediates(peer.rank, false);
    conceal(peer, receive);
  }
  receive.owner->received = receive.got;
  complete(receive, receive.error, receive.bytes, receive.got);
}

}  // namespace nbc::libof
