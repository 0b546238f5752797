// Large transfers over shared memory: the fabric's put().
//
// A put is announced in a BulkSlot, sixteen per pair, in the memory of the receiver. Its data is cut into pieces, and
// both ends copy them: the sender always, the receiver as well when it has nothing else to do. A piece is claimed by
// counting `next` up and reported by counting `done` up; the one who reports the last piece rings the other. Where the
// kernel forbids access to the private memory of other processes, the sender stages pieces in its exposed arena and
// only the receiver copies.
//
// A large message of a reduction is taken by its receiver. The key in the RTR says so (kTaken). The receiver combines
// what it reads from the sender's arena, so nothing is written only to be read again. From private memory the sender
// stages it: an iallreduce of 1 MiB between two ranks then takes 140 to 160 µs. With the sender writing by a call of
// the kernel it took 180 to 220, with the receiver reading by one 190 to 260.
//
// Where both ends can reach all three operands, the receiver leaves a Recipe, and both combine pieces as they would
// copy them: an ireduce of 1 MiB in memory of alloc() takes 40 to 48 µs, and took 112 to 122 with the receiver alone.
// A sender that expects large messages itself does not: it has enough to do with what is for itself.
//
// A short put to private memory is staged everywhere, and done at once: the receiver copies it when it looks for it.
// Two copies in the caches take less time than a call of the kernel, which has to find and pin the pages (AMD EPYC,
// virtual machine, plain buffers): ibcast of 16 KiB 5.8 and 3.4 µs, ialltoall 8.2 and 3.9, of 64 KiB 12.6 and 9.3.
//
//   BulkSlot (one cache line)
//   stamp        0: free. 2n+1: announcement n of this pair. The sender stores it (release) after the rest;
//                the receiver stores 0 (release)
//   next, done   pieces claimed, pieces finished. Both sides fetch_add; done: acq_rel, so that the last one sees
//                all data
//   all others   stored by the sender, before stamp
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <sys/types.h>
#include <vector>

#include "fabric/shm/arena.h"
#include "job/segment.h"

namespace nbc::shm {

using job::kBulkBytes;
using job::kLine;
using job::RankLine;
using job::Segment;

struct alignas(kLine) BulkSlot {
  std::atomic<uint32_t> stamp;
  uint32_t immediate;
  uint64_t source;       // offset in the sender's arena, or address in the sender
  uint64_t destination;  // offset in the receiver's arena, or address in the receiver
  uint64_t bytes;
  uint64_t total;  // bytes of the whole put: what the immediate reports; who stops the slot tells something else
  uint32_t piece_bytes;
  uint16_t flags;
  std::atomic<uint16_t> error;  // of enum Error; relaxed, ordered by done
  std::atomic<uint32_t> next;
  std::atomic<uint32_t> done;
  uint32_t claim;  // pieces that one side claims at once if it waits
  uint32_t key;    // of the memory that it is for
};
static_assert(sizeof(BulkSlot) == kLine);
constexpr uint32_t kBulkSlots = kBulkBytes / sizeof(BulkSlot);

// Whether a sender may still write into memory that its receiver has exposed to it. One line per pair, in the memory of
// the receiver; only failures change `revocations`.
//
//   sender                                         receiver takes memory back
//   inside = odd                      seq_cst      revocations += 1                     seq_cst
//   if revocations == those of the RTR: (seq_cst)  if inside is odd: look again later   seq_cst
//     copy, or announce a slot                     stop the slots for this memory that are announced
//   otherwise: the receiver copies                 when all pieces of these are finished: it is taken back
//   inside = even                     release
//
// All four accesses are seq_cst: either the sender sees the revocation, or the receiver sees that it is inside. An RTR
// from before a revocation that is not for this memory is still good: the receiver knows that, and copies by itself.
// native/test/model/revoke.pml proves it.
//
// The recipes are the receiver's. It writes one before the RTR that names it, and again when what was exposed with that
// is concealed. The sender reads it inside.
constexpr uint32_t kRecipes = 2;
struct Recipe {
  uint64_t target;  // offsets in the receiver's arena; between threads of one process: addresses
  uint64_t other;
  uint32_t kernel;  // Combining::number; 0: this recipe is free
  uint32_t is_left;
};
struct alignas(kLine) Gate {
  std::atomic<uint32_t> revocations;  // receiver
  std::atomic<uint32_t> inside;       // sender; odd: between its look and the announcement
  Recipe recipes[kRecipes];
};
static_assert(sizeof(Gate) <= kFabricBytes);

// The key of exposed memory: bit 0 says that the address is an offset in the arena, bit 1 that the receiver combines
// what is for it, the next two which recipe the sender has for that (0: none), the rest counts revocations. Memory that
// was taken back may be exposed once more before its revocation is concealed: what is for that has a later key.
constexpr uint32_t kInArena = 1;
constexpr uint32_t kTaken = 2;
constexpr uint32_t kRecipeShift = 2;
constexpr uint32_t kRevocationsShift = 4;
constexpr uint32_t kAllButRevocations = (1u << kRevocationsShift) - 1;
constexpr uint32_t recipe_of(uint32_t key) { return (key & kAllButRevocations) >> kRecipeShift; }
static_assert(recipe_of(kAllButRevocations) >= kRecipes);
// A peer may name any number.
constexpr bool has_recipe(uint32_t key) { return recipe_of(key) > 0 && recipe_of(key) <= kRecipes; }
constexpr uint32_t key_of(uint32_t revocations, bool in_arena) {
  return revocations << kRevocationsShift | (in_arena ? kInArena : 0);
}

inline bool is_same(const ExposedBuffer& a, const ExposedBuffer& b) { return a.address == b.address && a.key == b.key; }

// Odd, so that it is not "free" either when the number wraps.
constexpr uint32_t stamp_of(uint32_t announcement) { return announcement * 2 + 1; }

enum BulkFlags : uint16_t {
  kSourceInArena = 1,
  kDestinationInArena = 2,
  kReceiverCopies = 4,  // only the receiver may claim pieces
  kLast = 8,            // deliver the immediate when this is done
  kBuffered = 16,       // the sender's put is done: nobody waits for the receiver
};

// Below this a put is one copy by the sender: sharing the work costs more cache misses than it saves.
constexpr size_t kShareFrom = 96 * 1024;
// Up to this a put to private memory of another process is buffered. From 96 KiB on it would be slower: ibcast.
constexpr size_t kBufferedTo = 64 * 1024;
// Copied at once by a call that does not wait.
constexpr size_t kPieceBytes = 32 * 1024;
constexpr size_t kSmallestClaim = 64 * 1024;
constexpr size_t kLargestClaim = 512 * 1024;
constexpr size_t kStagingBytes = 128 * 1024;
// How many staging buffers short puts may take, and which part of the exposed memory. Without one they go directly.
constexpr uint32_t kBuffers = 32;
// From here on a message of a reduction is taken by its receiver.
constexpr size_t kCombineFrom = kShareFrom;
constexpr size_t kShareOfBuffers = 8;

// A poll begins another copy only while it has copied less than this, in bytes for each direction. So it copies one
// piece each way, however many puts there are. A caller that waits has nothing better to do: it claims several pieces
// at once, which are one system call, and less contention for the counter.
constexpr uint64_t room_of(Effort effort) {
  switch (effort) {
    case Effort::look:
      return 16 * 1024;
    case Effort::pass:
    case Effort::driving:
      return kPieceBytes;
    case Effort::waiting:
    case Effort::helping:
      break;
  }
  return UINT64_MAX;
}

struct BulkCounters {
  uint64_t mapped_bytes = 0;        // copied by memcpy: both ends were mapped here
  uint64_t cross_memory_bytes = 0;  // copied by process_vm_readv/writev
  uint64_t staged_bytes = 0;        // copied into staging buffers
  uint64_t helped_pieces = 0;       // pieces that the receiver copied for the sender
  uint64_t combined_bytes = 0;      // combined instead of copied
};

// One put on the sender's side.
struct Put {
  Rank peer;
  ExposedBuffer to;
  const std::byte* from;
  size_t bytes;  // to move
  size_t told;   // to report with the immediate; differs only where there is an error
  uint32_t immediate;
  Error error;
  void* cookie;
  size_t announced = 0;  // bytes handed to slots
  uint32_t open_slots = 0;
  bool told_all = false;  // its last slot is announced: it is in no backlog any more
  bool buffered = false;  // it is done, although the receiver may not have copied it
  bool reported = false;  // put_done is out
  Combining combining;    // what this rank may combine for the receiver; kernel is null: nothing
  Put* next = nullptr;    // in Link::backlog or the free list
};

// What this rank knows about one peer's bulk slots.
struct Link {
  Rank peer = 0;
  pid_t pid = 0;
  bool here = false;                // the peer is a thread of this process, or this rank itself: its addresses are ours
  BulkSlot* out = nullptr;          // in the peer's memory: our announcements
  BulkSlot* in = nullptr;           // in our memory: the peer's
  bool can_attach = false;          // process_vm_* works on this peer
  bool attaches = false;            // and the peer may use it, too
  uint32_t announced = 0;           // announcements we made
  uint32_t received = 0;            // announcements of the peer that we finished
  Put* in_flight[kBulkSlots] = {};  // by slot
  void* staging[kBulkSlots] = {};   // by slot, for staged pieces
  uint32_t flying = 0;              // slots in in_flight, a bit for each
  Put* backlog_head = nullptr;      // puts that are not announced completely, in order
  Put* backlog_tail = nullptr;
  std::byte* arena = nullptr;  // the peer's arena, mapped when first needed
  std::string not_moved;       // why this rank could not copy, the last time
  bool expected = false;       // immediates are expected from it
  bool sending = false;        // is in Bulk::senders_
  bool abandoned = false;      // the peer has closed, or is given up: this rank does not wait for what it copies
  Gate* gate_out = nullptr;    // for what we write to the peer
  Gate* gate_in = nullptr;     // for what the peer writes to us
  struct Revoked {
    ExposedBuffer buffer;
    size_t bytes;
    uint32_t since;  // `revocations` with this one
    Error why;
    uint64_t told;
  };
  std::vector<Revoked> revoked;  // until they are concealed
  bool outdated = false;         // RTRs from before a revocation are out: the receiver has to copy for them
  struct Taken {
    ExposedBuffer buffer;
    size_t bytes;
    Combining how;
  };
  std::vector<Taken> taken;  // what this rank takes from the peer, until it is concealed
};

class Bulk {
 public:
  // `find_kernel`: null if this rank does not combine for others.
  Bulk(std::shared_ptr<Segment> segment, std::shared_ptr<Arena> arena, Rank rank, FindKernel find_kernel = nullptr);
  ~Bulk();

  Link& open(Rank peer, bool may_attach);
  Link& link(Rank peer) { return *links_[peer]; }
  std::string why_not_moved(Rank peer) const { return links_[peer] == nullptr ? "" : links_[peer]->not_moved; }

  void put(const Put& what);
  void expect(Rank peer, bool expected);
  void abandon(Rank peer);
  // As in fabric.h. Both ring(peer) for slots that they finished.
  template <typename Ring>
  bool revoke(Rank peer, const ExposedBuffer& buffer, size_t bytes, Error why, uint64_t told, Ring&& ring);
  template <typename Ring>
  void retract(Rank peer, void* cookie, Error error, uint64_t told, Ring&& ring);
  // What comes for this memory, which gets another key, is combined. Until conceal().
  void take(Rank peer, ExposedBuffer& buffer, size_t bytes, const Combining& how);
  void conceal(Rank peer, const ExposedBuffer& buffer);
  uint32_t revocations(Rank peer) const { return links_[peer]->gate_in->revocations.load(std::memory_order_relaxed); }
  // Fills out[0…max) with completions. ring(peer) is called for every slot this rank finished or announced for the peer
  // to act on.
  template <typename Ring>
  unsigned poll(Completion* out, unsigned max, Effort effort, Ring&& ring);
  // As in fabric.h.
  uint64_t work(uint64_t enough) const;
  // Peers have still to copy what was staged for them.
  bool is_read() const;
  bool receiver_copies() const { return receiver_copies_ || outdated_ > 0 || taken_ > 0; }
  const BulkCounters& counters() const { return counters_; }

 private:
  bool copy_pieces(Link& link, BulkSlot& slot, bool sending, uint32_t first, uint32_t count);
  bool combine(Link& link, BulkSlot& slot, uint64_t begin, size_t length);
  void combine_part(const Combining& how, uint64_t at, const std::byte* incoming, size_t bytes);
  uint32_t write_recipe(Link& link, const Combining& how);
  bool read_recipe(Link& link, Put& put);
  std::byte* own(uint64_t place, bool in_arena);
  std::byte* mapped(Link& link, uint64_t place, bool in_arena);
  bool copy(Link& link, BulkSlot& slot, bool sending, uint64_t at, size_t length);
  std::byte* arena_of(Link& link);
  // One poll: where its completions go, and what it may still copy.
  struct Polling {
    Completion* out;
    unsigned max;
    Effort effort;
    uint64_t room;
    unsigned count = 0;
    bool copied = false;  // a piece of our own
  };
  template <typename Ring>
  void announce_backlog(Link& link, Polling& polling, Ring& ring);
  template <typename Ring>
  void collect_sent(Link& link, Polling& polling, Ring& ring);
  void give_up_backlog(Link& link, Polling& polling);
  template <typename Ring>
  void collect_received(Link& link, Polling& polling, Ring& ring);

  // What one slot tells of a put.
  struct Portion {
    const std::byte* from;
    size_t length;
    uint16_t flags;
  };

  // These take the bytes that they copy from `room`, and may take more than there is, but nothing where there is none.
  bool announce(Link& link, Put& put, uint64_t& room);
  bool stage(Link& link, Put& put, uint32_t s, uint64_t& room, Portion& portion);
  bool buffers(const Link& link, const Put& put);
  void copy_to_staging(Link& link, uint32_t s, void* staging, uint64_t& room, Portion& portion);
  void fill(Link& link, Put& put, BulkSlot& slot, uint64_t& room, Portion portion);
  bool work_on(Link& link, BulkSlot& slot, bool sending, Effort effort, uint64_t& room);
  void recycle(Put* put);
  static bool stop(BulkSlot& slot, Error error, uint64_t told);
  static void disown(BulkSlot& slot, Error error);
  static const Link::Revoked* find_revoked(const Link& link, const BulkSlot& slot);
  void* staging_buffer();

  std::shared_ptr<Segment> segment_;
  std::shared_ptr<Arena> arena_;
  Rank rank_;
  FindKernel find_kernel_;
  bool receiver_copies_ = false;
  uint32_t outdated_ = 0;  // links
  uint32_t taken_ = 0;     // entries of Link::taken
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Link*> senders_;    // links with puts in flight or in the backlog
  size_t turn_ = 0;               // which link comes first in this poll: none has to wait for the puts of another one
  std::vector<Link*> receivers_;  // links from which immediates are expected
  std::deque<Put> pool_;
  Put* free_puts_ = nullptr;
  std::vector<void*> free_staging_;  // kStagingBytes each, in the arena; fresh pages would cost more than the copy
  uint32_t staging_buffers_ = 0;     // all there are, in use or not
  BulkCounters counters_;
};

inline uint32_t pieces_of(const BulkSlot& slot) {
  return static_cast<uint32_t>((slot.bytes + slot.piece_bytes - 1) / slot.piece_bytes);
}

// True if the receiver of the slot can do something about it, or must.
inline bool receiver_may_copy(const Link& link, const BulkSlot& slot) {
  return (slot.flags & kReceiverCopies) != 0 || (slot.flags & kSourceInArena) != 0 || link.can_attach;
}

template <typename Ring>
bool Bulk::revoke(Rank peer, const ExposedBuffer& buffer, size_t bytes, Error why, uint64_t told, Ring&& ring) {
  Link& link = *links_[peer];
  const auto same = [&](const Link::Revoked& r) { return is_same(r.buffer, buffer); };
  if (std::none_of(link.revoked.begin(), link.revoked.end(), same)) {
    const uint32_t since = link.gate_in->revocations.fetch_add(1, std::memory_order_seq_cst) + 1;
    link.revoked.push_back({buffer, bytes, since, why, told});
    if (!link.outdated) ++outdated_;
    link.outdated = true;
  }
  // seq_cst, see Gate; also acquire: what the sender did inside is visible
  if (link.gate_in->inside.load(std::memory_order_seq_cst) % 2 != 0) return false;
  bool left = true;
  for (uint32_t s = 0; s < kBulkSlots; ++s) {
    BulkSlot& slot = link.in[s];
    if (slot.stamp.load(std::memory_order_acquire) == 0 || !find_revoked(link, slot)) continue;
    if (stop(slot, why, told)) ring(peer);
    left &= slot.done.load(std::memory_order_acquire) >= pieces_of(slot);
  }
  return left;
}

template <typename Ring>
void Bulk::retract(Rank peer, void* cookie, Error error, uint64_t told, Ring&& ring) {
  Link& link = *links_[peer];
  for (Put* put = link.backlog_head; put != nullptr; put = put->next) {
    if (put->cookie != cookie || put->error != Error::none) continue;
    put->error = error;
    put->told = told;
    put->bytes = put->announced;  // one more slot, without data, tells the receiver
  }
  for (uint32_t rest = link.flying; rest != 0; rest &= rest - 1) {
    const auto s = static_cast<uint32_t>(std::countr_zero(rest));
    Put* put = link.in_flight[s];
    if (put->cookie != cookie || !stop(link.out[s], error, told)) continue;
    put->error = error;
    put->told = told;
    ring(peer);
  }
}

template <typename Ring>
unsigned Bulk::poll(Completion* out, unsigned max, Effort effort, Ring&& ring) {
  Polling polling{out, max, effort, room_of(effort)};
  ++turn_;
  // Ours: announce, copy a piece each, collect what is finished.
  const size_t senders = senders_.size();
  bool idle = false;
  for (size_t i = 0; i < senders && polling.count < max; ++i) {
    Link& link = *senders_[(turn_ + i) % senders];
    announce_backlog(link, polling, ring);
    collect_sent(link, polling, ring);
    if (link.abandoned) give_up_backlog(link, polling);
    if (link.flying == 0 && link.backlog_head == nullptr) {
      link.sending = false;
      idle = true;
    }
  }
  if (idle) std::erase_if(senders_, [](const Link* link) { return !link->sending; });
  // Theirs: collect what is finished, help where we may, copy where we must.
  polling.room = room_of(effort);
  const size_t receivers = receivers_.size();
  for (size_t i = 0; i < receivers && polling.count < max; ++i)
    collect_received(*receivers_[(turn_ + i) % receivers], polling, ring);
  return polling.count;
}

template <typename Ring>
void Bulk::announce_backlog(Link& link, Polling& polling, Ring& ring) {
  while (link.backlog_head != nullptr && announce(link, *link.backlog_head, polling.room)) {
    Put* put = link.backlog_head;
    const BulkSlot& slot = link.out[(link.announced - 1) % kBulkSlots];
    // The receiver has something to do: copy or combine, or take delivery of what announce() copied.
    if ((slot.flags & kReceiverCopies) != 0 || slot.bytes < kShareFrom || put->combining.kernel != nullptr)
      ring(link.peer);
    if (put->announced == put->bytes) {
      link.backlog_head = put->next;
      if (link.backlog_head == nullptr) link.backlog_tail = nullptr;
    }
  }
}

template <typename Ring>
void Bulk::collect_sent(Link& link, Polling& polling, Ring& ring) {
  for (uint32_t rest = link.flying; rest != 0 && polling.count < polling.max; rest &= rest - 1) {
    const auto s = static_cast<uint32_t>(std::countr_zero(rest));
    Put* put = link.in_flight[s];
    BulkSlot& slot = link.out[s];
    if (put->buffered && !put->reported) {
      // Not the slot's total: who stops the slot may be writing it.
      polling.out[polling.count++] = {
          Completion::Kind::put_done, Error::none, put->peer, 0, put->announced, put->cookie};
      put->reported = true;
      put->cookie = nullptr;  // its owner may have another put under the same one
    }
    const uint32_t pieces = pieces_of(slot);
    // acquire: pairs with the other side's done.fetch_add; its piece is complete when we report the whole
    if (slot.done.load(std::memory_order_acquire) < pieces) {
      const bool copies = polling.effort != Effort::look && (slot.flags & kReceiverCopies) == 0;
      polling.copied |= copies && slot.next.load(std::memory_order_relaxed) < pieces;
      if (copies && work_on(link, slot, true, polling.effort, polling.room)) {
        ring(link.peer);
      } else if (slot.done.load(std::memory_order_acquire) < pieces) {
        const bool ours = (slot.flags & kReceiverCopies) == 0 && slot.next.load(std::memory_order_relaxed) < pieces;
        if (!link.abandoned || ours) continue;
        put->error = Error::peer_closed;
        disown(slot, put->error);
      }
    }
    link.in_flight[s] = nullptr;
    link.flying &= ~(1u << s);
    if (link.staging[s] != nullptr) {
      free_staging_.push_back(link.staging[s]);
      link.staging[s] = nullptr;
    }
    if (--put->open_slots > 0 || !put->told_all) continue;
    if (!put->reported) {
      const bool ours = put->error != Error::none;
      const Error error = ours ? put->error : static_cast<Error>(slot.error.load(std::memory_order_relaxed));
      const uint64_t told = ours ? put->told : slot.total;
      polling.out[polling.count++] = {Completion::Kind::put_done, error, put->peer, 0, told, put->cookie};
    }
    recycle(put);
  }
}

template <typename Ring>
void Bulk::collect_received(Link& link, Polling& polling, Ring& ring) {
  const Effort effort = polling.effort;
  while (polling.count < polling.max) {
    BulkSlot& slot = link.in[link.received % kBulkSlots];
    // acquire: pairs with the sender's release of the announcement
    if (slot.stamp.load(std::memory_order_acquire) != stamp_of(link.received)) break;
    const uint32_t pieces = pieces_of(slot);
    if (const Link::Revoked* revoked = find_revoked(link, slot);
        revoked != nullptr && stop(slot, revoked->why, revoked->told))
      ring(link.peer);
    if (slot.done.load(std::memory_order_acquire) < pieces) {
      const bool may = receiver_may_copy(link, slot);
      const bool must = (slot.flags & kReceiverCopies) != 0;
      // Our own transfers come first: two ranks that each help the other before they are done only get in each other's
      // way.
      if (effort == Effort::look || (!must && !(may && effort == Effort::helping && !polling.copied))) break;
      if (work_on(link, slot, false, effort, polling.room) && (slot.flags & kBuffered) == 0) ring(link.peer);
      if (slot.done.load(std::memory_order_acquire) < pieces) break;
    }
    if ((slot.flags & kLast) != 0) {
      const auto error = static_cast<Error>(slot.error.load(std::memory_order_relaxed));
      polling.out[polling.count++] = {
          Completion::Kind::immediate, error, link.peer, slot.immediate, slot.total, nullptr};
    }
    ++link.received;
    // release: pairs with the acquire in announce(); the slot is the sender's again
    slot.stamp.store(0, std::memory_order_release);
    // A sender that found no free slot sleeps: of any sixteen slots given back, at least every fourth rings.
    if (link.received % 4 == 0) ring(link.peer);
  }
}

}  // namespace nbc::shm
