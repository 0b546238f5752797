// The failure of an operation travels along its messages: in place of each message that has not left, its receiver gets
// a poison, which fails the receiver's operation. A poison is an eager message, also in place of a large one: the
// receiver takes its RTR back, as for every message that comes another way. What the operation would have received is
// dropped; the sender of a large message learns of the failure from the answer to its send.
#include <algorithm>
#include <cstdlib>

#include "libof/peer.h"

namespace nbc::libof {

// --- instead of sends ------------------------------------------------------------------------------------------------

void LibOF::poison(Rank rank, const MessageKey& key, Poison poison) {
  Peer& peer = peer_of(rank);
  if (peer.unfit != Error::none) return;
  EarlyRtr* rtr = peer.early_rtrs.find(key);
  const bool asked = rtr != nullptr;
  const bool refused = asked && rtr->kind == RtrKind::refuse;
  if (asked) {
    peer.early_rtrs.remove(rtr);
    delete rtr;
  }
  if (!refused) queue_poison(peer, {key, poison, asked});
}

// A send of an operation that has failed, which has not left.
// Where its communicator has ended, quietly: its receiver learns of that.
void LibOF::poison_send(Peer& peer, Request& send, bool quietly) {
  if (send.state == State::send_waiting_rtr) {
    take_waiting(peer, send);
  } else {
    peer.stalled.remove(&send);
  }
  --sends_pending_;
  if (!quietly) queue_poison(peer, {send.key, send.owner->poison, false});
  complete(send, Error::none);
  deactivate_if_idle(peer);
}

// Written at once, if there is room.
void LibOF::queue_poison(Peer& peer, const QueuedPoison& poison) {
  if (peer.connected && write_poison(peer, poison)) return;
  if (poison.asked) {
    peer.poisons.push_front(poison);
  } else {
    peer.poisons.push_back(poison);
  }
  ++poisons_pending_;
  activate(peer);
}

// A receiver that has filled its window waits for no message but those that it asks for. It has to learn of a mismatch
// before a poison that follows from it.
bool LibOF::write_poison(Peer& peer, const QueuedPoison& poison) {
  if (!peer.notices.empty() || !(poison.asked ? has_eager_slot(peer) : may_send_eager(peer, 0))) return false;
  write_eager(peer, EagerKind::poison, poison.key, nullptr, 0, nullptr, poison.poison);
  return true;
}

bool LibOF::send_poisons(Peer& peer) {
  bool moved = false;
  while (!peer.poisons.empty() && write_poison(peer, peer.poisons.front())) {
    peer.poisons.pop_front();
    --poisons_pending_;
    moved = true;
  }
  return moved;
}

// An RTR for a message that has a poison in its place. True: there is one.
bool LibOF::answer_by_poison(Peer& peer, const MessageKey& key, RtrKind kind) {
  const auto found =
      std::find_if(peer.poisons.begin(), peer.poisons.end(), [&](const QueuedPoison& p) { return p.key == key; });
  if (found == peer.poisons.end()) return false;
  QueuedPoison poison = *found;
  peer.poisons.erase(found);
  --poisons_pending_;
  poison.asked = true;
  if (kind != RtrKind::refuse) queue_poison(peer, poison);
  return true;
}

// --- instead of receives ---------------------------------------------------------------------------------------------

void LibOF::drop(Rank rank, const MessageKey& key, size_t bytes, Poison poison) {
  Peer& peer = peer_of(rank);
  Unexpected* message = peer.unexpected.find(key);
  const bool announced = message != nullptr && message->kind == EagerKind::rts;
  if (message != nullptr) {
    forget(peer, message);
    std::free(message);
    if (!announced) {
      ++peer.matched;
      return report(peer, false);
    }
  }
  if (peer.unfit != Error::none) return;
  const bool eager = bytes <= peer.eager_limit;
  Request* receive =
      new_request(orphans_, peer, key, nullptr, bytes, eager ? State::recv_waiting_eager : State::rndv_recv_init);
  if (receive == nullptr) return;
  receive->given_up = receive->discard = true;
  receive->poison = poison;
  peer.receives.push(receive);
  activate(peer);
  if (announced) {
    handle_rts(peer, *receive, 0);
    report(peer, false);
  } else if (!eager || peer.congested) {
    ask_by_rtr(peer, *receive);
  }
}

}  // namespace nbc::libof
