// What UCX brings, and what becomes of it.
#include "fabric/ucx/available.h"

#if NBC_HAS_UCX
#include <algorithm>
#include <cstring>

#include "fabric/ucx/ucx_fabric.h"

namespace nbc::ucx {
namespace {

constexpr int kSteps = 16;       // of UCX's progress between two looks at what it brought
constexpr size_t kEarly = 4096;  // messages of a peer that may come before their turn

}  // namespace

unsigned UcxFabric::poll(Completion* out, unsigned max, Effort /*effort*/) {
  if (bootstrap_->called()) answer_calls();
  parking_.answer_calls();
  if (arrived_.size() < max) progress();
  const auto count = static_cast<unsigned>(std::min<size_t>(max, arrived_.size()));
  for (unsigned i = 0; i < count; ++i) out[i] = arrived_[i];
  if (count > 0) arrived_.pop(count);
  return count;
}

void UcxFabric::progress() {
  for (int i = 0; i < kSteps && worker_->progress(); ++i) {
  }
  if (!offers_.empty()) take_offers();
  if (!failed_.empty()) handle_failures();
}

// --- messages --------------------------------------------------------------------------------------------------------

// UCS_INPROGRESS: the data are kept, and are given back with am_data_release() or am_recv_data_nbx().
ucs_status_t UcxFabric::on_message(void* given, const void* header, size_t header_bytes, void* data, size_t bytes,
                                   const ucp_am_recv_param_t* param) {
  UcxFabric& fabric = *static_cast<UcxFabric*>(given);
  Head head;
  if (header_bytes != sizeof head) return UCS_OK;
  std::memcpy(&head, header, sizeof head);
  if (head.from >= fabric.size_ || head.from == fabric.rank_) return UCS_OK;
  Link& link = fabric.links_[head.from];
  // Not from the peer that was given this rank's card; or from one whose connection has ended.
  if (link.boxes == nullptr || head.token != link.token) return UCS_OK;
  if (link.verdict != Connect::later && link.verdict != Connect::ready) return UCS_OK;
  const bool offered = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return fabric.arrived(link, head, data, bytes, offered) ? UCS_INPROGRESS : UCS_OK;
}

// True: the data are kept.
bool UcxFabric::arrived(Link& link, const Head& head, void* data, size_t bytes, bool offered) {
  link.heard = true;
  if (head.number == link.received) {
    ++link.received;
    if (const char* wrong = handle(link, head, data, bytes, offered ? data : nullptr); wrong != nullptr) {
      fail(link, std::string("it sent ") + wrong);
      return false;
    }
    if (!link.early.empty()) handle_early(link);
    return offered;
  }
  if (link.early.size() == kEarly || head.number - link.received > INT32_MAX || link.early.contains(head.number)) {
    fail(link, "it sent a message with a number that none has");
    return false;
  }
  Waiting& waiting = link.early[head.number];
  waiting.head = head;
  waiting.offered = bytes;
  if (offered) {
    waiting.offer = data;
  } else {
    waiting.data.assign(static_cast<std::byte*>(data), static_cast<std::byte*>(data) + bytes);
  }
  return offered;
}

void UcxFabric::handle_early(Link& link) {
  for (auto next = link.early.begin(); next != link.early.end() && next->first == link.received;
       next = link.early.begin()) {
    const Waiting waiting = std::move(next->second);
    link.early.erase(next);
    ++link.received;
    const char* wrong = handle(link, waiting.head, waiting.data.data(), waiting.offered, waiting.offer);
    if (wrong == nullptr) continue;
    if (waiting.offer != nullptr) worker_->lib.am_data_release(worker_->handle(), waiting.offer);
    return fail(link, std::string("it sent ") + wrong);
  }
}

// In its turn. Returns what is wrong with it, or nullptr; then an offer is kept.
const char* UcxFabric::handle(Link& link, const Head& head, const void* data, size_t bytes, void* offer) {
  if (head.value >> kImmediateBits != 0) return "a value of too many bits";
  if ((offer != nullptr) != (head.kind == Kind::put)) return "data in a way in which no rank sends them";
  if (head.kind != Kind::put && head.kind != Kind::message && bytes > 0) return "data where there are none";
  switch (head.kind) {
    case Kind::message:
      if (!fits_mailbox(head.offset, bytes)) return "a message that does not fit into its mailbox";
      if (bytes > 0) std::memcpy(link.boxes->in + head.offset, data, bytes);
      arrived_.push({Completion::Kind::message, Error::none, link.peer, head.value, 0, nullptr});
      return nullptr;
    case Kind::put:
      if (head.bytes != bytes) return "data of another length than it told";
      offers_.emplace_back(link.peer, Waiting{head, {}, offer, bytes});
      return nullptr;
    case Kind::told:
      arrived_.push(
          {Completion::Kind::immediate, static_cast<Error>(head.error), link.peer, head.value, head.bytes, nullptr});
      return nullptr;
    case Kind::hello:
      link.greeted = true;
      if (usable(link)) say(link, Kind::welcome);
      return nullptr;
    case Kind::welcome:
      link.welcomed = true;
      return nullptr;
    case Kind::closed:
      link.peer_closed = true;
      if (usable(link)) say(link, Kind::farewell);
      return nullptr;
    case Kind::farewell:
      link.parted = true;
      return nullptr;
  }
  return "a message of a kind that there is not";
}

// --- data ------------------------------------------------------------------------------------------------------------

void UcxFabric::take_offers() {
  while (!offers_.empty()) {
    const auto [peer, offer] = std::move(offers_.front());
    offers_.pop_front();
    take_offer(links_[peer], offer);
  }
}

// Names what it exposed to the peer, or lets UCX drop the data.
void UcxFabric::take_offer(Link& link, const Waiting& offer) {
  const Head& head = offer.head;
  const Region* region = regions_.find(head.key, link.peer);
  if (region == nullptr || region->revoked || region->bytes < offer.offered) {
    worker_->lib.am_data_release(worker_->handle(), offer.offer);
    if (region == nullptr && !regions_.was_open(head.key))
      return fail(link, "it sent data for memory that is not exposed to it");
    if (region != nullptr && region->bytes < offer.offered) return fail(link, "it sent more data than were asked for");
    // The receive has failed meanwhile.
    arrived_.push({Completion::Kind::immediate, Error::none, link.peer, head.value, head.bytes, nullptr});
    return;
  }
  Exposure& exposure = exposures_[head.key];
  exposure.receiving = true;
  Pending& pending = add_pending(link, head);
  pending.keeper = exposure.keeper;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv_am = &UcxFabric::on_received;
  param.user_data = &pending;
  const ucs_status_ptr_t request =
      worker_->lib.am_recv_data_nbx(worker_->handle(), offer.offer, region->data, offer.offered, &param);
  // Otherwise on_received() is called.
  if (request == nullptr || UCS_PTR_IS_ERR(request)) received(pending, UCS_PTR_STATUS(request));
}

void UcxFabric::on_received(void* request, ucs_status_t status, size_t, void* given) {
  Pending& pending = *static_cast<Pending*>(given);
  UcxFabric& fabric = *pending.link->fabric;
  fabric.worker_->lib.request_free(request);
  fabric.received(pending, status);
}

void UcxFabric::received(Pending& pending, ucs_status_t status) {
  Link& link = *pending.link;
  const Head head = pending.head;
  remove(pending);
  if (const auto exposure = exposures_.find(head.key); exposure != exposures_.end()) exposure->second.receiving = false;
  if (!usable(link) && link.verdict != Connect::later) return;  // its end is told by itself
  if (status != UCS_OK) return fail(link, status);
  arrived_.push({Completion::Kind::immediate, Error::none, link.peer, head.value, head.bytes, nullptr});
}

}  // namespace nbc::ucx
#endif
