// How the UCX fabric connects to its peers, and how it learns that one is gone.
#include "fabric/ucx/available.h"

#if NBC_HAS_UCX
#include <cstring>
#include <sys/random.h>
#include <utility>

#include "fabric/clock.h"
#include "fabric/ucx/ucx_fabric.h"

namespace nbc::ucx {

using cards::CardState;
using cards::Standing;

namespace {

constexpr int64_t kLookMilliseconds = 1000;  // between two looks at who has gone
constexpr uint32_t kAsked = 64;              // questions for closed peers between two at the clock
// How long UCX may take to give back what it was given for a connection that has ended. It does so at once.
constexpr int64_t kSettleMilliseconds = 1000;

uint64_t new_token() {
  uint64_t token = 0;
  if (getrandom(&token, sizeof token, 0) != sizeof token) throw system_failure("transport 'ucx': no random numbers");
  return token;
}

}  // namespace

Connect UcxFabric::connect(Rank peer) {
  if (peer == rank_) {
    if (self_ == nullptr) self_ = std::make_unique<Self>();
    return Connect::ready;
  }
  return advance(peer, true);
}

// One step, if there is one to take. Without `wanted` only if the peer has asked.
Connect UcxFabric::advance(Rank peer, bool wanted) {
  Link& link = links_[peer];
  if (link.verdict != Connect::later || closed_) return link.verdict;
  std::string_view card;
  const CardState state = bootstrap_->look(peer, card);
  if (link.boxes == nullptr && state == CardState::none && !wanted) return Connect::later;
  try {
    if (link.boxes == nullptr) tell(link);
    if (state != CardState::none) {
      if (!usable(link)) {
        // It said nothing to this rank: both would have an endpoint.
        if (bootstrap_->standing(peer) == Standing::gone) return link.verdict = Connect::closed;
        if (!open_endpoint(link, card)) return link.verdict = Connect::refused;
      }
      if (link.welcomed && link.pending == 0) link.verdict = Connect::ready;
      return link.verdict;
    }
    link.why = bootstrap_->refusal(peer);
    if (!link.why.empty()) link.verdict = bootstrap_->verdict(peer);
  } catch (const FabricError& error) {
    link.why = error.message;
    link.verdict = bootstrap_->is_ending(peer) ? Connect::closed : Connect::broken;
  }
  return link.verdict;
}

// Gives the peer what it needs to send to this rank.
void UcxFabric::tell(Link& link) {
  link.token = new_token();
  link.boxes = std::make_unique<Boxes>();
  const CardHead head{kCardVersion, eager_limit_, link.token};
  std::string card(reinterpret_cast<const char*>(&head), sizeof head);
  card += worker_->address();
  bootstrap_->publish(link.peer, card, CardState::ready);
}

// Whether the two may talk; if not, the link says why.
bool UcxFabric::fits(std::string_view card, Link& link, CardHead& theirs) const {
  if (const uint32_t version = cards::version_of(card); version != kCardVersion) {
    link.why = cards::other_version(link.peer, version, kCardVersion);
    return false;
  }
  if (card.size() <= sizeof theirs) {
    link.why = "what rank " + std::to_string(link.peer) + " of the world sent is not an address of UCX";
    return false;
  }
  std::memcpy(&theirs, card.data(), sizeof theirs);
  if (theirs.eager_limit == eager_limit_) return true;
  link.why = other_setting(link.peer, "eagerLimit", std::to_string(theirs.eager_limit), std::to_string(eager_limit_));
  return false;
}

// Networks that cannot tell of failures, as shared memory of UCX 1.13, are taken where no other one leads to the peer.
// False: the two do not match.
bool UcxFabric::open_endpoint(Link& link, std::string_view card) {
  CardHead theirs{};
  if (!fits(card, link, theirs)) return false;
  link.theirs = theirs.token;
  const std::string aligned(card.substr(sizeof theirs));  // UCX reads it in place
  ucs_status_t status = create_endpoint(link, aligned, true);
  if (status == UCS_ERR_UNREACHABLE) status = create_endpoint(link, aligned, false);
  if (status != UCS_OK) {
    link.endpoint = nullptr;
    throw failure("no network of this machine reaches rank " + std::to_string(link.peer) + " of the world", status);
  }
  say(link, Kind::hello);
  if (link.greeted) say(link, Kind::welcome);
  return true;
}

ucs_status_t UcxFabric::create_endpoint(Link& link, const std::string& address, bool reports) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = reports ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = &UcxFabric::on_failure;
  params.err_handler.arg = &link;
  link.reports = reports;
  return worker_->lib.ep_create(worker_->handle(), &params, &link.endpoint);
}

void UcxFabric::answer_calls() {
  bootstrap_->forget_calls();
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer != rank_) advance(peer, false);
  }
}

// --- ends ------------------------------------------------------------------------------------------------------------

bool UcxFabric::has_closed(Rank peer) {
  if (peer == rank_) return closed_;
  if (++asked_ % kAsked == 0) look_who_has_gone();
  const Link& link = links_[peer];
  // One that closed has said so behind everything else.
  if (advance(peer, false) == Connect::ready) return link.peer_closed;
  return link.verdict == Connect::later && bootstrap_->standing(peer) >= Standing::gone;
}

void UcxFabric::abandon(Rank peer) {
  if (usable(links_[peer])) break_off(links_[peer], Error::peer_closed, "the peer has closed its world");
}

void UcxFabric::reject(Rank peer, const std::string& why) {
  if (usable(links_[peer])) break_off(links_[peer], Error::unreachable, why);
}

// A callback of UCX: what it asks for is done later.
void UcxFabric::on_failure(void* given, ucp_ep_h, ucs_status_t status) {
  Link& link = *static_cast<Link*>(given);
  link.fabric->fail(link, status);
}

// It is broken off when nothing of UCX is being called.
void UcxFabric::fail(Link& link, const std::string& why) {
  link.failure = why;
  failed_.push_back(link.peer);
}

void UcxFabric::fail(Link& link, ucs_status_t status) {
  fail(link, std::string("UCX says: ") + worker_->lib.status_string(status));
}

void UcxFabric::handle_failures() {
  while (!failed_.empty()) {
    Link& link = links_[failed_.back()];
    failed_.pop_back();
    if (usable(link)) break_off(link, Error::unreachable, link.failure);
  }
}

// Puts end before the connection does.
void UcxFabric::break_off(Link& link, Error error, const std::string& why) {
  if (link.peer_closed || bootstrap_->is_ending(link.peer)) error = Error::peer_closed;
  link.error = error;
  link.why = "the connection to rank " + std::to_string(link.peer) + " of the world broke: " + why;
  link.verdict = error == Error::peer_closed ? Connect::closed : Connect::broken;
  drop_offers(link);
  close_endpoint(link);
  for (void* const cookie : link.failed_puts)
    arrived_.push({Completion::Kind::put_done, error, link.peer, 0, 0, cookie});
  link.failed_puts.clear();
  arrived_.push({Completion::Kind::broken, error, link.peer, 0, 0, nullptr});
}

// Forgets what the peer has announced and nobody has begun to receive.
void UcxFabric::drop_offers(Link& link) {
  for (auto& [number, waiting] : link.early) {
    if (waiting.offer != nullptr) worker_->lib.am_data_release(worker_->handle(), waiting.offer);
  }
  link.early.clear();
  std::erase_if(offers_, [&](const std::pair<Rank, Waiting>& offer) {
    if (offer.first != link.peer) return false;
    worker_->lib.am_data_release(worker_->handle(), offer.second.offer);
    return true;
  });
}

// UCX gives back all that it was given for the peer, if the endpoint can be closed now. What it keeps stays allocated.
void UcxFabric::close_endpoint(Link& link) {
  // First: what UCX cancels now has not been sent.
  const ucp_ep_h endpoint = std::exchange(link.endpoint, nullptr);
  if (link.reports) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t request = worker_->lib.ep_close_nbx(endpoint, &param);
    const bool closing = request != nullptr && !UCS_PTR_IS_ERR(request);
    const int64_t limit = now_milliseconds() + kSettleMilliseconds;
    while ((closing && worker_->lib.request_check_status(request) == UCS_INPROGRESS) || link.pending > 0) {
      if (now_milliseconds() > limit) break;
      worker_->progress();
    }
    if (closing) worker_->lib.request_free(request);
  }
  if (link.pending == 0) return;
  for (Pending& pending : pending_) {
    if (pending.link != &link || !pending.put) continue;
    pending.put = false;
    arrived_.push({Completion::Kind::put_done, link.error, link.peer, 0, 0, pending.cookie});
  }
}

void UcxFabric::look_who_has_gone() {
  const int64_t now = now_milliseconds();
  if (now - looked_ < kLookMilliseconds) return;
  looked_ = now;
  for (Link& link : links_) {
    if (!usable(link)) continue;
    const Standing standing = link.heard ? Standing::open : bootstrap_->standing(link.peer);
    link.heard = false;
    if (standing == Standing::lost) {
      break_off(link, Error::unreachable,
                "it did not answer for as long as option peerTimeout says; its process may be stopped");
    } else if (standing == Standing::gone) {
      // What it wrote before comes first; it may have said good-bye.
      while (worker_->progress()) {
      }
      if (!link.peer_closed) break_off(link, Error::peer_closed, "its process has ended");
    }
  }
}

}  // namespace nbc::ucx
#endif
