// What the completion queue and the device tell the verbs fabric, and what becomes of it.
#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/verbs_fabric.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>

#include "fabric/verbs/parcel.h"

namespace nbc::verbs {
namespace {

constexpr int kBatch = 32;  // completions polled at a time

}  // namespace

unsigned VerbsFabric::poll(Completion* out, unsigned max, Effort /*effort*/) {
  if (bootstrap_->called()) answer_calls();
  if (connecting_.has_results()) take_connected();
  if (registrations_.has_results()) {
    registrations_.take_results();
    start_registered();
  }
  if (parking_.answer_calls()) device_events();
  if (connections_ > 0 && arrived_.size() < max) {
    // A batch may hold nothing that LibOF has to know.
    while (collect() == kBatch && arrived_.empty()) {
    }
  }
  const auto count = static_cast<unsigned>(std::min<size_t>(max, arrived_.size()));
  for (unsigned i = 0; i < count; ++i) out[i] = arrived_[i];
  if (count > 0) arrived_.pop(count);
  return count;
}

// One batch; returns how many completions there were.
unsigned VerbsFabric::collect() {
  ibv_wc batch[kBatch];
  const int count = ibv_poll_cq(queue_.get(), kBatch, batch);
  if (count <= 0) return 0;
  // Receives first: a peer must not find the queue empty because we are busy with what it sent.
  if (shared_ == nullptr) replace_receives(batch, count);
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = batch[i];
    Link* link = link_of(wc);
    if (link != nullptr && link->connection->state != Connection::State::broken) completed(*link, wc);
    // Whatever it brought, and from whom.
    if (shared_ != nullptr && (wc.wr_id & kReceiveId) != 0) shared_->release(static_cast<uint32_t>(wc.wr_id >> 32));
  }
  if (shared_ != nullptr) shared_->refill();
  flush();
  return static_cast<unsigned>(count);
}

void VerbsFabric::replace_receives(const ibv_wc* batch, int count) {
  for (int i = 0; i < count; ++i) {
    if ((batch[i].wr_id & kReceiveId) == 0 || batch[i].status != IBV_WC_SUCCESS) continue;
    Connection& connection = *link_of(batch[i])->connection;
    ++connection.missing;
    if (connection.state != Connection::State::broken) connection.refill(false);
  }
}

VerbsFabric::Link* VerbsFabric::link_of(const ibv_wc& wc) {
  if (shared_ == nullptr || (wc.wr_id & kReceiveId) == 0)
    return &links_[static_cast<Rank>(wc.wr_id & (kReceiveId - 1))];
  const auto owner = owners_.find(wc.qp_num);
  return owner != owners_.end() ? &links_[owner->second] : nullptr;
}

void VerbsFabric::completed(Link& link, const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) {
    std::string why = device_->lib.wc_status_str(wc.status);
    if (wc.status == IBV_WC_RETRY_EXC_ERR) why = "it does not answer (transport retries exhausted)";
    // The memory of a process that is killed goes before its connections do.
    if (wc.status == IBV_WC_REM_ACCESS_ERR)
      why = "it refused a write into memory that it does not expose; if it should, its process may be ending";
    return break_off(link, Error::unreachable, why);
  }
  if ((wc.wr_id & kReceiveId) == 0) return sent(*link.connection, wc);
  link.connection->arrived();
  if (shared_ == nullptr) return received(link, ntohl(wc.imm_data), wc.byte_len);
  if (const char* wrong = took_shared(link, wc); wrong != nullptr) return break_off(link, Error::unreachable, wrong);
  if (link.connection->payment_due()) touch(*link.connection);
}

// A message took one of the shared receives. Returns what is wrong with it, or nullptr.
const char* VerbsFabric::took_shared(Link& link, const ibv_wc& wc) {
  if (!link.connection->credits.arrived()) return "it sent a message that it had no credit for";
  if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return unpack(link, wc);
  received(link, ntohl(wc.imm_data), wc.byte_len);
  return nullptr;
}

// A SEND: credits, and what becomes part of the inbox, unless it is a payment only.
const char* VerbsFabric::unpack(Link& link, const ibv_wc& wc) {
  if ((wc.wc_flags & IBV_WC_WITH_IMM) == 0 || !link.connection->credits.paid(ntohl(wc.imm_data)))
    return "it returned more credits than it had taken";
  if (wc.byte_len == 0) return nullptr;
  Parcel parcel;
  if (!open_parcel(shared_->buffer(static_cast<uint32_t>(wc.wr_id >> 32)), wc.byte_len, parcel) ||
      parcel.header.immediate >> kValueBits == kPut)
    return "it sent a message that does not fit into its mailbox";
  std::memcpy(link.connection->place.inbox + parcel.header.offset, parcel.data, parcel.bytes);
  received(link, parcel.header.immediate, static_cast<uint32_t>(parcel.bytes));
  return nullptr;
}

// Something is here, in the mailbox or in exposed memory.
void VerbsFabric::received(Link& link, uint32_t immediate, uint32_t bytes) {
  Connection& connection = *link.connection;
  const uint32_t value = immediate & kValueMask;
  switch (immediate >> kValueBits) {
    case kPut:
      arrived_.push({Completion::Kind::immediate, Error::none, connection.peer, value, bytes, nullptr});
      break;
    case kNoted: {
      Note note;
      const size_t at = kControlBytes + link.notes_received++ % kNotes * sizeof note;
      std::memcpy(&note, connection.place.inbox + at, sizeof note);
      arrived_.push(
          {Completion::Kind::immediate, static_cast<Error>(note.error), connection.peer, value, note.bytes, nullptr});
      break;
    }
    case kMessage:
      arrived_.push({Completion::Kind::message, Error::none, connection.peer, value, 0, nullptr});
      break;
    case kClosed:
      connection.peer_closed = true;
      // An acknowledgement that is lost may never come: the peer does not answer any more.
      for (Put put; connection.take_delivered(value, put);) finish(put, connection.peer, Error::none);
      break;
  }
}

void VerbsFabric::sent(Connection& connection, const ibv_wc& wc) {
  connection.complete(static_cast<uint32_t>(wc.wr_id >> 32));
  connection.heard = true;  // the peer's card has answered
  if (connection.probing) {
    connection.probing = false;
    --awaited_;
  }
  Put put;
  while (connection.take_done(put)) finish(put, connection.peer, Error::none);
}

void VerbsFabric::finish(const Put& put, Rank peer, Error error) {
  --awaited_;
  if (put.registration != nullptr) registrations_.release(put.registration);
  if (put.cookie != nullptr) arrived_.push({Completion::Kind::put_done, error, peer, 0, 0, put.cookie});
}

void VerbsFabric::device_events() {
  ibv_async_event event;
  while (device_->lib.get_async_event(device_->context, &event) == 0) {
    const std::string name = device_->lib.event_type_str(event.event_type);
    // What all connections need is broken.
    const bool device = event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR ||
                        event.event_type == IBV_EVENT_SRQ_ERR;
    const bool pair = event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_REQ_ERR ||
                      event.event_type == IBV_EVENT_QP_ACCESS_ERR;
    const ibv_qp* which = event.element.qp;
    // A queue pair cannot be destroyed before its events are acknowledged. A port that went down may come back within
    // the retries; one whose addresses or partitions changed is asked again for every card.
    device_->lib.ack_async_event(&event);
    for (Link& link : links_) {
      if (link.connection != nullptr && (device || (pair && link.connection->owns(which))))
        break_off(link, Error::unreachable, device_->name + " reports: " + name);
    }
  }
}

}  // namespace nbc::verbs
#endif
