// Calls that differ. The messages of a collective carry a signature of the call, and the two sides of each message
// compare theirs. Messages of different collectives often do not meet: so what comes without a receive or a send is
// compared with what is known of the call (Calls), and who waits for long asks (inquire).
//
// A difference ends the collectives of the communicator, once and for all: which calls belong together is not known any
// more. The rank that has found it tells all others. Then nothing of these collectives is matched, kept or poisoned:
// what still comes is dropped, an RTR gets a poison as its answer, and the peer is told what has happened.
//
// A rank that revokes a communicator ends it in the same way, with its messages between two ranks: that is a mismatch
// without calls.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "libof/peer.h"

namespace nbc::libof {
namespace {

// Communicators that have ended and are not open here: closed, or not known yet. Messages of the oldest ones have come
// long ago. The bound is for a peer that breaks the rules: its notices take no more memory than this.
constexpr size_t kMostEnded = 4096;
// That wait. What comes beyond is not compared.
constexpr size_t kMostInquiries = 4096;

// A difference ends the collectives of a communicator, a revocation also its messages.
bool concerns(const Mismatch& found, uint64_t context) { return found.revoked() || has_calls(context); }

// A peer may have to be told of both: of calls that differ, and of a revocation.
std::array<uint64_t, 2> told_of(uint64_t communicator) { return {communicator, communicator | 1}; }
uint64_t told_as(const Mismatch& found) { return told_of(communicator_of(found.context))[found.revoked() ? 1 : 0]; }

}  // namespace

// --- comparing -------------------------------------------------------------------------------------------------------

// See is_of_another_call(): the signatures differ, or the lengths do.
bool LibOF::ends_by(const Peer& peer, const MessageKey& key, const RequestOwner& owner, Signature theirs) {
  if (owner.signature == 0 || theirs == 0) return false;
  if (owner.signature == theirs) {
    if (!owner.sized) return false;
    theirs ^= kAnotherSize;
  }
  end_communicator({key.context, key.tag, {fabric_.rank(), peer.rank}, {owner.signature, theirs}});
  return true;
}

// Something has come for a call of the peer's, which meets nothing here. True: it belongs to a communicator that has
// ended, perhaps by this.
bool LibOF::ends(Peer& peer, const MessageKey& key, const KnownCall& theirs) {
  const Mismatch* known = mismatch_of(key.context);
  if (known == nullptr) {
    Mismatch found;
    if (!has_calls(key.context) || theirs.signature == 0 || calls_ == nullptr ||
        !calls_->differs(key, peer.rank, theirs, found))
      return false;
    end_communicator(found);
    known = mismatch_of(key.context);
  }
  tell(peer.rank, *known);
  return true;
}

// Its sender asks once. So where this rank does not know the communicator yet, the inquiry waits for that.
void LibOF::take_inquiry(Peer& peer, const MessageKey& key, Signature signature) {
  const KnownCall theirs{signature, key.sequence, true};
  if (ends(peer, key, theirs) || calls_ == nullptr || !has_calls(key.context)) return;
  if (!calls_->knows(key.context) && inquiries_.size() < kMostInquiries) inquiries_.push_back({peer.rank, key, theirs});
}

const Mismatch* LibOF::mismatch_of(uint64_t context) const {
  if (mismatches_.empty()) return nullptr;
  const auto found = mismatches_.find(communicator_of(context));
  return found != mismatches_.end() && concerns(found->second, context) ? &found->second : nullptr;
}

// The first mismatch counts, and a revocation after it.
void LibOF::end_communicator(Mismatch found, bool told) {
  const uint64_t communicator = communicator_of(found.context);
  const auto known = mismatches_.find(communicator);
  if (known != mismatches_.end() && (known->second.revoked() || !found.revoked())) return;
  if (calls_ != nullptr) calls_->mismatch(found, told);
  mismatches_[communicator] = found;
  if (calls_ == nullptr || !calls_->knows(communicator)) keep_ended(communicator);
  drop_messages_of(communicator);
}

void LibOF::keep_ended(uint64_t communicator) {
  ended_.push_back(communicator);
  if (ended_.size() <= kMostEnded) return;
  const uint64_t oldest = ended_.front();
  ended_.pop_front();
  if (calls_ != nullptr && calls_->knows(oldest)) return;  // it has become known since, and is kept when it is closed
  mismatches_.erase(oldest);
  forget_notices(oldest);
}

// Who writes again of a communicator that has ended is told again: a notice has no answer, so that ends.
void LibOF::forget_notices(uint64_t communicator) {
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    for (const uint64_t what : told_of(communicator)) peer->informed.erase(what);
  }
}

void LibOF::close_communicator(uint64_t communicator) {
  if (!mismatches_.contains(communicator)) return;
  forget_notices(communicator);
  keep_ended(communicator);
}

// What waits for receives and sends that will not come.
void LibOF::drop_messages_of(uint64_t communicator) {
  const Mismatch& found = mismatches_[communicator];
  const auto belongs = [&](const MessageKey& key) {
    return communicator_of(key.context) == communicator && concerns(found, key.context);
  };
  for (const auto& entry : peers_) {
    if (entry == nullptr) continue;
    Peer& peer = *entry;
    const uint32_t kept = peer.unexpected.count;
    peer.unexpected.each([&](Unexpected* message) {
      if (!belongs(message->key)) return;
      ++peer.matched;
      forget(peer, message);
      std::free(message);
    });
    if (peer.connected && peer.unexpected.count < kept) report(peer, false);  // it may wait for room in its window
    std::vector<EarlyRtr*> rtrs;
    peer.early_rtrs.each([&](EarlyRtr* rtr) {
      if (belongs(rtr->key)) rtrs.push_back(rtr);
    });
    if (rtrs.empty()) continue;
    tell(peer.rank, found);
    for (EarlyRtr* rtr : rtrs) {
      const bool answered = rtr->kind != RtrKind::refuse && peer.unfit == Error::none;
      peer.early_rtrs.remove(rtr);
      if (answered) queue_poison(peer, {rtr->key, poison_by(found), true});
      delete rtr;
    }
  }
}

std::vector<LibOF::Kept> LibOF::kept_messages(uint64_t context) const {
  std::vector<Kept> kept;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->unexpected.each([&](const Unexpected* message) {
      const bool belongs = has_calls(message->key.context) && communicator_of(message->key.context) == context;
      if (belongs && message->kind != EagerKind::poison) kept.push_back({peer->rank, message->key, {message->about}});
    });
  }
  return kept;
}

void LibOF::compare_kept(uint64_t context) {
  std::vector<Kept> kept = kept_messages(context);
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->early_rtrs.each([&](const EarlyRtr* rtr) {
      if (has_calls(rtr->key.context) && communicator_of(rtr->key.context) == context)
        kept.push_back({peer->rank, rtr->key, {rtr->signature}});
    });
  }
  const auto asked = std::stable_partition(inquiries_.begin(), inquiries_.end(), [&](const Kept& inquiry) {
    return communicator_of(inquiry.key.context) != context;
  });
  kept.insert(kept.end(), asked, inquiries_.end());
  inquiries_.erase(asked, inquiries_.end());
  // The first difference ends them all.
  for (const Kept& each : kept) {
    if (ends(*peers_[each.peer], each.key, each.call)) return;
  }
}

// --- telling ---------------------------------------------------------------------------------------------------------

void LibOF::tell(Rank rank, const Mismatch& mismatch) {
  if (rank == fabric_.rank()) return;
  Peer& peer = peer_of(rank);
  if (peer.unfit != Error::none || !peer.informed.insert(told_as(mismatch)).second) return;
  peer.notices.push_back(mismatch);
  ++notices_pending_;
  if (peer.connected && send_notices(peer)) return deactivate_if_idle(peer);
  activate(peer);
  if (peer.connected && !peer.asynchronous) fabric_.alarm(rank);  // its slots are full: it has to empty them
}

// Written at once, if there is room: the receiver keeps none of them, so they need no room in its window.
bool LibOF::send_notices(Peer& peer) {
  bool moved = false;
  while (!peer.notices.empty() && has_eager_slot(peer)) {
    write_notice(peer, peer.notices.front());
    peer.notices.pop_front();
    --notices_pending_;
    moved = true;
  }
  return moved;
}

void LibOF::write_notice(Peer& peer, const Mismatch& mismatch) {
  const MismatchNotice notice{mismatch.ranks[0], mismatch.calls[0], mismatch.bytes};
  const MessageKey key{mismatch.context, mismatch.tag, mismatch.ranks[1]};
  write_eager(peer, EagerKind::mismatch, key, &notice, sizeof notice, nullptr, mismatch.calls[1]);
  if (!peer.asynchronous) fabric_.alarm(peer.rank);
}

// False: the peer is no rank of ours.
bool LibOF::read_notice(Peer& peer, const MessageKey& key, Signature other, const std::byte* payload) {
  MismatchNotice notice;
  std::memcpy(&notice, payload, sizeof notice);
  if (notice.rank >= fabric_.size() || key.sequence >= fabric_.size()) {
    reject(peer, "it told of a mismatch with a rank that there is not");
    return false;
  }
  const Mismatch found{key.context, key.tag, {notice.rank, key.sequence}, {notice.call, other}, notice.bytes};
  end_communicator(found, true);
  // Of one that is not open nothing is noted: close_communicator() would not forget it.
  if (calls_ != nullptr && calls_->knows(key.context)) peer.informed.insert(told_as(found));
  return true;
}

bool LibOF::inquire(Rank rank, uint64_t context, uint32_t tag, const KnownCall& call) {
  Peer& peer = peer_of(rank);
  if (!peer.connected) return false;
  const bool room = has_eager_slot(peer);
  const MessageKey key{context, tag, call.size_hash};
  if (room) write_eager(peer, EagerKind::inquiry, key, nullptr, 0, nullptr, call.signature);
  if (!peer.asynchronous) fabric_.alarm(rank);  // without room, too: the peer has not looked for long
  return room;
}

bool LibOF::look_around(bool alarmed) {
  bool moved = false;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (rank == fabric_.rank() || (peers_[rank] == nullptr && !(alarmed && fabric_.may_alarm(rank)))) continue;
    Peer& peer = peer_of(rank);
    if (!peer.connected && (!alarmed || peer.active || !connect(peer))) continue;  // poll_peer() connects active ones
    moved |= drain_eager(peer);
    deactivate_if_idle(peer);
  }
  return moved;
}

void LibOF::look_at(Rank rank) {
  Peer& peer = peer_of(rank);
  if (!peer.connected) return;
  drain_eager(peer);
  deactivate_if_idle(peer);
}

}  // namespace nbc::libof
