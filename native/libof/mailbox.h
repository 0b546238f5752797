// What lies in a mailbox: the memory that one peer (the writer) writes and its owner reads.
//
//   control                                                  slots
//   0     AckLine                                            0           EagerSlot 0: header (40 bytes), payload
//   64    RtrSlot[32]: RTRs (receiver-driven rendezvous)     slot_bytes  EagerSlot 1
//   2112  free                                               …           as many as there is room for
//
// In a compact mailbox with long slots, only a short payload lies behind its header, in a head of 256 bytes. So all
// small messages of a pair touch one page, however many slots there are: of n ranks there are n² pairs. A longer
// payload lies in a body, the lowest that is free, which its header names. Here is the AckLine, too.
//
//   slots
//   0            EagerSlot 0: header, up to 216 bytes of payload
//   256          EagerSlot 1
//   …
//   bodies - 64  AckLine
//   bodies       a page boundary; as many bodies as slots, of the eager limit in whole lines
//
// Both arrays are rings. Message number n lies in slot n mod length and carries the stamp n + 1, stored last with
// release; the reader knows which number comes next and looks only there (acquire). No empty slot is ever scanned, and
// reuse cannot reorder. The writer may use a slot again when the reader has reported its number as consumed, in the
// AckLine or in the header of an eager message going the other way.
//
// A network writes bytes in any order, so a stamp may be there before what it stands for. Over an asynchronous fabric
// the reader looks at a slot only when the fabric has announced it; the stamp is then as it must be. The AckLine is
// read at any time: its words are independent of each other and of everything else.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fabric/fabric.h"

namespace nbc::libof {

// Which message a message is: messages match by equality of all three. Context: communicator. Tag: the operation on
// that communicator, or the user's tag. Sequence: position among the messages of the operation (or of the tag) between
// the two ranks.
struct MessageKey {
  uint64_t context = 0;
  uint32_t tag = 0;
  uint32_t sequence = 0;
  bool operator==(const MessageKey&) const = default;
};

// An explicit EAGER_ACK: counts of everything the writer of this line consumed from the other direction. They wrap.
struct alignas(64) AckLine {
  std::atomic<uint32_t> eager_consumed;  // eager slots emptied
  std::atomic<uint32_t> eager_matched;   // of those, messages that found their receive
  std::atomic<uint32_t> rtr_consumed;    // RTR slots emptied
};

// rts: no message, but that a large one waits for its RTR; see announce_sends() in libof.h. poison: no data, in place
// of a message, large or small, whose operation has failed at its sender. inquiry: no message either: the sender waits
// for what the receiver does in the call with this context and tag, and `sequence` is a hash of the size of that.
// mismatch: two calls of the communicator differ; the payload is a MismatchNotice.
enum class EagerKind : uint8_t { message = 0, rts = 1, poison = 2, inquiry = 3, mismatch = 4 };
constexpr EagerKind kLastEagerKind = EagerKind::mismatch;

// Where the failure of an operation began, and with which error: the rank in the world, and in the last 8 bits an
// Error. 0: nothing is known.
using Poison = uint32_t;
constexpr Poison poison_of(Rank origin, Error cause) { return origin << 8 | static_cast<uint32_t>(cause); }
constexpr Rank origin_of(Poison poison) { return poison >> 8; }
constexpr Error cause_of(Poison poison) { return static_cast<Error>(poison & 0xff); }
static_assert(kLastError <= 0xff);
// What a peer has told of a failure, in a job of `size` ranks. Peers are not believed: 0 if it is no Poison.
constexpr Poison poison_from(uint64_t told, Rank size) {
  const uint64_t cause = told & 0xff;
  return told >> 8 < size && cause >= kFirstError && cause <= kLastError ? static_cast<Poison>(told) : 0;
}

constexpr uint32_t kLargestEagerMessage = UINT16_MAX;  // EagerHeader::bytes

struct EagerHeader {
  std::atomic<uint32_t> stamp;
  uint16_t bytes;
  EagerKind kind;
  uint8_t body;  // where a payload lies that has no room in a head
  uint64_t context;
  uint32_t tag;
  uint32_t sequence;
  uint32_t eager_consumed;  // piggybacked EAGER_ACK, as in AckLine
  uint32_t eager_matched;
  uint32_t rtr_consumed;
  // Kind poison: a Poison. Kind mismatch: the second of the two calls, whose rank is in `sequence`. Others: the
  // Signature of the sender's call.
  uint32_t about;
};
static_assert(sizeof(EagerHeader) == 40 && sizeof(EagerHeader) <= kCommitHead);

// What a mismatch says beside its header: the first of the two calls. It has room in a slot of any eager limit.
struct MismatchNotice {
  uint32_t rank;
  Signature call;
  uint64_t bytes;
};
static_assert(sizeof(EagerHeader) + sizeof(MismatchNotice) <= kCommitHead);

// ready: the receiver's memory is exposed. cancel: the message came another way, the RTR before is void. refuse: the
// receiver cannot take the message, its memory could not be exposed; no answer. abandon: the receiver has given the
// message up; the sender answers with Error::abandoned and no data. withdraw: the sender reads the RTR before it as an
// abandon, unless it has answered that already. revoke: the same, and while the send is not there, the sender writes a
// revoked at once. Of refuse, abandon, withdraw and revoke, `address` is a Poison: where the receiver's failure began.
// revoked: the one kind from a sender to a receiver; no data will leave for that RTR.
enum class RtrKind : uint32_t { ready = 0, cancel = 1, refuse = 2, abandon = 3, withdraw = 4, revoke = 5, revoked = 6 };
constexpr RtrKind kLastRtrKind = RtrKind::revoked;
// The receiver takes the RTR with this key back that it has written before.
constexpr bool takes_back(RtrKind kind) { return kind == RtrKind::withdraw || kind == RtrKind::revoke; }

// What a write into a mailbox was, told with it where the reader may not look before it is told. kNoteRevoke: an RTR of
// the kind revoke or revoked, which is read at once. kNoteAlarm: an inquiry or a mismatch; so is it.
enum Note : uint32_t { kNoteEager = 0, kNoteRtr = 1, kNoteAck = 2, kNoteRevoke = 3, kNoteAlarm = 4 };

struct alignas(64) RtrSlot {
  std::atomic<uint32_t> stamp;
  RtrKind kind;
  uint64_t context;
  uint32_t tag;
  uint32_t sequence;
  uint64_t address;
  uint64_t bytes;
  uint32_t buffer_key;
  uint32_t receive;     // comes back as the immediate value of the data
  Signature signature;  // of the receiver's call
};
static_assert(sizeof(RtrSlot) == 64 && sizeof(RtrSlot) <= kCommitHead);

// In RtrSlot::bytes: the receiver takes any message up to these bytes, not only one that is as long.
constexpr uint64_t kAtMost = uint64_t{1} << 63;

constexpr uint32_t kRtrSlots = 32;
constexpr size_t kRtrOffset = sizeof(AckLine);
static_assert(kRtrOffset + kRtrSlots * sizeof(RtrSlot) <= kControlBytes - kFabricBytes);

constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr size_t eager_slot_bytes(uint32_t eager_limit) { return whole_lines(sizeof(EagerHeader) + eager_limit); }

constexpr size_t kHeadBytes = 256;
constexpr size_t kInHead = kHeadBytes - sizeof(EagerHeader);  // of a payload
constexpr size_t kBodyAlignment = 4096;                       // pages of 4 KiB are the smallest
constexpr size_t body_bytes(uint32_t eager_limit) { return whole_lines(eager_limit); }
constexpr size_t bodies_at(uint32_t slots) {
  return (slots * kHeadBytes + sizeof(AckLine) + kBodyAlignment - 1) / kBodyAlignment * kBodyAlignment;
}
constexpr size_t acks_at(uint32_t slots) { return bodies_at(slots) - sizeof(AckLine); }
constexpr bool has_room_for(uint32_t slots, uint32_t eager_limit) {
  return bodies_at(slots) + slots * body_bytes(eager_limit) <= kSlotBytes;
}

// Fewer slots would make every message wait for an acknowledgement.
constexpr uint32_t kFewestSlots = 4;
static_assert(kLargestEagerLimit == kSlotBytes / kFewestSlots / 64 * 64 - sizeof(EagerHeader));
// Slots of up to 512 bytes lie close enough as they are; with the largest ones there is no room for heads.
constexpr bool has_heads(uint32_t eager_limit) {
  return eager_slot_bytes(eager_limit) > 2 * kHeadBytes && has_room_for(kFewestSlots, eager_limit);
}
// The same with heads and without: peers of one rank may have either.
constexpr uint32_t eager_slots(uint32_t eager_limit) {
  auto slots = static_cast<uint32_t>(room_for(eager_limit) / eager_slot_bytes(eager_limit));
  while (has_heads(eager_limit) && !has_room_for(slots, eager_limit)) --slots;
  return slots;
}
static_assert(eager_slots(kLargestEagerLimit) == kFewestSlots && eager_slots(kLargestEagerMessage) == 8);
static_assert(eager_slots(4096) == 14 && bodies_at(14) == kBodyAlignment);
static_assert(eager_slots(2 * kHeadBytes) <= UINT8_MAX);  // EagerHeader::body

}  // namespace nbc::libof
