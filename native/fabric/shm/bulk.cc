#include "fabric/shm/bulk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/uio.h>

#include "copy.h"
#include "job/limits.h"

namespace nbc::shm {
namespace {

// Copies between our memory and another process's. False with errno if the kernel refuses.
bool cross_copy(pid_t pid, std::byte* ours, uint64_t theirs, size_t bytes, bool write) {
  while (bytes > 0) {
    const iovec local{ours, bytes};
    const iovec remote{reinterpret_cast<void*>(static_cast<uintptr_t>(theirs)), bytes};
    const ssize_t moved =
        write ? process_vm_writev(pid, &local, 1, &remote, 1, 0) : process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (moved <= 0) {
      if (moved < 0 && errno == EINTR) continue;
      return false;
    }
    ours += moved;
    theirs += static_cast<uint64_t>(moved);
    bytes -= static_cast<size_t>(moved);
  }
  return true;
}

// What errno means after a copy that failed.
uint16_t why_not() { return static_cast<uint16_t>(errno == ESRCH ? Error::peer_closed : Error::system); }

// To be said, with errno of process_vm_readv() or process_vm_writev().
std::string refused_copy(size_t bytes, bool write) {
  const char* const call = write ? "process_vm_writev" : "process_vm_readv";
  std::string text = system_failure(std::string(call) + " of " + std::to_string(bytes) + " bytes").message;
  if (errno == ENOMEM) text += ". Give the machine or container more memory, or use fewer ranks or smaller messages";
  if (errno == EPERM || errno == ENOSYS) text += ". Allow it for as long as the job runs";
  return text;
}

// How many pieces a side claims at once that waits: an eighth of the portion if both copy, all of it if one does.
uint32_t claim_of(size_t bytes, bool shared) {
  return static_cast<uint32_t>(std::clamp(shared ? bytes / 8 : bytes, kSmallestClaim, kLargestClaim) / kPieceBytes);
}

void leave(Gate& gate) {
  // release: what was copied and announced inside, before the receiver sees that the sender has left
  gate.inside.store(gate.inside.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// False: the RTR is older than a revocation, and the sender stays outside.
bool enter(Gate& gate, uint32_t key) {
  // seq_cst, both: see Gate
  gate.inside.store(gate.inside.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (key_of(gate.revocations.load(std::memory_order_seq_cst), false) == (key & ~kAllButRevocations)) return true;
  leave(gate);
  return false;
}

}  // namespace

Bulk::Bulk(std::shared_ptr<Segment> segment, std::shared_ptr<Arena> arena, Rank rank, FindKernel find_kernel)
    : segment_(std::move(segment)),
      arena_(std::move(arena)),
      rank_(rank),
      find_kernel_(find_kernel),
      links_(segment_->size()) {}

Bulk::~Bulk() {
  for (const auto& link : links_) {
    if (link == nullptr || link->arena == nullptr || segment_->is_here(link->peer)) continue;
    munmap(link->arena, segment_->arena_bytes());
  }
}

Link& Bulk::open(Rank peer, bool may_attach) {
  if (links_[peer] == nullptr) {
    auto link = std::make_unique<Link>();
    const RankLine& line = segment_->line(peer);
    link->peer = peer;
    link->pid = line.pid;
    link->out = reinterpret_cast<BulkSlot*>(segment_->pair(peer, rank_) + kControlBytes);
    link->in = reinterpret_cast<BulkSlot*>(segment_->pair(rank_, peer) + kControlBytes);
    link->gate_out = reinterpret_cast<Gate*>(segment_->pair(peer, rank_) + kControlBytes - kFabricBytes);
    link->gate_in = reinterpret_cast<Gate*>(segment_->pair(rank_, peer) + kControlBytes - kFabricBytes);
    const bool thread = segment_->is_here(peer);
    link->here = thread || peer == rank_;
    if (thread) {
      link->can_attach = true;
    } else if (may_attach) {
      uint64_t value = 0;
      link->can_attach =
          cross_copy(line.pid, reinterpret_cast<std::byte*>(&value), line.probe_address, sizeof value, false) &&
          value == line.probe_value;
    }
    // Then we have to take part in what the peer sends: where we may not attach to it, it may not attach to us either.
    link->attaches = link->can_attach && (thread || line.attaches != 0);
    if (!thread && !link->attaches) receiver_copies_ = true;
    links_[peer] = std::move(link);
  }
  return *links_[peer];
}

std::byte* Bulk::arena_of(Link& link) {
  if (link.arena == nullptr)
    link.arena = segment_->is_here(link.peer) ? segment_->arena(link.peer) : segment_->map_arena(link.peer);
  return link.arena;
}

// Copies pieces from whichever side this is. False: the system refused (errno).
bool Bulk::copy_pieces(Link& link, BulkSlot& slot, bool sending, uint32_t first, uint32_t count) {
  const uint64_t at = uint64_t{first} * slot.piece_bytes;
  const size_t length = static_cast<size_t>(std::min(uint64_t{count} * slot.piece_bytes, slot.bytes - at));
  if (!sending && (slot.key & kTaken) != 0) return combine(link, slot, at, length);
  const Put* const put = sending ? link.in_flight[&slot - link.out] : nullptr;
  if (put != nullptr && put->combining.kernel != nullptr) {
    combine_part(put->combining, at, put->from + at, length);
    counters_.mapped_bytes += length;
    return true;
  }
  return copy(link, slot, sending, at, length);
}

// What is mapped here is combined where it is. The kernel moves the rest, part by part: each is combined while the
// caches hold it. False also if nobody waits for that any more.
bool Bulk::combine(Link& link, BulkSlot& slot, uint64_t begin, size_t length) {
  const auto taken = std::find_if(link.taken.begin(), link.taken.end(), [&](const Link::Taken& t) {
    const uint64_t inside = slot.destination - t.buffer.address;
    return t.buffer.key == slot.key && inside <= t.bytes && slot.bytes <= t.bytes - inside;
  });
  if (taken == link.taken.end()) {
    errno = ECANCELED;
    return false;
  }
  const uint64_t inside = slot.destination - taken->buffer.address;
  const bool in_arena = (slot.flags & kSourceInArena) != 0;
  if (in_arena || link.here) {
    const std::byte* theirs = mapped(link, slot.source, in_arena);
    if (theirs == nullptr) return false;
    combine_part(taken->how, inside + begin, theirs + begin, length);
    counters_.mapped_bytes += length;
    return true;
  }
  const std::byte* const ours = own(slot.destination, (slot.flags & kDestinationInArena) != 0);
  const uint64_t end = begin + length;
  for (uint64_t at = begin; at < end; at += kStagingBytes) {
    const size_t part = static_cast<size_t>(std::min<uint64_t>(kStagingBytes, end - at));
    if (!copy(link, slot, false, at, part)) return false;
    combine_part(taken->how, inside + at, ours + at, part);
  }
  return true;
}

void Bulk::combine_part(const Combining& how, uint64_t at, const std::byte* incoming, size_t bytes) {
  const std::byte* const other = how.other + at;
  how.kernel(how.target + at, how.is_left ? incoming : other, how.is_left ? other : incoming, bytes);
  counters_.combined_bytes += bytes;
}

// Tells the peer how to combine what it sends. Its number, from 1; 0: the peer cannot, or there is no recipe left.
uint32_t Bulk::write_recipe(Link& link, const Combining& how) {
  const bool reachable = link.here || (arena_->contains(how.target) && arena_->contains(how.other));
  if (how.number == 0 || !reachable) return 0;
  const auto place = [&](const std::byte* at) {
    return link.here ? reinterpret_cast<uintptr_t>(at) : arena_->offset_of(at);
  };
  for (uint32_t i = 0; i < kRecipes; ++i) {
    Recipe& recipe = link.gate_in->recipes[i];
    if (recipe.kernel != 0) continue;
    recipe = {place(how.target), place(how.other), how.number, how.is_left};
    return i + 1;
  }
  return 0;
}

// What the receiver wants done with the put. False: only the receiver can do it.
bool Bulk::read_recipe(Link& link, Put& put) {
  const Recipe recipe = link.gate_out->recipes[recipe_of(put.to.key) - 1];
  const size_t end = segment_->arena_bytes();
  const auto fits = [&](uint64_t place) { return link.here || (place <= end && put.bytes <= end - place); };
  const CombineKernel kernel = find_kernel_(recipe.kernel, put.bytes);
  if (kernel == nullptr || !fits(recipe.target) || !fits(recipe.other)) return false;
  std::byte* const target = mapped(link, recipe.target, !link.here);
  const std::byte* const other = mapped(link, recipe.other, !link.here);
  if (target == nullptr || other == nullptr) return false;
  put.combining = {kernel, target, other, recipe.is_left != 0};
  return true;
}

// Our own side of a slot is ours to know: an arena offset is relative to our mapping.
std::byte* Bulk::own(uint64_t place, bool in_arena) {
  return in_arena ? arena_->at(place) : reinterpret_cast<std::byte*>(place);
}

// The peer's side, in its arena, or of a peer that is here. Null: the arena cannot be mapped (errno).
std::byte* Bulk::mapped(Link& link, uint64_t place, bool in_arena) {
  if (!in_arena) return reinterpret_cast<std::byte*>(place);
  std::byte* const arena = arena_of(link);
  if (arena != nullptr) return arena + place;
  const int error = errno;
  const std::string what = "what rank " + std::to_string(link.peer) + " of the world can expose";
  link.not_moved = job::no_address_space(what.c_str(), segment_->arena_bytes()).message;
  errno = error;
  return nullptr;
}

bool Bulk::copy(Link& link, BulkSlot& slot, bool sending, uint64_t at, size_t length) {
  const bool remote_in_arena = (slot.flags & (sending ? kDestinationInArena : kSourceInArena)) != 0;
  const bool local_in_arena = (slot.flags & (sending ? kSourceInArena : kDestinationInArena)) != 0;
  const uint64_t remote = sending ? slot.destination : slot.source;
  std::byte* ours = own(sending ? slot.source : slot.destination, local_in_arena) + at;
  if (remote_in_arena || link.here) {
    std::byte* theirs = mapped(link, remote, remote_in_arena);
    if (theirs == nullptr) return false;
    theirs += at;
    // move: programs may give two ranks views of one SharedArrayBuffer that overlap.
    move_bytes(sending ? theirs : ours, sending ? ours : theirs, length);
    counters_.mapped_bytes += length;
    return true;
  }
  counters_.cross_memory_bytes += length;
  if (cross_copy(link.pid, ours, remote + at, length, sending)) return true;
  const int error = errno;
  link.not_moved = refused_copy(length, sending);
  errno = error;
  return false;
}

// Claims pieces, and copies them. True if that finished the slot.
bool Bulk::work_on(Link& link, BulkSlot& slot, bool sending, Effort effort, uint64_t& room) {
  if (room == 0) return false;
  const uint32_t pieces = pieces_of(slot);
  // relaxed: claiming orders nothing, the data is ordered by stamp (before) and done (after)
  if (slot.next.load(std::memory_order_relaxed) >= pieces) return false;
  const uint32_t claim = effort >= Effort::driving ? slot.claim : 1;
  const uint32_t first = slot.next.fetch_add(claim, std::memory_order_relaxed);
  if (first >= pieces) return false;
  const uint32_t count = std::min(claim, pieces - first);
  room -= std::min(room, uint64_t{count} * slot.piece_bytes);
  if (!copy_pieces(link, slot, sending, first, count)) slot.error.store(why_not(), std::memory_order_relaxed);
  if (!sending) counters_.helped_pieces += count;
  return slot.done.fetch_add(count, std::memory_order_acq_rel) + count == pieces;
}

// Copies the portion to where the receiver can read it. False: later, when there is room or staging memory again.
bool Bulk::stage(Link& link, Put& put, uint32_t s, uint64_t& room, Portion& portion) {
  if (put.open_slots >= 2 || room == 0) return false;  // two staged pieces in flight keep both sides busy
  // The kernel can move it, too, and may be the only one.
  if (link.attaches && free_staging_.empty() && segment_->scarce()) return true;
  portion.length = std::min(portion.length, kStagingBytes);
  if (void* staging = staging_buffer()) {
    copy_to_staging(link, s, staging, room, portion);
    return true;
  }
  if (staging_buffers_ > 0) return false;  // all are on their way, and will come back
  if (link.attaches) return true;
  // The program itself has used all exposed memory up: nothing can be sent, and both sides learn it.
  link.not_moved = "the system does not let ranks read each other's memory, so there must be " +
                   std::to_string(kStagingBytes) + " bytes of exposed memory for copies: " + arena_->why() +
                   ". Keep less memory of alloc(), let each rank expose more, or allow process_vm_readv";
  put.error = Error::system;
  put.bytes = put.announced;
  portion.length = 0;
  portion.flags &= ~kReceiverCopies;
  return true;
}

void Bulk::copy_to_staging(Link& link, uint32_t s, void* staging, uint64_t& room, Portion& portion) {
  copy_bytes(staging, portion.from, portion.length);
  counters_.staged_bytes += portion.length;
  room -= std::min<uint64_t>(room, portion.length);
  link.staging[s] = staging;
  portion.from = static_cast<const std::byte*>(staging);
  portion.flags |= kReceiverCopies;
}

// Whether the put is short, to private memory of another process, and a staging buffer is free or may be made.
bool Bulk::buffers(const Link& link, const Put& put) {
  if (put.announced > 0 || put.bytes == 0 || put.bytes > kBufferedTo || (put.to.key & kInArena) != 0 || link.here)
    return false;
  if (!free_staging_.empty()) return true;
  const size_t most =
      std::min<size_t>(kBuffers, segment_->scarce() ? 0 : arena_->bytes() / kShareOfBuffers / kStagingBytes);
  if (staging_buffers_ >= most) return false;
  void* const fresh = staging_buffer();
  if (fresh != nullptr) free_staging_.push_back(fresh);
  return fresh != nullptr;
}

// Fills the slot, up to its stamp; copies a small portion.
void Bulk::fill(Link& link, Put& put, BulkSlot& slot, uint64_t& room, Portion portion) {
  auto [from, length, flags] = portion;
  if (arena_->contains(from)) flags |= kSourceInArena;
  slot.source = (flags & kSourceInArena) != 0 ? arena_->offset_of(from) : reinterpret_cast<uintptr_t>(from);
  slot.destination = put.to.address + put.announced;
  slot.key = put.to.key;
  slot.bytes = length;
  put.announced += length;
  slot.total = put.error == Error::none ? put.announced : put.told;
  put.told_all = put.announced == put.bytes;
  if (put.told_all) flags |= kLast;
  slot.flags = flags;
  slot.error.store(static_cast<uint16_t>(put.error), std::memory_order_relaxed);
  slot.immediate = put.immediate;
  const bool alone = length < kShareFrom && (flags & kReceiverCopies) == 0;
  const bool whole = alone || put.buffered;
  slot.piece_bytes = static_cast<uint32_t>(whole ? std::max(length, size_t{1}) : kPieceBytes);
  // A peer that is sending to us, too, has no time to help: then larger claims, in fewer system calls. ialltoall
  // between two ranks: 1 MiB 143 and 130 µs, 128 KiB 20 and 16 µs.
  slot.claim = claim_of(length, !link.expected);
  // A small put is copied before it is announced: the receiver takes one cache miss, and nobody shares counters.
  if (alone && length > 0 && !copy_pieces(link, slot, true, 0, 1))
    slot.error.store(why_not(), std::memory_order_relaxed);
  if (alone) room -= std::min<uint64_t>(room, length);
  const uint32_t pieces = alone ? pieces_of(slot) : 0;
  slot.next.store(pieces, std::memory_order_relaxed);
  slot.done.store(pieces, std::memory_order_relaxed);
}

// Hands as much of the put as one slot takes to the peer. False: no slot is free, or this would copy and there is no
// room.
bool Bulk::announce(Link& link, Put& put, uint64_t& room) {
  const uint32_t s = link.announced % kBulkSlots;
  BulkSlot& slot = link.out[s];
  if (link.in_flight[s] != nullptr) return false;
  if (slot.stamp.load(std::memory_order_acquire) != 0) return false;  // pairs with the receiver's store of 0
  const bool from_arena = arena_->contains(put.from);
  const bool in_arena = (put.to.key & kInArena) != 0;
  const size_t length = put.bytes - put.announced;
  const bool taken = (put.to.key & kTaken) != 0;
  const bool combines = taken && length >= kShareFrom && (from_arena || link.here) && receivers_.empty() &&
                        has_recipe(put.to.key) && find_kernel_ != nullptr;
  bool direct = combines || (!taken && (in_arena || link.can_attach || put.peer == rank_));
  // Staged, or a small put (see fill()).
  if (room == 0 && length > 0 && ((!direct && !from_arena) || length < kShareFrom)) return false;
  Portion portion{put.from + put.announced, length, in_arena ? uint16_t{kDestinationInArena} : uint16_t{0}};
  put.buffered = buffers(link, put);
  const bool gated = direct && length > 0 && !put.buffered;
  const bool inside = gated && enter(*link.gate_out, put.to.key);
  if (gated) direct = inside && (!combines || read_recipe(link, put));
  if (put.buffered) {
    copy_to_staging(link, s, staging_buffer(), room, portion);
    portion.flags |= kBuffered;
  } else if (!direct) {
    portion.flags |= kReceiverCopies;
    if (!from_arena && !link.here && length > 0 && !stage(link, put, s, room, portion)) return false;
  }
  fill(link, put, slot, room, portion);
  link.in_flight[s] = &put;
  link.flying |= 1u << s;
  ++put.open_slots;
  // release: the slot's fields before its stamp; pairs with the receiver's acquire in poll()
  slot.stamp.store(stamp_of(link.announced++), std::memory_order_release);
  if (inside) leave(*link.gate_out);
  return true;
}

// Of a peer that has gone, once nothing to it is in flight any more.
void Bulk::give_up_backlog(Link& link, Polling& polling) {
  while (link.flying == 0 && link.backlog_head != nullptr && polling.count < polling.max) {
    Put* put = link.backlog_head;
    link.backlog_head = put->next;
    if (link.backlog_head == nullptr) link.backlog_tail = nullptr;
    polling.out[polling.count++] = {Completion::Kind::put_done, Error::peer_closed, put->peer, 0, 0, put->cookie};
    recycle(put);
  }
}

void Bulk::put(const Put& what) {
  if (free_puts_ == nullptr) {
    pool_.emplace_back();
    free_puts_ = &pool_.back();
  }
  Put* put = free_puts_;
  free_puts_ = put->next;
  *put = what;
  Link& link = *links_[what.peer];
  if (link.backlog_tail == nullptr) {
    link.backlog_head = put;
  } else {
    link.backlog_tail->next = put;
  }
  link.backlog_tail = put;
  if (!link.sending) {
    link.sending = true;
    senders_.push_back(&link);
  }
}

void Bulk::expect(Rank peer, bool expected) {
  Link& link = *links_[peer];
  if (link.expected == expected) return;
  link.expected = expected;
  if (expected) {
    receivers_.push_back(&link);
  } else {
    const auto it = std::find(receivers_.begin(), receivers_.end(), &link);
    *it = receivers_.back();
    receivers_.pop_back();
    // No RTR is out any more.
    if (link.outdated) --outdated_;
    link.outdated = false;
  }
}

// Claims the pieces that nobody has claimed, and leaves them out. True: that finished the slot.
bool Bulk::stop(BulkSlot& slot, Error error, uint64_t told) {
  const uint32_t pieces = pieces_of(slot);
  if (slot.next.load(std::memory_order_relaxed) >= pieces) return false;
  const uint32_t first = slot.next.fetch_add(pieces, std::memory_order_relaxed);
  if (first >= pieces) return false;
  // Only one of two that stop it comes here. Both, `error` and `total`, are read after `done` says that it is finished.
  slot.error.store(static_cast<uint16_t>(error), std::memory_order_relaxed);
  slot.total = told;
  const uint32_t rest = pieces - first;
  return slot.done.fetch_add(rest, std::memory_order_acq_rel) + rest == pieces;
}

// The receiver was given up, and may be in the middle of copying: the data change under its hands, so its receive must
// not succeed. It reads `error` after it has counted `done` up.
void Bulk::disown(BulkSlot& slot, Error error) {
  slot.error.store(static_cast<uint16_t>(error), std::memory_order_relaxed);
  slot.done.fetch_add(0, std::memory_order_acq_rel);  // release: pairs with the receiver's own fetch_add
}

const Link::Revoked* Bulk::find_revoked(const Link& link, const BulkSlot& slot) {
  const uint32_t in_arena = slot.key & kInArena;
  const auto found = std::find_if(link.revoked.begin(), link.revoked.end(), [&](const Link::Revoked& r) {
    const bool before = static_cast<int32_t>(slot.key - key_of(r.since, in_arena != 0)) < 0;  // they wrap
    return before && (r.buffer.key & kInArena) == in_arena && slot.destination >= r.buffer.address &&
           slot.destination < r.buffer.address + r.bytes;
  });
  return found != link.revoked.end() ? &*found : nullptr;
}

void Bulk::take(Rank peer, ExposedBuffer& buffer, size_t bytes, const Combining& how) {
  Link& link = *links_[peer];
  buffer.key |= kTaken | write_recipe(link, how) << kRecipeShift;
  link.taken.push_back({buffer, bytes, how});
  ++taken_;
}

void Bulk::conceal(Rank peer, const ExposedBuffer& buffer) {
  Link& link = *links_[peer];
  const auto same = [&](const auto& entry) { return is_same(entry.buffer, buffer); };
  std::erase_if(link.revoked, same);
  const auto taken = static_cast<uint32_t>(std::erase_if(link.taken, same));
  taken_ -= taken;
  if (taken > 0 && has_recipe(buffer.key)) link.gate_in->recipes[recipe_of(buffer.key) - 1].kernel = 0;
}

void Bulk::abandon(Rank peer) {
  if (links_[peer] != nullptr) links_[peer]->abandoned = true;
}

// Only what this rank can do by itself counts: a slot whose remaining pieces others have claimed will ring.
uint64_t Bulk::work(uint64_t enough) const {
  uint64_t bytes = 0;
  const auto rest = [](const BulkSlot& slot) -> uint64_t {
    const uint64_t claimed = static_cast<uint64_t>(slot.next.load(std::memory_order_relaxed)) * slot.piece_bytes;
    return claimed < slot.bytes ? slot.bytes - claimed : 0;
  };
  for (const Link* link : senders_) {
    if (bytes >= enough) return bytes;
    if (link->backlog_head != nullptr) {
      const uint32_t s = link->announced % kBulkSlots;
      const bool room = link->in_flight[s] == nullptr && link->out[s].stamp.load(std::memory_order_relaxed) == 0;
      if (room && link->backlog_head->open_slots < 2)
        bytes += 1 + link->backlog_head->bytes - link->backlog_head->announced;
    }
    for (uint32_t left = link->flying; left != 0; left &= left - 1) {
      const auto s = static_cast<uint32_t>(std::countr_zero(left));
      if (link->in_flight[s]->reported && link->backlog_head == nullptr) continue;  // it is time when something is sent
      const BulkSlot& slot = link->out[s];
      if (slot.done.load(std::memory_order_relaxed) >= pieces_of(slot)) ++bytes;
      if ((slot.flags & kReceiverCopies) == 0) bytes += rest(slot);
    }
  }
  for (const Link* link : receivers_) {
    if (bytes >= enough) return bytes;
    const BulkSlot& slot = link->in[link->received % kBulkSlots];
    if (slot.stamp.load(std::memory_order_acquire) != stamp_of(link->received)) continue;
    if (slot.done.load(std::memory_order_relaxed) >= pieces_of(slot)) ++bytes;
    if ((slot.flags & kReceiverCopies) != 0) bytes += rest(slot);
  }
  return bytes;
}

bool Bulk::is_read() const {
  return std::any_of(senders_.begin(), senders_.end(), [](const Link* link) {
    if (link->abandoned) return false;
    for (uint32_t rest = link->flying; rest != 0; rest &= rest - 1) {
      const auto s = static_cast<uint32_t>(std::countr_zero(rest));
      const BulkSlot& slot = link->out[s];
      // relaxed: nothing of what the receiver has copied is read
      if (link->staging[s] != nullptr && slot.done.load(std::memory_order_relaxed) < pieces_of(slot)) return true;
    }
    return false;
  });
}

void* Bulk::staging_buffer() {
  if (free_staging_.empty()) {
    void* fresh = arena_->allocate(kStagingBytes);
    if (fresh != nullptr) ++staging_buffers_;
    return fresh;
  }
  void* buffer = free_staging_.back();
  free_staging_.pop_back();
  return buffer;
}

void Bulk::recycle(Put* put) {
  put->next = free_puts_;
  free_puts_ = put;
}

}  // namespace nbc::shm
