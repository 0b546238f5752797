// Small messages: eager slots, unexpected messages, acknowledgements.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "copy.h"
#include "libof/peer.h"

namespace nbc::libof {

// --- sends -----------------------------------------------------------------------------------------------------------

bool LibOF::has_eager_slot(Peer& peer) {
  if (peer.eager_sent - peer.eager_consumed >= peer.slots) read_ack_line(peer);
  return peer.eager_sent - peer.eager_consumed < peer.slots;
}

bool LibOF::may_send_eager(Peer& peer, size_t bytes) {
  const auto room = [&] {
    return peer.eager_sent - peer.eager_consumed < peer.slots &&
           peer.eager_sent - peer.eager_matched < options_.unexpected_window &&
           (bytes <= kInHead || !peer.has_bodies || free_body(peer) < peer.slots);
  };
  if (room()) return true;
  read_ack_line(peer);
  return room();
}

// The lowest that is free: so few of them are ever touched. There are as many as slots, so one is free where a slot is:
// unless the number of a message long ago looks like one that is outstanding, and then until that is consumed.
uint32_t LibOF::free_body(Peer& peer) const {
  if (peer.bodies == nullptr) {
    peer.bodies = std::make_unique<uint32_t[]>(peer.slots);
    std::fill_n(peer.bodies.get(), peer.slots, peer.eager_consumed - 1);
  }
  const uint32_t outstanding = peer.eager_sent - peer.eager_consumed;
  uint32_t body = 0;
  while (body < peer.slots && peer.bodies[body] - peer.eager_consumed < outstanding) ++body;
  return body;
}

void LibOF::write_eager(Peer& peer, EagerKind kind, const MessageKey& key, const void* buffer, size_t bytes,
                        void* cookie, uint32_t about) {
  std::byte* slot = peer.out.slots + peer.eager_sent_index * peer.slot_bytes;
  std::byte* payload = slot + sizeof(EagerHeader);
  auto* header = reinterpret_cast<EagerHeader*>(slot);
  header->bytes = static_cast<uint16_t>(bytes);
  header->kind = kind;
  header->context = key.context;
  header->tag = key.tag;
  header->sequence = key.sequence;
  if (peer.eager_received != peer.eager_received_reported || peer.matched != peer.matched_reported ||
      peer.rtr_received != peer.rtr_received_reported)
    ++counters_.acks_piggybacked;
  header->eager_consumed = peer.eager_received_reported = peer.eager_received;
  header->eager_matched = peer.matched_reported = peer.matched;
  header->rtr_consumed = peer.rtr_received_reported = peer.rtr_received;
  header->about = about;
  if (bytes > kInHead && peer.has_bodies) {
    const uint32_t number = free_body(peer);
    peer.bodies[number] = peer.eager_sent;
    header->body = static_cast<uint8_t>(number);
    payload = peer.body(peer.out, number);
  }
  if (bytes > 0) copy_bytes(payload, buffer, bytes);
  ++peer.eager_sent;
  if (++peer.eager_sent_index == peer.slots) peer.eager_sent_index = 0;
  // release: header and payload before the stamp; pairs with the acquire in drain_eager()
  header->stamp.store(peer.eager_sent, std::memory_order_release);
  const bool alarm = kind == EagerKind::inquiry || kind == EagerKind::mismatch;
  fabric_.commit(peer.rank, slot, sizeof(EagerHeader) + bytes, alarm ? kNoteAlarm : kNoteEager, cookie);
}

bool LibOF::send_stalled(Peer& peer) {
  bool moved = false;
  while (Request* request = peer.stalled.head) {
    if (!may_send_eager(peer, request->bytes)) break;
    peer.stalled.remove(request);
    set_state(*request, State::eager_sending);
    write_eager(peer, EagerKind::message, request->key, request->buffer, request->bytes, request,
                request->owner->signature);
    ++counters_.eager_sent;
    if (!peer.asynchronous) {
      --sends_pending_;
      complete(*request, Error::none);
    }
    moved = true;
  }
  return moved;
}

// --- receives --------------------------------------------------------------------------------------------------------

void LibOF::deliver(Peer& peer, Request& receive, EagerKind kind, uint32_t about, const std::byte* payload,
                    size_t bytes) {
  ++peer.matched;
  receive.data_here = true;
  receive.got = bytes;
  if (receive.discard) {
    // Nobody wants it any more.
  } else if (kind == EagerKind::poison) {
    receive.error = Error::abandoned;
    receive.poison = poison_told(about);
  } else if (is_of_another_call(peer, receive.key, *receive.owner, about, !receive.takes(bytes))) {
    receive.error = Error::calls_differ;
  } else if (!receive.takes(bytes)) {
    receive.error = Error::truncated;
  } else if (bytes > 0) {
    copy_bytes(receive.buffer, payload, bytes);
  }
  if (receive.rtr_written) {
    cancel_rtr(peer, receive.key);
  } else if (receive.rtr_asked) {
    cancel_queued_rtr(peer, receive);
  }
  finish_receive(peer, receive);
}

bool LibOF::drain_eager(Peer& peer) {
  bool moved = false;
  // A peer that has filled its window may have no more to send but what we ask for by RTR.
  for (;;) {
    std::byte* slot = peer.in.slots + peer.eager_received_index * peer.slot_bytes;
    auto* header = reinterpret_cast<EagerHeader*>(slot);
    // acquire: pairs with the release in write_eager()
    if (header->stamp.load(std::memory_order_acquire) != peer.eager_received + 1) break;
    if (peer.asynchronous && peer.eager_received == peer.eager_arrived) break;
    moved = true;
    const size_t bytes = header->bytes;
    const EagerKind kind = header->kind;
    if (kind > kLastEagerKind) {
      reject(peer, "it wrote a message of a kind that there is not");
      return true;
    }
    if (bytes > (kind == EagerKind::mismatch ? sizeof(MismatchNotice) : peer.eager_limit)) {
      reject(peer, "it wrote a message that is longer than eager ones are");
      return true;
    }
    read_acks(peer, header->eager_consumed, header->eager_matched, header->rtr_consumed);
    const MessageKey key{header->context, header->tag, header->sequence};
    const uint32_t about = header->about;
    const std::byte* payload = slot + sizeof(EagerHeader);
    if (bytes > kInHead && peer.has_bodies) {
      const uint32_t number = header->body;
      if (number >= peer.slots) {
        reject(peer, "it wrote a message where there is no place for one");
        return true;
      }
      payload = peer.body(peer.in, number);
    }
    ++peer.eager_received;
    if (++peer.eager_received_index == peer.slots) peer.eager_received_index = 0;
    Request* receive = peer.receives.find(key);
    if (kind == EagerKind::inquiry || kind == EagerKind::mismatch) {
      ++peer.matched;
      if (kind == EagerKind::inquiry) {
        take_inquiry(peer, key, about);
      } else if (!read_notice(peer, key, about, payload)) {
        return true;
      }
    } else if (kind == EagerKind::rts && receive != nullptr) {
      handle_rts(peer, *receive, about);
    } else if (receive != nullptr && !receive->data_here) {
      deliver(peer, *receive, kind, about, payload, bytes);
    } else {
      keep(peer, key, kind, about, payload, bytes);
      if (peer.unexpected.count > options_.unexpected_window) {
        reject(peer, "it sent more messages without a receive than its window allows");
        return true;
      }
      if (kind == EagerKind::message) ++counters_.eager_unexpected;
    }
    report(peer, false);
  }
  if (moved) relieve_backpressure(peer);
  return moved;
}

// An unexpected message.
void LibOF::keep(Peer& peer, const MessageKey& key, EagerKind kind, uint32_t about, const std::byte* payload,
                 size_t bytes) {
  if (ends(peer, key, {kind == EagerKind::poison ? 0 : about})) {
    ++peer.matched;
    return;
  }
  // A send that was announced has failed: of the two, its receive must find the poison.
  if (kind == EagerKind::poison) {
    if (Unexpected* rts = peer.unexpected.find(key); rts != nullptr && rts->kind == EagerKind::rts) {
      ++peer.matched;
      forget(peer, rts);
      std::free(rts);
    }
  }
  void* memory = std::malloc(sizeof(Unexpected) + bytes);
  if (memory == nullptr) throw std::bad_alloc();
  auto* message = new (memory) Unexpected{key, nullptr, nullptr, static_cast<uint32_t>(bytes), kind, about};
  copy_bytes(message->payload(), payload, bytes);
  peer.unexpected.push(message);
}

void LibOF::forget(Peer& peer, Unexpected* message) {
  peer.unexpected.remove(message);
  if (peer.congested && peer.unexpected.count < options_.unexpected_window / 2) peer.congested = false;
}

// --- acknowledgements ------------------------------------------------------------------------------------------------

// Tells the peer what we consumed, once that is a fair share of what it may have outstanding. Piggybacking comes first:
// whatever went out in the header of an eager message is reported already.
void LibOF::report(Peer& peer, bool force) {
  const bool slots = peer.eager_received - peer.eager_received_reported >= (peer.slots + 1) / 2;
  const bool window = peer.matched - peer.matched_reported >= options_.unexpected_window / 4;
  const bool rtrs = peer.rtr_received - peer.rtr_received_reported >= kRtrSlots / 2;
  if (!(slots || window || rtrs || force)) return;
  AckLine& line = *peer.ack_out;
  peer.eager_received_reported = peer.eager_received;
  peer.matched_reported = peer.matched;
  peer.rtr_received_reported = peer.rtr_received;
  // release: we have read the slots before the peer may write them again; pairs with the acquires in read_ack_line()
  line.eager_matched.store(peer.matched, std::memory_order_release);
  line.rtr_consumed.store(peer.rtr_received, std::memory_order_release);
  line.eager_consumed.store(peer.eager_received, std::memory_order_release);
  ++counters_.acks_explicit;
  fabric_.commit(peer.rank, &line, sizeof line.eager_consumed * 3, kNoteAck, nullptr);
}

// Reports may overtake each other between the header and the line: the larger count (modulo wrap-around) holds.
void LibOF::read_acks(Peer& peer, uint32_t consumed, uint32_t matched, uint32_t rtrs) {
  const auto later = [](uint32_t& known, uint32_t told) {
    if (static_cast<int32_t>(told - known) > 0) known = told;
  };
  later(peer.eager_consumed, consumed);
  later(peer.eager_matched, matched);
  later(peer.rtr_consumed, rtrs);
}

void LibOF::read_ack_line(Peer& peer) {
  const AckLine& line = *peer.ack_in;
  const uint32_t consumed = line.eager_consumed.load(std::memory_order_acquire);
  const uint32_t rtrs = line.rtr_consumed.load(std::memory_order_acquire);
  const uint32_t matched = line.eager_matched.load(std::memory_order_acquire);
  read_acks(peer, consumed, matched, rtrs);
}

// A peer that holds half of its window with messages nobody asked for may be stopped before the one that we wait for.
// Then the receives ask for their messages: an RTR is answered from the sender's memory, past its window.
void LibOF::relieve_backpressure(Peer& peer) {
  if (peer.congested || peer.unexpected.count < options_.unexpected_window / 2) return;
  peer.congested = true;
  peer.receives.each([&](Request* receive) {
    if (!receive->rtr_asked && !receive->data_here) ask_by_rtr(peer, *receive);
  });
}

}  // namespace nbc::libof
