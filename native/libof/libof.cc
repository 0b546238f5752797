#include "libof/libof.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "copy.h"
#include "libof/peer.h"

namespace nbc::libof {

LibOF::LibOF(Fabric& fabric, const Options& options) : fabric_(fabric), options_(options), peers_(fabric.size()) {
  options_.unexpected_window = std::max(options_.unexpected_window, eager_slots(options.eager_limit));
  options_.most_requests = std::min(options_.most_requests, kMostRequests);
}

LibOF::~LibOF() {
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->unexpected.each([](Unexpected* message) { std::free(message); });
    peer->early_rtrs.each([](EarlyRtr* rtr) { delete rtr; });
  }
  for (const Request& request : pool_) {
    if (request.state != State::done && request.owns_buffer) delete[] request.buffer;
  }
}

// --- requests --------------------------------------------------------------------------------------------------------

Request* LibOF::new_request(RequestOwner& owner, Peer& peer, const MessageKey& key, void* buffer, size_t bytes,
                            State state) {
  if (free_requests_ == nullptr) {
    if (pool_.size() >= options_.most_requests) {
      if (owner.error == Error::none) {
        owner.error = Error::too_many_requests;
        owner.error_peer = peer.rank;
      }
      make_ready(owner);
      return nullptr;
    }
    pool_.emplace_back();
    pool_.back().id = static_cast<uint32_t>(pool_.size() - 1);
    free_requests_ = &pool_.back();
  }
  Request* request = free_requests_;
  free_requests_ = request->next;
  request->key = key;
  request->owner = &owner;
  request->buffer = static_cast<std::byte*>(buffer);
  request->bytes = bytes;
  request->peer = peer.rank;
  request->announced = request->rtr_asked = request->rtr_written = request->rtr_local = request->data_here = false;
  request->given_up = request->discard = request->exposes = request->combines = request->owns_buffer = false;
  request->length = Length::exact;
  request->error = Error::none;
  request->got = 0;
  request->poison = 0;
  request->noted = nullptr;
  ++owner.outstanding;
  ++live_requests_;
  if (state == State::recv_waiting_eager && owner.noted != nullptr) {
    request->state = state;
  } else {
    set_state(*request, state);
  }
  return request;
}

uint64_t LibOF::comparisons() const {
  uint64_t all = 0;
  for (const auto& peer : peers_)
    all += peer != nullptr ? peer->receives.comparisons + peer->unexpected.comparisons : 0;
  return all;
}

void LibOF::visit_requests(const RequestOwner& owner, const std::function<void(const Request&)>& visit) const {
  for (const Request& request : pool_) {
    if (request.state != State::done && request.owner == &owner) visit(request);
  }
}

bool LibOF::idle() const {
  return live_requests_ == 0 && std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
           return peer == nullptr || peer->unexpected.count + peer->early_rtrs.count == 0;
         });
}

Holdings LibOF::holdings() const {
  Holdings all{0, live_requests_};
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    all.mailbox_slots += peer->eager_sent - peer->eager_consumed;
    all.messages += peer->unexpected.count + peer->early_rtrs.count;
  }
  return all;
}

void LibOF::set_state(Request& request, State state) {
  if (observer_ != nullptr) observer_->moved(request, state);
  request.state = state;
}

void LibOF::complete(Request& request, Error error, uint64_t expected, uint64_t got) {
  set_state(request, State::done);
  RequestOwner& owner = *request.owner;
  if (error != Error::none && owner.error == Error::none) {
    owner.error = error;
    owner.error_peer = request.peer;
    owner.error_expected = expected;
    owner.error_got = got;
    if (owner.poison == 0) owner.poison = request.poison;
  }
  if (request.owns_buffer) delete[] request.buffer;
  request.generation = (request.generation + 1) & kGenerations;
  request.next = free_requests_;
  free_requests_ = &request;
  --live_requests_;
  --owner.outstanding;
  if (owner.outstanding == 0 || error != Error::none) make_ready(owner);
}

void LibOF::make_ready(RequestOwner& owner) {
  if (owner.is_ready || &owner == &orphans_) return;
  owner.is_ready = true;
  owner.next_ready = ready_;
  ready_ = &owner;
}

RequestOwner* LibOF::take_ready() {
  RequestOwner* owner = ready_;
  if (owner != nullptr) {
    ready_ = owner->next_ready;
    owner->is_ready = false;
  }
  return owner;
}

void LibOF::remove_ready(RequestOwner& owner) {
  if (!owner.is_ready) return;
  owner.is_ready = false;
  for (RequestOwner** at = &ready_; *at != nullptr; at = &(*at)->next_ready) {
    if (*at == &owner) {
      *at = owner.next_ready;
      return;
    }
  }
}

// --- starting --------------------------------------------------------------------------------------------------------

bool LibOF::isend(RequestOwner& owner, Rank rank, const MessageKey& key, const void* buffer, size_t bytes) {
  Peer& peer = peer_of(rank);
  // Requests store one kind of pointer; a send's buffer is never written through it.
  void* data = const_cast<void*>(buffer);
  const bool eager = bytes <= peer.eager_limit;
  EarlyRtr* rtr = peer.early_rtrs.find(key);
  if (rtr != nullptr && is_of_another_call(peer, key, owner, rtr->signature, rtr->asks_for_another_length(bytes))) {
    // The RTR has been answered, with all others of the communicator.
    if (Request* request = new_request(owner, peer, key, data, bytes, State::eager_send_init))
      complete(*request, Error::calls_differ);
    return true;
  }
  if (eager && rtr == nullptr) {
    if (options_.test_on_init && peer.connected && peer.stalled.empty() && may_send_eager(peer, bytes)) {
      if (!peer.asynchronous) {
        write_eager(peer, EagerKind::message, key, buffer, bytes, nullptr, owner.signature);
        ++counters_.eager_sent;
        if (observer_ != nullptr && owner.noted == nullptr)
          observer_->at_once(owner, {key, bytes, rank}, State::eager_send_init);
        return true;
      }
      Request* request = new_request(owner, peer, key, data, bytes, State::eager_send_init);
      if (request == nullptr) return true;
      set_state(*request, State::eager_sending);
      write_eager(peer, EagerKind::message, key, buffer, bytes, request, owner.signature);
      ++counters_.eager_sent;
      ++sends_pending_;
      return false;
    }
    if (options_.test_on_init) ++counters_.eager_stalled;
    Request* request = new_request(owner, peer, key, data, bytes, State::eager_send_init);
    if (request == nullptr) return true;
    ++sends_pending_;
    peer.stalled.push(request);
    activate(peer);
    return false;
  }
  Request* request = new_request(owner, peer, key, data, bytes, State::send_waiting_rtr);
  if (request == nullptr) return true;
  ++sends_pending_;
  activate(peer);
  if (rtr != nullptr) {
    peer.early_rtrs.remove(rtr);
    answer(peer, *request, *rtr);
    if (rtr->kind == RtrKind::refuse) deactivate_if_idle(peer);
    delete rtr;
  } else {
    ++owner.waiting_rtr;
    ++unannounced_;
    peer.sends.push(request);
    if (peer.connected) fabric_.prepare(rank, local_buffer(*request), true);  // while it waits
  }
  return false;
}

bool LibOF::irecv(RequestOwner& owner, Rank rank, const MessageKey& key, void* buffer, size_t bytes, Length length,
                  const Combining& combining) {
  Peer& peer = peer_of(rank);
  const bool eager = bytes <= peer.eager_limit;
  Unexpected* message = peer.unexpected.find(key);
  const bool announced = message != nullptr && message->kind == EagerKind::rts;
  if (message != nullptr) forget(peer, message);
  if (message != nullptr && !announced) {
    ++peer.matched;
    const bool poisoned = message->kind == EagerKind::poison;
    const bool takes = length == Length::exact ? message->bytes == bytes : message->bytes <= bytes;
    const bool differs = !poisoned && is_of_another_call(peer, key, owner, message->about, !takes);
    const bool fits = !poisoned && !differs && takes;
    if (fits && message->bytes > 0) copy_bytes(buffer, message->payload(), message->bytes);
    owner.received = message->bytes;
    if (!fits) {
      Request* request = new_request(owner, peer, key, buffer, bytes, State::recv_waiting_eager);
      if (request == nullptr) return true;
      if (poisoned) request->poison = poison_told(message->about);
      const Error error = poisoned ? Error::abandoned : differs ? Error::calls_differ : Error::truncated;
      complete(*request, error, bytes, message->bytes);
    } else if (observer_ != nullptr) {
      observer_->at_once(owner, {key, message->bytes, rank}, State::recv_waiting_eager);
    }
    std::free(message);
    report(peer, false);
    return fits;
  }
  Request* request =
      new_request(owner, peer, key, buffer, bytes, eager ? State::recv_waiting_eager : State::rndv_recv_init);
  if (request == nullptr) return true;
  request->length = length;
  request->combining = combining;
  peer.receives.push(request);
  activate(peer);
  if (announced) {
    const Signature theirs = message->about;
    std::free(message);
    handle_rts(peer, *request, theirs);
    report(peer, false);
  } else if (!eager || peer.congested) {
    if (options_.test_on_init || eager) {
      ask_by_rtr(peer, *request);
    } else {
      request->rtr_asked = true;
      peer.rtr_queue.push_back({RtrKind::ready, key, request, 0});
      ++rtrs_pending_;
    }
  }
  return false;
}

// --- progress --------------------------------------------------------------------------------------------------------

void LibOF::on_completion(const Completion& completion) {
  const bool wrote = completion.kind == Completion::Kind::immediate || completion.kind == Completion::Kind::message;
  if (wrote && !revoking_.empty()) has_written(completion.peer);
  switch (completion.kind) {
    case Completion::Kind::write_done:
      on_write_done(completion);
      break;
    case Completion::Kind::put_done:
      on_put_done(completion);
      break;
    case Completion::Kind::immediate:
      on_immediate(completion);
      break;
    case Completion::Kind::message: {
      // A peer may write before this rank has named it.
      Peer& peer = peer_of(completion.peer);
      const bool revokes = completion.immediate == kNoteRevoke;
      const bool alarm = completion.immediate == kNoteAlarm;
      if (completion.immediate == kNoteEager || alarm) ++peer.eager_arrived;
      if (completion.immediate == kNoteRtr || revokes) ++peer.rtr_arrived;
      if (peer.active) poll_peer(peer);
      // Also where no send waits for an RTR: a revoke is answered at once, and there is always room for one.
      const bool full = peer.rtr_arrived - peer.rtr_received == kRtrSlots;
      if (peer.connected && (revokes || full)) drain_rtrs(peer);
      // An alarm needs a slot, too: the mailbox must not stay full where nothing is expected.
      const bool looks = alarm || (calls_ != nullptr && peer.eager_arrived - peer.eager_received >= peer.slots);
      if (looks && (peer.connected || (!peer.active && connect(peer)))) drain_eager(peer);
      deactivate_if_idle(peer);
      break;
    }
    case Completion::Kind::answered: {
      Peer* peer = peers_[completion.peer].get();
      if (peer == nullptr || !peer->active) break;
      poll_peer(*peer);
      deactivate_if_idle(*peer);
      break;
    }
    case Completion::Kind::broken:
      break_off(peer_of(completion.peer), completion.error);
      break;
  }
}

void LibOF::on_write_done(const Completion& completion) {
  Request& request = *static_cast<Request*>(completion.cookie);
  Peer& peer = *peers_[request.peer];
  if (request.state == State::eager_sending) {
    --sends_pending_;
    complete(request, completion.error);
  } else {
    request.rtr_local = true;
    if (completion.error != Error::none) request.error = completion.error;
    finish_receive(peer, request);
  }
  deactivate_if_idle(peer);
}

void LibOF::on_put_done(const Completion& completion) {
  Request& send = *static_cast<Request*>(completion.cookie);
  Peer& peer = *peers_[send.peer];
  peer.sending.remove(&send);
  --sends_pending_;
  if (send.error == Error::none) {
    send.error = completion.error;
    if (send.error == Error::abandoned) send.poison = poison_told(completion.bytes);
  }
  complete(send, send.error, send.bytes, send.got);
  deactivate_if_idle(peer);
}

void LibOF::on_immediate(const Completion& completion) {
  const uint32_t immediate = completion.immediate & ~kAnnounced;
  const uint32_t id = immediate & ((1u << kIdBits) - 1);
  if (id >= pool_.size()) return;
  Request& receive = pool_[id];
  if (immediate_of(receive) != immediate || receive.peer != completion.peer || !receive.rtr_written ||
      receive.data_here || receive.state == State::done)
    return;  // not for any receive of this rank: nothing to complete
  Peer& peer = *peers_[completion.peer];
  // The RTS was written before the data, so it is here: take it out of the mailbox while its receive is there to meet
  // it.
  if (completion.immediate & kAnnounced) drain_eager(peer);
  // Unless the mailbox held what has ended it.
  if (immediate_of(receive) == immediate && !receive.data_here) {
    receive.data_here = true;
    receive.got = completion.bytes;
    receive.error = completion.error;
    if (receive.error == Error::abandoned) receive.poison = poison_told(completion.bytes);
    if (receive.error == Error::memory) {  // the sender had none
      receive.error = Error::abandoned;
      receive.poison = poison_of(completion.peer, Error::memory);
    }
    if (receive.error == Error::none && !receive.takes(receive.got)) receive.error = Error::truncated;
    receive.owner->combined |= receive.combines;
    finish_receive(peer, receive);
  }
  deactivate_if_idle(peer);
}

bool LibOF::progress(Effort effort) {
  bool moved = false;
  // A peer may leave the list while it is visited: another takes its place and is visited by the next pass at the
  // latest.
  for (size_t i = 0; i < active_.size(); ++i) {
    Peer& peer = *active_[i];
    if (poll_peer(peer)) {
      moved = true;
      deactivate_if_idle(peer);
    }
  }
  Completion completions[16];
  unsigned count;
  do {
    count = fabric_.poll(completions, 16, effort);
    for (unsigned i = 0; i < count; ++i) on_completion(completions[i]);
    moved |= count > 0;
  } while (count == 16);
  if (!revoking_.empty()) moved |= poll_revoking();
  return moved;
}

// A peer whose slots are full waits for us without ringing. If one of them may have more to deliver than fits into its
// slots, count no further than to what fits. Acknowledgements are withheld until half of the slots, or a quarter of the
// window, is due.
uint32_t LibOF::most_arrivals(uint32_t puts) const {
  uint32_t most = UINT32_MAX;
  for (const Peer* peer : active_) {
    const uint32_t room = std::min({peer->slots / 2 + 1, options_.unexpected_window / 4 + 1, puts});
    if (peer->receives.count > room) most = std::min(most, room);
  }
  return most;
}

}  // namespace nbc::libof
