#include "libof/libof.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace nbc::libof {
namespace {

// The immediate value names the receive: 22 bits of pool index, 7 bits of generation. The sender adds whether there was
// an RTS.
constexpr uint32_t kIdBits = 22;
constexpr uint32_t kGenerations = 0x7f;
constexpr uint32_t kAnnounced = 1u << 29;
static_assert(kAnnounced < 1u << kImmediateBits && kAnnounced > kGenerations << kIdBits);
uint32_t immediate_of(const Request& receive) { return receive.id | receive.generation << kIdBits; }

// The part of memory that a message is. Of the user's buffers there are two at most; whatever is in neither is exposed
// memory.
LocalBuffer local_buffer(const Request& request) {
  const Pinned* pins = request.owner->pins;
  for (size_t i = 0; pins != nullptr && i < 2; ++i) {
    if (pins[i].data != nullptr && request.buffer >= pins[i].data &&
        request.buffer + request.bytes <= pins[i].data + pins[i].bytes)
      return {request.buffer, request.bytes, &pins[i]};
  }
  return {request.buffer, request.bytes, nullptr};
}

}  // namespace

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
  Rank rank = 0;
  bool connected = false;
  bool asynchronous = false;  // how the fabric reaches it; set with `connected`, and stays
  Error unfit = Error::none;  // set when there is no connection and will be none
  bool active = false;
  bool congested = false;  // it filled half of its window of unexpected messages

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
  std::deque<RtrWish> rtr_queue;

  AckLine& ack_in() const { return *reinterpret_cast<AckLine*>(in.control); }
  AckLine& ack_out() const { return *reinterpret_cast<AckLine*>(out.control); }
  RtrSlot& rtr_in(uint32_t n) const { return reinterpret_cast<RtrSlot*>(in.control + kRtrOffset)[n % kRtrSlots]; }
  RtrSlot& rtr_out(uint32_t n) const { return reinterpret_cast<RtrSlot*>(out.control + kRtrOffset)[n % kRtrSlots]; }
};

LibOF::LibOF(Fabric& fabric, const Options& options)
    : fabric_(fabric),
      options_(options),
      slot_bytes_(eager_slot_bytes(options.eager_limit)),
      slots_(eager_slots(options.eager_limit)),
      peers_(fabric.size()) {
  options_.unexpected_window = std::max(options_.unexpected_window, slots_);
}

LibOF::~LibOF() {
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->unexpected.each([](Unexpected* message) { std::free(message); });
    peer->early_rtrs.each([](EarlyRtr* rtr) { delete rtr; });
  }
}

// --- peers -----------------------------------------------------------------------------------------------------------

LibOF::Peer& LibOF::peer_of(Rank rank) {
  if (peers_[rank] == nullptr) {
    peers_[rank] = std::make_unique<Peer>();
    Peer& peer = *peers_[rank];
    peer.rank = rank;
    for (uint32_t* number :
         {&peer.eager_sent, &peer.eager_consumed, &peer.eager_matched, &peer.eager_received,
          &peer.eager_received_reported, &peer.matched, &peer.matched_reported, &peer.rtr_sent, &peer.rtr_consumed,
          &peer.rtr_received, &peer.rtr_received_reported, &peer.eager_arrived, &peer.rtr_arrived})
      *number = options_.first_message;
    connect(peer);
  }
  return *peers_[rank];
}

bool LibOF::connect(Peer& peer) {
  if (peer.unfit != Error::none) return false;
  switch (fabric_.connect(peer.rank)) {
    case Connect::later:
      return false;
    case Connect::refused:
      peer.unfit = Error::mismatch;
      return false;
    case Connect::broken:
      peer.unfit = Error::unreachable;
      return false;
    case Connect::closed:
      peer.unfit = Error::peer_closed;
      return false;
    case Connect::ready:
      break;
  }
  peer.out = fabric_.outbox(peer.rank);
  peer.in = fabric_.inbox(peer.rank);
  peer.asynchronous = fabric_.asynchronous(peer.rank);
  peer.connected = true;
  ++counters_.connections;
  return true;
}

void LibOF::activate(Peer& peer) {
  if (peer.active) return;
  peer.active = true;
  peer.active_index = static_cast<uint32_t>(active_.size());
  active_.push_back(&peer);
  if (!peer.connected) ++connecting_;
}

void LibOF::deactivate_if_idle(Peer& peer) {
  if (!peer.active || peer.receives.count + peer.sends.count > 0 || !peer.stalled.empty() || !peer.sending.empty() ||
      !peer.rtr_queue.empty())
    return;
  peer.active = false;
  if (!peer.connected) --connecting_;
  active_[peer.active_index] = active_.back();
  active_[peer.active_index]->active_index = peer.active_index;
  active_.pop_back();
}

// --- requests --------------------------------------------------------------------------------------------------------

Request* LibOF::new_request(Waiter& waiter, Peer& peer, const MessageKey& key, void* buffer, size_t bytes,
                            State state) {
  if (free_requests_ == nullptr) {
    pool_.emplace_back();
    pool_.back().id = static_cast<uint32_t>(pool_.size() - 1);
    free_requests_ = &pool_.back();
  }
  Request* request = free_requests_;
  free_requests_ = request->next;
  request->key = key;
  request->owner = &waiter;
  request->buffer = static_cast<std::byte*>(buffer);
  request->bytes = bytes;
  request->peer = peer.rank;
  request->announced = request->rtr_asked = request->rtr_written = request->rtr_local = request->data_here = false;
  request->error = Error::none;
  request->got = 0;
  ++waiter.outstanding;
  ++live_requests_;
  set_state(*request, state);
  return request;
}

bool LibOF::idle() const {
  return live_requests_ == 0 && std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
           return peer == nullptr || peer->unexpected.count + peer->early_rtrs.count == 0;
         });
}

void LibOF::set_state(Request& request, State state) {
  request.state = state;
  if (trace_ != nullptr) trace_(trace_context_, request, state);
}

void LibOF::complete(Request& request, Error error, uint64_t expected, uint64_t got) {
  set_state(request, State::done);
  Waiter& waiter = *request.owner;
  if (error != Error::none && waiter.error == Error::none) {
    waiter.error = error;
    waiter.error_peer = request.peer;
    waiter.error_expected = expected;
    waiter.error_got = got;
  }
  request.generation = (request.generation + 1) & kGenerations;
  request.next = free_requests_;
  free_requests_ = &request;
  --live_requests_;
  --waiter.outstanding;
  if (waiter.outstanding == 0 || error != Error::none) make_ready(waiter);
}

void LibOF::make_ready(Waiter& waiter) {
  if (waiter.is_ready) return;
  waiter.is_ready = true;
  waiter.next_ready = ready_;
  ready_ = &waiter;
}

Waiter* LibOF::take_ready() {
  Waiter* waiter = ready_;
  if (waiter != nullptr) {
    ready_ = waiter->next_ready;
    waiter->is_ready = false;
  }
  return waiter;
}

void LibOF::forget_ready(Waiter& waiter) {
  if (!waiter.is_ready) return;
  waiter.is_ready = false;
  for (Waiter** at = &ready_; *at != nullptr; at = &(*at)->next_ready) {
    if (*at == &waiter) {
      *at = waiter.next_ready;
      return;
    }
  }
}

// --- eager sends -----------------------------------------------------------------------------------------------------

bool LibOF::may_send_eager(Peer& peer) {
  const auto room = [&] {
    return peer.eager_sent - peer.eager_consumed < slots_ &&
           peer.eager_sent - peer.eager_matched < options_.unexpected_window;
  };
  if (room()) return true;
  read_ack_line(peer);
  return room();
}

void LibOF::write_eager(Peer& peer, EagerKind kind, const MessageKey& key, const void* buffer, size_t bytes,
                        void* cookie) {
  std::byte* slot = peer.out.slots + peer.eager_sent_index * slot_bytes_;
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
  if (bytes > 0) std::memcpy(slot + sizeof(EagerHeader), buffer, bytes);
  ++peer.eager_sent;
  if (++peer.eager_sent_index == slots_) peer.eager_sent_index = 0;
  // release: header and payload before the stamp; pairs with the acquire in drain_eager()
  header->stamp.store(peer.eager_sent, std::memory_order_release);
  fabric_.commit(peer.rank, slot, sizeof(EagerHeader) + bytes, kNoteEager, cookie);
}

bool LibOF::send_stalled(Peer& peer) {
  bool moved = false;
  while (Request* request = peer.stalled.head) {
    if (!may_send_eager(peer)) break;
    peer.stalled.remove(request);
    set_state(*request, State::eager_sending);
    write_eager(peer, EagerKind::message, request->key, request->buffer, request->bytes, request);
    ++counters_.eager_sent;
    if (!peer.asynchronous) {
      --sends_pending_;
      complete(*request, Error::none);
    }
    moved = true;
  }
  return moved;
}

bool LibOF::isend(Waiter& waiter, Rank rank, const MessageKey& key, const void* buffer, size_t bytes) {
  Peer& peer = peer_of(rank);
  // Requests store one kind of pointer; a send's buffer is never written through it.
  void* data = const_cast<void*>(buffer);
  const bool eager = bytes <= options_.eager_limit;
  EarlyRtr* rtr = peer.early_rtrs.find(key);
  if (eager && rtr == nullptr) {
    if (options_.test_on_init && peer.connected && peer.stalled.empty() && may_send_eager(peer)) {
      if (!peer.asynchronous && trace_ == nullptr) {
        write_eager(peer, EagerKind::message, key, buffer, bytes, nullptr);
        ++counters_.eager_sent;
        return true;
      }
      Request* request = new_request(waiter, peer, key, data, bytes, State::eager_send_init);
      set_state(*request, State::eager_sending);
      write_eager(peer, EagerKind::message, key, buffer, bytes, request);
      ++counters_.eager_sent;
      if (peer.asynchronous) {
        ++sends_pending_;
        return false;
      }
      // Traced: the same states, and complete on return like the untraced path.
      set_state(*request, State::done);
      request->generation = (request->generation + 1) & kGenerations;
      request->next = free_requests_;
      free_requests_ = request;
      --live_requests_;
      --waiter.outstanding;
      return true;
    }
    if (options_.test_on_init) ++counters_.eager_stalled;
    Request* request = new_request(waiter, peer, key, data, bytes, State::eager_send_init);
    ++sends_pending_;
    peer.stalled.push(request);
    activate(peer);
    return false;
  }
  Request* request = new_request(waiter, peer, key, data, bytes, State::send_waiting_rtr);
  ++sends_pending_;
  activate(peer);
  if (rtr != nullptr) {
    peer.early_rtrs.remove(rtr);
    if (rtr->kind == RtrKind::refuse) {
      refused(*request);
      deactivate_if_idle(peer);
    } else {
      start_data(peer, *request, rtr->buffer, rtr->bytes, rtr->receive);
    }
    delete rtr;
  } else {
    ++waiter.waiting_rtr;
    ++unannounced_;
    peer.sends.push(request);
  }
  return false;
}

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
      if (send->announced || !may_send_eager(*peer)) return;
      write_eager(*peer, EagerKind::rts, send->key, nullptr, 0, nullptr);
      ++counters_.rts_sent;
      send->announced = true;
      --unannounced_;
    });
  }
}

// --- eager receives --------------------------------------------------------------------------------------------------

// Who expects a large message has asked for it, or is about to. Who expects a small one asks now, and both learn from
// the answer that they disagree.
void LibOF::heed_rts(Peer& peer, Request& receive) {
  ++peer.matched;
  if (!receive.rtr_asked && !receive.data_here) ask_by_rtr(peer, receive);
}

void LibOF::deliver(Peer& peer, Request& receive, const std::byte* payload, size_t bytes) {
  ++peer.matched;
  receive.data_here = true;
  receive.got = bytes;
  if (bytes != receive.bytes) {
    receive.error = Error::truncated;
  } else if (bytes > 0) {
    std::memcpy(receive.buffer, payload, bytes);
  }
  if (receive.rtr_written) {
    cancel_rtr(peer, receive.key);
  } else if (receive.rtr_asked) {
    forget_wish(peer, receive);
  }
  finish_receive(peer, receive);
}

// The second event of a receive has happened; completes it unless its RTR is still on its way out.
void LibOF::finish_receive(Peer& peer, Request& receive) {
  if (!receive.data_here || (receive.rtr_written && !receive.rtr_local)) return;
  peer.receives.remove(&receive);
  if (receive.rtr_written) {
    if (--peer.immediates == 0) fabric_.expect_immediates(peer.rank, false);
    conceal(peer, receive);
  }
  complete(receive, receive.error, receive.bytes, receive.got);
}

bool LibOF::drain_eager(Peer& peer) {
  bool moved = false;
  // A peer that has filled its window may have no more to send but what we ask for by RTR.
  for (;;) {
    std::byte* slot = peer.in.slots + peer.eager_received_index * slot_bytes_;
    auto* header = reinterpret_cast<EagerHeader*>(slot);
    // acquire: pairs with the release in write_eager()
    if (header->stamp.load(std::memory_order_acquire) != peer.eager_received + 1) break;
    if (peer.asynchronous && peer.eager_received == peer.eager_arrived) break;
    moved = true;
    const size_t bytes = header->bytes;
    if (bytes > options_.eager_limit) {
      reject(peer, "it wrote a message that is longer than eager ones are");
      return true;
    }
    read_acks(peer, header->eager_consumed, header->eager_matched, header->rtr_consumed);
    const MessageKey key{header->context, header->tag, header->sequence};
    const EagerKind kind = header->kind;
    const std::byte* payload = slot + sizeof(EagerHeader);
    ++peer.eager_received;
    if (++peer.eager_received_index == slots_) peer.eager_received_index = 0;
    Request* receive = peer.receives.find(key);
    if (kind == EagerKind::rts && receive != nullptr) {
      heed_rts(peer, *receive);
    } else if (receive != nullptr && !receive->data_here) {
      deliver(peer, *receive, payload, bytes);
    } else {
      void* memory = std::malloc(sizeof(Unexpected) + bytes);
      if (memory == nullptr) throw std::bad_alloc();
      auto* message = new (memory) Unexpected{key, nullptr, nullptr, static_cast<uint32_t>(bytes), kind};
      std::memcpy(message->payload(), payload, bytes);
      peer.unexpected.push(message);
      if (kind == EagerKind::message) ++counters_.eager_unexpected;
    }
    report(peer, false);
  }
  if (moved) relieve(peer);
  return moved;
}

bool LibOF::irecv(Waiter& waiter, Rank rank, const MessageKey& key, void* buffer, size_t bytes) {
  Peer& peer = peer_of(rank);
  const bool eager = bytes <= options_.eager_limit;
  Unexpected* message = peer.unexpected.find(key);
  const bool announced = message != nullptr && message->kind == EagerKind::rts;
  if (message != nullptr) {
    peer.unexpected.remove(message);
    if (peer.congested && peer.unexpected.count < options_.unexpected_window / 2) peer.congested = false;
  }
  if (message != nullptr && !announced) {
    ++peer.matched;
    const bool fits = message->bytes == bytes;
    if (fits && bytes > 0) std::memcpy(buffer, message->payload(), bytes);
    if (!fits) {
      Request* request = new_request(waiter, peer, key, buffer, bytes, State::recv_waiting_eager);
      complete(*request, Error::truncated, bytes, message->bytes);
    } else if (trace_ != nullptr) {
      Request seen;
      seen.key = key;
      seen.peer = rank;
      trace_(trace_context_, seen, State::recv_waiting_eager);
      trace_(trace_context_, seen, State::done);
    }
    std::free(message);
    report(peer, false);
    return fits;
  }
  Request* request =
      new_request(waiter, peer, key, buffer, bytes, eager ? State::recv_waiting_eager : State::rndv_recv_init);
  peer.receives.push(request);
  activate(peer);
  if (announced) {
    std::free(message);
    heed_rts(peer, *request);
    report(peer, false);
  } else if (!eager || peer.congested) {
    if (options_.test_on_init || eager) {
      ask_by_rtr(peer, *request);
    } else {
      request->rtr_asked = true;
      peer.rtr_queue.push_back({RtrKind::ready, key, request});
      ++rtrs_pending_;
    }
  }
  return false;
}

// --- acknowledgements ------------------------------------------------------------------------------------------------

// Tells the peer what we consumed, once that is a fair share of what it may have outstanding. Piggybacking comes first:
// whatever went out in the header of an eager message is reported already.
void LibOF::report(Peer& peer, bool force) {
  const bool slots = peer.eager_received - peer.eager_received_reported >= (slots_ + 1) / 2;
  const bool window = peer.matched - peer.matched_reported >= options_.unexpected_window / 4;
  const bool rtrs = peer.rtr_received - peer.rtr_received_reported >= kRtrSlots / 2;
  if (!(slots || window || rtrs || force)) return;
  AckLine& line = peer.ack_out();
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
  const AckLine& line = peer.ack_in();
  const uint32_t consumed = line.eager_consumed.load(std::memory_order_acquire);
  const uint32_t rtrs = line.rtr_consumed.load(std::memory_order_acquire);
  const uint32_t matched = line.eager_matched.load(std::memory_order_acquire);
  read_acks(peer, consumed, matched, rtrs);
}

// A peer that holds half of its window with messages nobody asked for may be stopped before the one that we wait for.
// Then the receives ask for their messages: an RTR is answered from the sender's memory, past its window.
void LibOF::relieve(Peer& peer) {
  if (peer.congested || peer.unexpected.count < options_.unexpected_window / 2) return;
  peer.congested = true;
  peer.receives.each([&](Request* receive) {
    if (!receive->rtr_asked && !receive->data_here) ask_by_rtr(peer, *receive);
  });
}

// --- rendezvous ------------------------------------------------------------------------------------------------------

void LibOF::ask_by_rtr(Peer& peer, Request& receive) {
  receive.rtr_asked = true;
  const RtrWish wish{RtrKind::ready, receive.key, &receive};
  if (peer.connected && peer.rtr_queue.empty() && write_rtr(peer, wish)) return;
  ++counters_.rtr_stalled;
  peer.rtr_queue.push_back(wish);
  ++rtrs_pending_;
}

void LibOF::cancel_rtr(Peer& peer, const MessageKey& key) {
  const RtrWish wish{RtrKind::cancel, key, nullptr};
  if (peer.rtr_queue.empty() && write_rtr(peer, wish)) return;
  peer.rtr_queue.push_back(wish);
  ++rtrs_pending_;
}

// The message came without its RTR. The wish must not stay: the request will be another one.
void LibOF::forget_wish(Peer& peer, const Request& receive) {
  const auto wish = std::find_if(peer.rtr_queue.begin(), peer.rtr_queue.end(),
                                 [&](const RtrWish& candidate) { return candidate.receive == &receive; });
  if (wish == peer.rtr_queue.end()) return;
  peer.rtr_queue.erase(wish);
  --rtrs_pending_;
}

// A fabric that has to register memory needs to be told of its life.
bool LibOF::expose(Peer& peer, Request& receive) {
  return fabric_.expose(peer.rank, local_buffer(receive), receive.exposed);
}

void LibOF::conceal(Peer& peer, Request& receive) {
  if (peer.asynchronous) fabric_.conceal(peer.rank, receive.exposed);
}

bool LibOF::write_rtr(Peer& peer, const RtrWish& wish) {
  if (peer.rtr_sent - peer.rtr_consumed >= kRtrSlots) {
    read_ack_line(peer);
    if (peer.rtr_sent - peer.rtr_consumed >= kRtrSlots) return false;
  }
  Request* const receive = wish.receive;
  const bool refuse = receive != nullptr && !expose(peer, *receive);
  RtrSlot& slot = peer.rtr_out(peer.rtr_sent);
  slot.kind = refuse ? RtrKind::refuse : wish.kind;
  slot.context = wish.key.context;
  slot.tag = wish.key.tag;
  slot.sequence = wish.key.sequence;
  if (receive != nullptr && !refuse) {
    slot.address = receive->exposed.address;
    slot.buffer_key = receive->exposed.key;
    slot.bytes = receive->bytes;
    slot.receive = immediate_of(*receive);
    receive->rtr_written = true;
    receive->rtr_local = !peer.asynchronous;
    if (receive->state == State::rndv_recv_init) set_state(*receive, State::recv_sending_rtr);
    if (peer.immediates++ == 0) fabric_.expect_immediates(peer.rank, true);
    ++counters_.rtr_sent;
  }
  ++peer.rtr_sent;
  // release: the RTR before its stamp; pairs with the acquire in drain_rtrs()
  slot.stamp.store(peer.rtr_sent, std::memory_order_release);
  fabric_.commit(peer.rank, &slot, sizeof slot, kNoteRtr, refuse ? nullptr : receive);
  if (refuse) {
    receive->data_here = true;  // nothing more will happen to it
    receive->error = Error::memory;
    finish_receive(peer, *receive);
    deactivate_if_idle(peer);
  }
  return true;
}

bool LibOF::send_rtrs(Peer& peer) {
  bool moved = false;
  while (!peer.rtr_queue.empty() && write_rtr(peer, peer.rtr_queue.front())) {
    peer.rtr_queue.pop_front();
    --rtrs_pending_;
    moved = true;
  }
  return moved;
}

bool LibOF::drain_rtrs(Peer& peer) {
  bool moved = false;
  for (;;) {
    const RtrSlot& slot = peer.rtr_in(peer.rtr_received);
    // acquire: pairs with the release in write_rtr()
    if (slot.stamp.load(std::memory_order_acquire) != peer.rtr_received + 1) break;
    if (peer.asynchronous && peer.rtr_received == peer.rtr_arrived) break;
    moved = true;
    const MessageKey key{slot.context, slot.tag, slot.sequence};
    const ExposedBuffer to{slot.address, slot.buffer_key, nullptr};
    const uint64_t bytes = slot.bytes;
    const uint32_t receive = slot.receive;
    const RtrKind kind = slot.kind;
    ++peer.rtr_received;
    const auto answer = [&](Request& send) {
      if (kind == RtrKind::refuse) {
        refused(send);
      } else {
        start_data(peer, send, to, bytes, receive);
      }
    };
    if (kind == RtrKind::cancel) {
      if (EarlyRtr* early = peer.early_rtrs.find(key)) {
        peer.early_rtrs.remove(early);
        delete early;
      }
    } else if (Request* send = peer.sends.find(key)) {
      take_waiting(peer, *send);
      answer(*send);
    } else {
      Request* stalled = peer.stalled.head;
      while (stalled != nullptr && !(stalled->key == key)) stalled = stalled->next;
      if (stalled != nullptr) {
        peer.stalled.remove(stalled);
        answer(*stalled);
      } else {
        auto* early = new EarlyRtr{key, nullptr, nullptr, to, bytes, receive, kind};
        peer.early_rtrs.push(early);
        ++counters_.rtr_early;
      }
    }
    report(peer, false);
  }
  return moved;
}

// The receiver could not expose its memory.
void LibOF::refused(Request& send) {
  --sends_pending_;
  complete(send, Error::system);
}

void LibOF::start_data(Peer& peer, Request& send, const ExposedBuffer& to, uint64_t bytes, uint32_t receive) {
  set_state(send, State::send_sending_data);
  peer.sending.push(&send);
  ++counters_.data_sent;
  if (send.announced) receive |= kAnnounced;
  if (bytes != send.bytes) {
    // Ranks disagree about the size: both learn it, nothing is written.
    send.error = Error::truncated;
    send.got = bytes;
  }
  fabric_.put(peer.rank, to, local_buffer(send), receive, send.error, &send);
}

void LibOF::on_completion(const Completion& completion) {
  switch (completion.kind) {
    case Completion::Kind::write_done: {
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
      break;
    }
    case Completion::Kind::put_done: {
      Request& send = *static_cast<Request*>(completion.cookie);
      Peer& peer = *peers_[send.peer];
      peer.sending.remove(&send);
      --sends_pending_;
      complete(send, send.error != Error::none ? send.error : completion.error, send.bytes, send.got);
      deactivate_if_idle(peer);
      break;
    }
    case Completion::Kind::immediate: {
      const uint32_t immediate = completion.immediate & ~kAnnounced;
      const uint32_t id = immediate & ((1u << kIdBits) - 1);
      if (id >= pool_.size()) break;
      Request& receive = pool_[id];
      if (immediate_of(receive) != immediate || receive.peer != completion.peer || !receive.rtr_written ||
          receive.data_here || receive.state == State::done)
        break;  // not for any receive of ours: nothing to complete
      Peer& peer = *peers_[completion.peer];
      // The RTS was written before the data, so it is here: take it out of the mailbox while its receive is there to
      // meet it.
      if (completion.immediate & kAnnounced) drain_eager(peer);
      // Unless the mailbox held what has ended it.
      if (immediate_of(receive) == immediate && !receive.data_here) {
        receive.data_here = true;
        receive.got = completion.bytes;
        receive.error = completion.error;
        finish_receive(peer, receive);
      }
      deactivate_if_idle(peer);
      break;
    }
    case Completion::Kind::message: {
      // A peer may write before we have named it.
      Peer& peer = peer_of(completion.peer);
      if (completion.immediate == kNoteEager) ++peer.eager_arrived;
      if (completion.immediate == kNoteRtr) ++peer.rtr_arrived;
      if (!peer.active) break;
      poll_peer(peer);
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

// --- progress --------------------------------------------------------------------------------------------------------

bool LibOF::poll_peer(Peer& peer) {
  if (!peer.connected) {
    if (!connect(peer)) {
      if (peer.unfit == Error::none) return false;
      fail(peer, peer.unfit);
      return true;
    }
    --connecting_;
  }
  bool moved = false;
  // Whatever waits for the peer to make room looks into the mailbox too: acknowledgements may have ridden on messages
  // nobody awaits yet.
  if (peer.receives.count > 0 || !peer.stalled.empty() || !peer.rtr_queue.empty()) moved |= drain_eager(peer);
  if (peer.sends.count > 0 || !peer.stalled.empty()) moved |= drain_rtrs(peer);
  if (!peer.stalled.empty()) moved |= send_stalled(peer);
  if (!peer.rtr_queue.empty()) moved |= send_rtrs(peer);
  return moved;
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
  return moved;
}

// A peer whose slots are full waits for us without ringing. If one of them may have more to deliver than fits into its
// slots, count no further than to what fits. Acknowledgements are withheld until half of the slots, or a quarter of the
// window, is due.
uint32_t LibOF::most_arrivals(uint32_t puts) const {
  const uint32_t room = std::min({slots_ / 2 + 1, options_.unexpected_window / 4 + 1, puts});
  for (const Peer* peer : active_) {
    if (peer->receives.count > room) return room;
  }
  return UINT32_MAX;
}

bool LibOF::fail_closed_peers() {
  bool closed = false;
  for (const Peer* peer : active_) closed |= fabric_.has_closed(peer->rank);
  if (!closed) return false;
  // What a closed peer wrote is all there; take it before giving up on the rest.
  std::vector<Rank> gone;
  for (const Peer* peer : active_) {
    if (fabric_.has_closed(peer->rank)) gone.push_back(peer->rank);
  }
  for (const Rank rank : gone) fabric_.abandon(rank);
  while (progress(Effort::helping)) {
  }
  for (const Rank rank : gone) {
    Peer& peer = *peers_[rank];
    if (peer.active) fail(peer, Error::peer_closed);
  }
  return true;
}

void LibOF::fail(Peer& peer, Error error) {
  peer.receives.each([&](Request* receive) {
    peer.receives.remove(receive);
    if (receive->rtr_written) {
      if (--peer.immediates == 0) fabric_.expect_immediates(peer.rank, false);
      conceal(peer, *receive);
    }
    complete(*receive, error);
  });
  peer.sends.each([&](Request* send) {
    take_waiting(peer, *send);
    --sends_pending_;
    complete(*send, error);
  });
  while (Request* send = peer.stalled.head) {
    peer.stalled.remove(send);
    --sends_pending_;
    complete(*send, error);
  }
  rtrs_pending_ -= static_cast<uint32_t>(peer.rtr_queue.size());
  peer.rtr_queue.clear();
  deactivate_if_idle(peer);
}

// The connection has ended for good: whatever needs it fails, now and later. What has arrived stays.
void LibOF::break_off(Peer& peer, Error error) {
  while (peer.connected && drain_eager(peer)) {
  }
  end(peer, error);
}

// What it wrote is not what LibOF writes: nothing in its mailbox is looked at again.
void LibOF::reject(Peer& peer, const char* why) {
  fabric_.reject(peer.rank, why);
  end(peer, Error::unreachable);
}

void LibOF::end(Peer& peer, Error error) {
  if (peer.connected && peer.active) ++connecting_;
  peer.connected = false;
  peer.unfit = error;
  fail(peer, error);
}

}  // namespace nbc::libof
