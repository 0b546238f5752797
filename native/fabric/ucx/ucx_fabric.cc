#include "fabric/ucx/available.h"

#if NBC_HAS_UCX
#include "fabric/ucx/ucx_fabric.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sched.h>

#include "fabric/clock.h"

namespace nbc::ucx {
namespace {

constexpr int64_t kCloseMilliseconds = 3000;  // how long a closing rank waits until what it wrote has arrived
// Where nothing is awaited nobody is woken. A peer that connects or closes needs an answer all the same.
constexpr int64_t kLongestSleep = 50'000'000;
// Where UCX has not finished sending it may need to be asked again, and some of its networks wake nobody for that.
constexpr int64_t kSleepWhileSending = 1'000'000;
constexpr int kArmings = 64;

}  // namespace

UcxFabric::UcxFabric(std::unique_ptr<cards::Bootstrap> bootstrap, uint32_t eager_limit)
    : bootstrap_(std::move(bootstrap)),
      eager_limit_(eager_limit),
      rank_(bootstrap_->rank()),
      size_(bootstrap_->size()),
      links_(size_),
      worker_(std::make_unique<Worker>(&UcxFabric::on_message, this)),
      parking_(worker_->descriptor(), *bootstrap_) {
  if (sizeof(CardHead) + worker_->address().size() > cards::kMostCard)
    throw FabricError{"transport 'ucx': an address with all networks of this machine has " +
                      std::to_string(worker_->address().size()) +
                      " bytes, too many; name those to use in UCX_NET_DEVICES"};
  for (Rank peer = 0; peer < size_; ++peer) {
    links_[peer].fabric = this;
    links_[peer].peer = peer;
  }
}

UcxFabric::~UcxFabric() {
  announce_closed();
  for (Link& link : links_) {
    drop_offers(link);
    if (link.endpoint != nullptr && !has_unread(link)) close_endpoint(link);
  }
  const auto needed = [this](const Link& link) { return has_unread(link) || may_connect(link); };
  if (std::any_of(links_.begin(), links_.end(), needed)) linger(std::move(worker_));
}

// The peer has what it needs to connect to this rank, and has not done so.
bool UcxFabric::may_connect(const Link& link) const {
  return link.boxes != nullptr && !link.greeted && bootstrap_->standing(link.peer) < cards::Standing::gone;
}

// A peer that does not look may still find what this rank has sent to it: UCX keeps some of it in memory of the sender.
// And UCX would end a peer that connects to a worker which goes at that moment. So the worker stays until the process
// ends. Nobody asks it for anything any more.
void UcxFabric::linger(std::unique_ptr<Worker> worker) {
  static std::mutex mutex;
  static auto& workers = *new std::vector<std::unique_ptr<Worker>>();
  const std::lock_guard<std::mutex> guard(mutex);
  workers.push_back(std::move(worker));
}

// --- buffers ---------------------------------------------------------------------------------------------------------

bool UcxFabric::expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) {
  out = {reinterpret_cast<uintptr_t>(buffer.data), 0, nullptr};
  if (buffer.bytes == 0) return true;
  out.key = regions_.open(peer, buffer.data, buffer.bytes);
  if (out.key == 0) {
    links_[rank_].why = "too many large receives are under way";
    return false;
  }
  exposures_[out.key] = {buffer.home != nullptr ? buffer.home->keeper : nullptr, false};
  return true;
}

void UcxFabric::conceal(Rank, const ExposedBuffer& buffer) {
  if (buffer.key == 0) return;
  regions_.close(buffer.key);
  exposures_.erase(buffer.key);
}

// What UCX has begun to write it writes to its end, or to that of the connection.
bool UcxFabric::revoke(Rank, const ExposedBuffer& buffer, size_t, Error, uint64_t) {
  if (buffer.key == 0) return true;
  regions_.revoke(buffer.key);
  const auto exposure = exposures_.find(buffer.key);
  return exposure == exposures_.end() || !exposure->second.receiving;
}

// --- sending ---------------------------------------------------------------------------------------------------------

UcxFabric::Pending& UcxFabric::add_pending(Link& link, const Head& head) {
  if (spare_.empty()) {
    pending_.emplace_back();
    spare_.push_back(&pending_.back());
  }
  Pending& pending = *spare_.back();
  spare_.pop_back();
  pending.link = &link;
  pending.head = head;
  ++link.pending;
  return pending;
}

void UcxFabric::remove(Pending& pending) {
  --pending.link->pending;
  pending = {};
  spare_.push_back(&pending);
}

void UcxFabric::send(Link& link, Head head, const void* data, size_t bytes, void* cookie,
                     std::shared_ptr<void> keeper) {
  head.token = link.theirs;
  head.from = rank_;
  head.number = link.sent++;
  Pending& pending = add_pending(link, head);
  pending.cookie = cookie;
  pending.keeper = std::move(keeper);
  pending.put = head.kind == Kind::put || head.kind == Kind::told;
  sending_.store(sending() + 1, std::memory_order_relaxed);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.cb.send = &UcxFabric::on_sent;
  param.user_data = &pending;
  param.flags = head.kind == Kind::put ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  if (head.kind == Kind::hello) param.flags |= UCP_AM_SEND_FLAG_REPLY;  // the peer is told what our endpoint is called
  const ucs_status_ptr_t request =
      worker_->lib.am_send_nbx(link.endpoint, kMessageId, &pending.head, sizeof pending.head, data, bytes, &param);
  // Otherwise on_sent() is called.
  if (request == nullptr || UCS_PTR_IS_ERR(request)) sent(pending, UCS_PTR_STATUS(request));
}

void UcxFabric::say(Link& link, Kind kind) {
  Head head{};
  head.kind = kind;
  send(link, head, nullptr, 0, nullptr, nullptr);
}

void UcxFabric::on_sent(void* request, ucs_status_t status, void* given) {
  Pending& pending = *static_cast<Pending*>(given);
  UcxFabric& fabric = *pending.link->fabric;
  fabric.worker_->lib.request_free(request);
  fabric.sent(pending, status);
}

void UcxFabric::sent(Pending& pending, ucs_status_t status) {
  Link& link = *pending.link;
  sending_.store(sending() - 1, std::memory_order_relaxed);
  // Canceled: the peer has dropped the data, because its receive has failed.
  const bool good = status == UCS_OK || (status == UCS_ERR_CANCELED && usable(link));
  if (!good && usable(link)) {
    fail(link, status);
    if (pending.put) link.failed_puts.push_back(pending.cookie);
  } else if (pending.put) {
    arrived_.push({Completion::Kind::put_done, good ? Error::none : link.error, link.peer, 0, 0, pending.cookie});
  }
  remove(pending);
}

void UcxFabric::commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) {
  if (peer == rank_) {
    arrived_.push({Completion::Kind::message, Error::none, peer, note, 0, nullptr});
  } else if (Link& link = links_[peer]; usable(link)) {
    Head head{};
    head.kind = Kind::message;
    head.value = note;
    head.offset = static_cast<uint32_t>(static_cast<const std::byte*>(written) - link.boxes->out);
    ++messages_;
    send(link, head, written, bytes, nullptr, nullptr);
  }
  if (cookie != nullptr) arrived_.push({Completion::Kind::write_done, Error::none, peer, 0, 0, cookie});
}

void UcxFabric::put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
                    void* cookie) {
  if (peer == rank_) {
    if (error == Error::none && from.bytes > 0)
      std::memmove(reinterpret_cast<void*>(static_cast<uintptr_t>(to.address)), from.data, from.bytes);
    arrived_.push({Completion::Kind::put_done, Error::none, peer, 0, 0, cookie});
    arrived_.push({Completion::Kind::immediate, error, peer, immediate, from.bytes, nullptr});
    return;
  }
  Link& link = links_[peer];
  if (!usable(link)) {
    arrived_.push({Completion::Kind::put_done, link.error, peer, 0, 0, cookie});
    return;
  }
  Head head{};
  head.kind = error == Error::none && from.bytes > 0 ? Kind::put : Kind::told;
  head.value = immediate;
  head.bytes = from.bytes;
  head.key = to.key;
  head.error = static_cast<uint8_t>(error);
  ++puts_;
  if (head.kind == Kind::told) {
    send(link, head, nullptr, 0, cookie, nullptr);
  } else {
    send(link, head, from.data, from.bytes, cookie, from.home != nullptr ? from.home->keeper : nullptr);
  }
}

// --- sleeping --------------------------------------------------------------------------------------------------------

// A network cannot count messages for us: any that comes wakes.
void UcxFabric::arm(Sleeper who, uint32_t /*need*/) {
  look_who_has_gone();
  parking_.arm(who);
  for (int i = 0; i < kArmings; ++i) {
    if (worker_->arm()) return;
    progress();
  }
  parking_.ring(who);
}

void UcxFabric::sleep(Sleeper who, uint32_t /*ticket*/, int64_t nanoseconds) {
  if (who == Sleeper::caller) ++parks_;
  sleep_at_most(parking_, who, nanoseconds, sending() > 0 ? kSleepWhileSending : kLongestSleep);
}

// --- the end ---------------------------------------------------------------------------------------------------------

void UcxFabric::announce_closed() {
  if (closed_) return;
  closed_ = true;
  for (Link& link : links_) {
    if (has_unread(link)) say(link, Kind::closed);
  }
  const int64_t limit = now_milliseconds() + kCloseMilliseconds;
  while (std::any_of(links_.begin(), links_.end(), has_unread) && now_milliseconds() < limit) {
    if (bootstrap_->called()) bootstrap_->forget_calls();
    look_who_has_gone();
    if (!worker_->progress()) sched_yield();
    handle_failures();
    arrived_.clear();
  }
  bootstrap_->close();
}

void UcxFabric::visit_counters(const CounterVisitor& visit) const {
  visit(Counter::ucx_messages, static_cast<double>(messages_));
  visit(Counter::ucx_puts, static_cast<double>(puts_));
  visit(Counter::events, static_cast<double>(parking_.events()));
  visit(Counter::parks, static_cast<double>(parks_));
  visit(Counter::peers_by_ucx, size_ - 1);
}

}  // namespace nbc::ucx
#endif
