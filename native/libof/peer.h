// What LibOF knows about one peer. Only the files of LibOF include this.
#pragma once
#include <list>
#include <memory>
#include <unordered_set>

#include "libof/libof.h"

namespace nbc::libof {

// What a message touches comes first: with more ranks than processors every line has left the cache since the last one.
struct alignas(64) LibOF::Peer {
  // Numbers of messages; they wrap, only differences count.
  uint32_t eager_sent = 0;
  uint32_t eager_sent_index = 0;  // slot of the next one
  uint32_t eager_consumed = 0;    // by the peer, as far as it reported
  uint32_t eager_matched = 0;
  uint32_t eager_received = 0;
  uint32_t eager_received_index = 0;
  uint32_t eager_received_reported = 0;
  uint32_t matched = 0;
  uint32_t matched_reported = 0;
  uint32_t rtr_received = 0;
  uint32_t rtr_received_reported = 0;
  uint32_t active_index = 0;
  uint32_t eager_limit = 0;
  uint32_t slots = 0;       // of each of both mailboxes
  uint32_t slot_bytes = 0;  // from one slot to the next
  Rank rank = 0;
  bool connected = false;
  bool asynchronous = false;  // how the fabric reaches it; set with `connected`, and stays
  Error unfit = Error::none;  // set when there is no connection and will be none
  bool active = false;
  bool congested = false;   // it filled half of its window of unexpected messages
  bool has_bodies = false;  // long payloads lie apart from their headers; set with `connected`

  KeyedLists<Request> receives;  // recv_waiting_eager, rndv_recv_init, recv_sending_rtr
  KeyedLists<Request> sends;     // send_waiting_rtr
  KeyedLists<Unexpected> unexpected;
  KeyedLists<EarlyRtr> early_rtrs;

  List<Request> stalled;  // eager_send_init, and sends to a peer that is not there yet
  List<Request> sending;  // send_sending_data
  Mailbox out;
  Mailbox in;
  uint32_t rtr_sent = 0;
  uint32_t rtr_consumed = 0;   // by the peer, as far as it reported
  uint32_t immediates = 0;     // receives whose RTR was written
  uint32_t eager_arrived = 0;  // asynchronous: as far as it has announced them
  uint32_t rtr_arrived = 0;
  int64_t answers_by = 0;  // has_written(): nothing in revoking_ is late before; on the clock in milliseconds
  // RTRs that are not written yet. Urgent: no early ones, for the sender has the message or an RTR before them.
  // Lists, since an empty one takes no memory: most are, of most peers.
  std::list<QueuedRtr> urgent_rtrs;
  std::list<QueuedRtr> rtr_queue;
  std::list<QueuedPoison> poisons;  // that are not written yet; those that an RTR asks for come first
  std::list<Mismatch> notices;      // that are not written yet
  // Mismatches that it has been told of, or has told of: told_as() in calls.cc. Of communicators in mismatches_ only.
  std::unordered_set<uint64_t> informed;
  bool has_queued_rtrs() const { return !urgent_rtrs.empty() || !rtr_queue.empty(); }

  AckLine* ack_in = nullptr;
  AckLine* ack_out = nullptr;
  // By body: the number of the message that had it last. Made when one is first needed.
  std::unique_ptr<uint32_t[]> bodies;
  std::byte* body(const Mailbox& box, uint32_t number) const {
    return box.slots + bodies_at(slots) + number * body_bytes(eager_limit);
  }
  RtrSlot& rtr_in(uint32_t n) const { return reinterpret_cast<RtrSlot*>(in.control + kRtrOffset)[n % kRtrSlots]; }
  RtrSlot& rtr_out(uint32_t n) const { return reinterpret_cast<RtrSlot*>(out.control + kRtrOffset)[n % kRtrSlots]; }
};

// Of the numbers that a communicator takes (src/contexts.ts), the first is for collectives, the third for persistent
// ones. Both have calls that ranks match.
constexpr uint64_t communicator_of(uint64_t context) { return context & ~uint64_t{3}; }
constexpr bool has_calls(uint64_t context) { return (context & 1) == 0; }

// In place of a message of a communicator that has ended. A rank that gets it before the notice learns who has revoked.
inline Poison poison_by(const Mismatch& found) { return poison_of(found.ranks[0], found.error()); }

// The part of memory that a message is. Of the user's buffers there are two at most; what is in neither of them is
// exposed memory.
inline LocalBuffer local_buffer(const Request& request) {
  const Pinned* pins = request.owner->pins;
  for (size_t i = 0; pins != nullptr && i < 2; ++i) {
    if (pins[i].data != nullptr && request.buffer >= pins[i].data &&
        request.buffer + request.bytes <= pins[i].data + pins[i].bytes)
      return {request.buffer, request.bytes, &pins[i]};
  }
  return {request.buffer, request.bytes, nullptr};
}

// The receiver has said that its operation has failed, or that it closes. The RTR names no memory, but where that
// began.
inline void abandoned_by_peer(Request& send, Poison poison) {
  const bool closed = cause_of(poison) == Error::closed;
  send.error = closed ? Error::peer_closed : Error::abandoned;
  send.poison = closed ? 0 : poison;
}

// The immediate value names the receive: 22 bits of pool index, 7 bits of generation. The sender adds whether there was
// an RTS.
constexpr uint32_t kIdBits = 22;
constexpr uint32_t kMostRequests = 1u << kIdBits;
constexpr uint32_t kGenerations = 0x7f;
constexpr uint32_t kAnnounced = 1u << 29;
static_assert(kAnnounced < 1u << kImmediateBits && kAnnounced > kGenerations << kIdBits);
inline uint32_t immediate_of(const Request& receive) { return receive.id | receive.generation << kIdBits; }

}  // namespace nbc::libof
