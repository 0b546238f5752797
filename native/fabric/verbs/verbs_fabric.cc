#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/verbs_fabric.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <sched.h>

#include "fabric/clock.h"
#include "fabric/verbs/parcel.h"

namespace nbc::verbs {
namespace {

constexpr uint32_t kValueBits = kImmediateBits;
constexpr uint32_t kValueMask = (1u << kValueBits) - 1;
constexpr int kBatch = 32;  // completions polled at a time
constexpr int64_t kProbeMilliseconds = 1000;
constexpr int64_t kCloseMilliseconds = 3000;  // how long a closing rank waits until what it wrote has arrived
constexpr uint32_t kLooks = 64;               // looks for closed peers between two at the clock

uint32_t part_of(uint32_t all, uint32_t wanted, uint32_t eighths) {
  return std::max(std::min(wanted, all / 8 * eighths), 16u);
}

}  // namespace

VerbsFabric::Depths VerbsFabric::depths_of(const VerbsOptions& options, const ibv_device_attr& attributes, Rank peers) {
  const bool sends = options.eager == Eager::send;
  // A peer that sends more than it may can use all shared receives before it is found out; there is room for that, too.
  const uint32_t spare = sends ? SharedReceives::kChain : 0;
  const uint32_t completions = static_cast<uint32_t>(std::clamp(attributes.max_cqe, 128, 1 << 20)) - spare;
  const auto requests = static_cast<uint32_t>(std::max(attributes.max_qp_wr, 16));
  const uint32_t shared = SharedReceives::most(attributes);
  const uint32_t each = completions / std::max<Rank>(peers, 1);
  Depths depths{};
  depths.send = std::min(part_of(each, options.send_depth, 3), requests);
  depths.receive = part_of(each, sends ? options.share : options.receive_depth, 5);
  if (!sends) depths.receive = std::min(depths.receive, requests);
  depths.connections = std::min<uint32_t>(peers, completions / (depths.send + depths.receive));
  if (sends) {
    if (shared < depths.receive + spare)
      throw FabricError{
          "transport 'verbs', verbs.eager 'send': the device has too few shared receives; use verbs.eager 'write'"};
    depths.connections = std::min(depths.connections, (shared - spare) / depths.receive);
  }
  depths.completions = std::max(depths.connections, 1u) * (depths.send + depths.receive) + spare;
  return depths;
}

VerbsFabric::VerbsFabric(std::unique_ptr<Bootstrap> bootstrap, const VerbsOptions& options,
                         std::shared_ptr<ExposedMemory> exposed)
    : bootstrap_(std::move(bootstrap)),
      options_(options),
      rank_(bootstrap_->rank()),
      size_(bootstrap_->size()),
      device_(std::make_shared<Device>(options.device)),
      memory_(std::make_shared<Memory>(device_, std::move(exposed))),
      exposed_memory_(memory_),
      registrations_(device_, options.cache_entries, options.cache_bytes),
      depths_(depths_of(options, device_->attributes, size_ - 1)),
      mailboxes_(device_, size_ - 1, options.eager == Eager::send ? depths_.send : 0),
      parking_(device_, *bootstrap_),
      links_(size_) {
  if (options_.eager == Eager::send && size_ > 1)
    shared_ = std::make_unique<SharedReceives>(device_, depths_.connections * depths_.receive,
                                               sizeof(Header) + kCommitHead + options_.eager_limit, counters_);
  queue_ =
      device_->lib.create_cq(device_->context, static_cast<int>(depths_.completions), nullptr, parking_.channel(), 0);
  if (queue_ == nullptr) throw system_failure("transport 'verbs': creating the completion queue");
  parking_.watch(queue_);
}

VerbsFabric::~VerbsFabric() {
  announce_closed();
  links_.clear();
  parking_.acknowledge();
  device_->lib.destroy_cq(queue_);
}

// --- connections -----------------------------------------------------------------------------------------------------

Connect VerbsFabric::connect(Rank peer) {
  if (peer == rank_) {
    if (self_ == nullptr) self_ = std::make_unique<Box>();
    return Connect::ready;
  }
  return advance(peer, true);
}

// One step, if there is one to take. Without `wanted` only if the peer has asked.
Connect VerbsFabric::advance(Rank peer, bool wanted) {
  Link& link = links_[peer];
  if (link.verdict != Connect::later) return link.verdict;
  Card theirs;
  const CardState state = bootstrap_->look(peer, theirs);
  if (link.connection == nullptr && state == CardState::none && !wanted) return Connect::later;
  try {
    if (link.connection == nullptr) {
      if (connections_ == depths_.connections)
        throw FabricError{"this rank has " + std::to_string(connections_) +
                          " connections, as many as a completion queue of " + device_->name + " serves"};
      link.connection =
          std::make_unique<Connection>(peer, Equipment{device_, mailboxes_, queue_, shared_.get(), depths_.send,
                                                       depths_.receive, options_.most_inline, counters_});
      ++connections_;
      owners_[link.connection->number()] = peer;
      bootstrap_->publish(peer, link.connection->card(options_.eager_limit), CardState::offered);
    }
    if (state == CardState::none) {
      link.why = bootstrap_->refusal(peer);
      return link.why.empty() ? Connect::later : link.verdict = Connect::refused;
    }
    if (!fits(theirs, link)) return link.verdict = Connect::refused;
    Connection& connection = *link.connection;
    if (connection.state == Connection::State::offered) {
      connection.connect(theirs, options_.timeout, options_.retries, options_.receiver_retries);
      bootstrap_->publish(peer, connection.card(options_.eager_limit), CardState::ready);
    }
    if (state == CardState::ready) {
      connection.state = Connection::State::ready;
      link.verdict = Connect::ready;
    }
  } catch (const FabricError& error) {
    link.why = error.message;
    link.verdict = Connect::broken;
  }
  return link.verdict;
}

// Whether the two may talk; if not, the link says why.
bool VerbsFabric::fits(const Card& theirs, Link& link) const {
  const auto differ = [&](const char* option, const std::string& there, const std::string& here) {
    link.why = other_setting(link.connection->peer, option, there, here);
    return false;
  };
  if (theirs.eager_limit != options_.eager_limit)
    return differ("eagerLimit", std::to_string(theirs.eager_limit), std::to_string(options_.eager_limit));
  if (theirs.eager != options_.eager)
    return differ("verbs.eager", std::string("'") + name_of(theirs.eager) + "'",
                  std::string("'") + name_of(options_.eager) + "'");
  return true;
}

void VerbsFabric::answer_calls() {
  bootstrap_->forget_calls();
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer != rank_) advance(peer, false);
  }
}

Connection* VerbsFabric::ready(Rank peer) {
  Connection* connection = links_[peer].connection.get();
  return connection != nullptr && connection->state == Connection::State::ready ? connection : nullptr;
}

Mailbox VerbsFabric::outbox(Rank peer) {
  return mailbox_at(peer == rank_ ? self_->bytes : links_[peer].connection->place.outbox);
}

Mailbox VerbsFabric::inbox(Rank peer) {
  return mailbox_at(peer == rank_ ? self_->bytes : links_[peer].connection->place.inbox);
}

bool VerbsFabric::has_closed(Rank peer) {
  if (peer == rank_) return closed_;
  if (++looks_ % kLooks == 0) probe();
  const Link& link = links_[peer];
  // One that closed has said so behind everything else.
  if (advance(peer, false) == Connect::ready) return link.connection->peer_closed;
  return link.verdict == Connect::later && bootstrap_->standing(peer) == Standing::gone;
}

void VerbsFabric::abandon(Rank peer) {
  if (links_[peer].connection != nullptr) break_off(links_[peer], Error::peer_closed, "the peer has closed its world");
}

void VerbsFabric::reject(Rank peer, const std::string& why) {
  if (links_[peer].connection != nullptr) break_off(links_[peer], Error::unreachable, why);
}

void VerbsFabric::break_off(Link& link, Error error, const std::string& why) {
  Connection& connection = *link.connection;
  if (connection.state == Connection::State::broken) return;
  if (connection.peer_closed || bootstrap_->is_ending(connection.peer)) error = Error::peer_closed;
  link.why = "the connection to rank " + std::to_string(connection.peer) + " of the world broke: " + why;
  link.verdict = error == Error::peer_closed ? Connect::closed : Connect::broken;
  connection.stop();
  if (connection.probing) --awaited_;
  connection.probing = false;
  for (size_t i = 0; i < connection.puts.size(); ++i) finish(connection.puts[i], connection.peer, error);
  connection.puts.clear();
  arrived_.push({Completion::Kind::broken, error, connection.peer, 0, 0, nullptr});
}

void VerbsFabric::probe() {
  const int64_t now = now_milliseconds();
  if (now - probed_ < kProbeMilliseconds) return;
  probed_ = now;
  registrations_.drop_expired();
  for (Link& link : links_) {
    Connection* connection = link.connection.get();
    if (connection == nullptr || connection->state != Connection::State::ready) continue;
    if (!connection->heard && bootstrap_->standing(connection->peer) == Standing::gone) {
      // What it wrote before comes first; it may have said good-bye.
      while (collect() > 0) {
      }
      if (!connection->peer_closed) break_off(link, Error::peer_closed, "its process has ended");
    } else if (!connection->heard && !connection->probing) {
      connection->probing = true;
      ++awaited_;
      ++counters_.probes;
      Work work;
      work.to = connection->theirs.inbox;
      work.remote_key = connection->theirs.inbox_key;
      work.signalled = true;
      queue_work(*connection, work);
    }
    connection->heard = false;
  }
}

// --- buffers ---------------------------------------------------------------------------------------------------------

bool VerbsFabric::expose(Rank, const LocalBuffer& buffer, ExposedBuffer& out) {
  out = {reinterpret_cast<uintptr_t>(buffer.data), 0, nullptr};
  if (buffer.bytes == 0) return true;
  if (const ibv_mr* mr = memory_->find(buffer.data, buffer.bytes); mr != nullptr) {
    out.key = mr->rkey;
    return true;
  }
  Registration* registration = registrations_.acquire(buffer);
  if (registration == nullptr) return false;
  out.key = registration->mr->rkey;
  out.holder = registration;
  return true;
}

void VerbsFabric::conceal(Rank, const ExposedBuffer& buffer) {
  if (buffer.holder != nullptr) registrations_.release(static_cast<Registration*>(buffer.holder));
}

// --- sending ---------------------------------------------------------------------------------------------------------

void VerbsFabric::queue_work(Connection& connection, const Work& work) {
  connection.queue.push(work);
  touch(connection);
}

// It has something to post.
void VerbsFabric::touch(Connection& connection) {
  if (connection.dirty) return;
  connection.dirty = true;
  dirty_.push_back(&connection);
}

void VerbsFabric::commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) {
  if (peer == rank_) {
    arrived_.push({Completion::Kind::message, Error::none, peer, note, 0, nullptr});
  } else if (Connection* connection = ready(peer); connection != nullptr) {
    queue_work(*connection,
               connection->mail(static_cast<const std::byte*>(written), bytes, kMessage << kValueBits | note));
  }
  if (cookie != nullptr) arrived_.push({Completion::Kind::write_done, Error::none, peer, 0, 0, cookie});
}

void VerbsFabric::queue_failure(Connection& connection, uint32_t immediate, Error error, uint64_t bytes) {
  const size_t at = kControlBytes + links_[connection.peer].failures_sent++ % kNotes * sizeof(Note);
  const Note note{bytes, static_cast<uint32_t>(error), 0};
  std::memcpy(connection.place.outbox + at, &note, sizeof note);
  Work work = connection.mail(connection.place.outbox + at, sizeof note, kFailed << kValueBits | immediate);
  work.signalled = work.ends_put = true;
  queue_work(connection, work);
}

void VerbsFabric::put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
                      void* cookie) {
  if (peer == rank_) {
    if (error == Error::none && from.bytes > 0)
      std::memmove(reinterpret_cast<void*>(static_cast<uintptr_t>(to.address)), from.data, from.bytes);
    arrived_.push({Completion::Kind::put_done, Error::none, peer, 0, 0, cookie});
    arrived_.push({Completion::Kind::immediate, error, peer, immediate, from.bytes, nullptr});
    return;
  }
  Connection* connection = ready(peer);
  if (connection == nullptr) {
    const Error why = links_[peer].verdict == Connect::closed ? Error::peer_closed : Error::unreachable;
    arrived_.push({Completion::Kind::put_done, why, peer, 0, 0, cookie});
    return;
  }
  Put put;
  put.cookie = cookie;
  uint32_t local_key = 0;
  if (error == Error::none && from.bytes > 0) {
    if (const ibv_mr* mr = memory_->find(from.data, from.bytes); mr != nullptr) {
      local_key = mr->lkey;
    } else if ((put.registration = registrations_.acquire(from)) != nullptr) {
      local_key = put.registration->mr->lkey;
    } else {
      // The receiver waits for this: it learns that nothing comes.
      arrived_.push({Completion::Kind::put_done, Error::memory, peer, 0, 0, cookie});
      put.cookie = nullptr;
      error = Error::system;
    }
  }
  ++awaited_;
  connection->puts.push(put);
  if (error != Error::none) return queue_failure(*connection, immediate, error, from.bytes);
  const size_t longest = std::min<size_t>(device_->longest_message(), size_t{1} << 30);
  size_t at = 0;
  do {
    const size_t length = std::min(longest, from.bytes - at);
    Work work;
    work.from = from.data + at;
    work.bytes = static_cast<uint32_t>(length);
    work.local_key = local_key;
    work.to = to.address + at;
    work.remote_key = to.key;
    at += length;
    if (at == from.bytes) {
      work.immediate = kPut << kValueBits | immediate;
      work.verb = Verb::announced_write;
      work.signalled = work.ends_put = true;
    }
    queue_work(*connection, work);
  } while (at < from.bytes);
}

void VerbsFabric::flush() {
  if (dirty_.empty()) return;
  size_t kept = 0;
  for (Connection* connection : dirty_) {
    if (!connection->post())
      break_off(links_[connection->peer], Error::unreachable,
                std::string("the device refused a write: ") + std::strerror(errno));
    // What finds no room now is posted when a completion has made some, or a peer has returned credits.
    connection->dirty = connection->has_more();
    if (connection->dirty) dirty_[kept++] = connection;
  }
  dirty_.resize(kept);
  // What the last look before sleeping has left to post, or started, ends with completions that are not solicited.
  if ((kept > 0 || awaited_ > 0) && parking_.is_armed()) parking_.arm_for_any();
}

// --- completions -----------------------------------------------------------------------------------------------------

unsigned VerbsFabric::poll(Completion* out, unsigned max, Effort /*effort*/) {
  if (bootstrap_->called()) answer_calls();
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
  const int count = ibv_poll_cq(queue_, kBatch, batch);
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
  link.connection->heard = true;
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
    case kFailed: {
      Note note;
      const size_t at = kControlBytes + link.failures_received++ % kNotes * sizeof note;
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
    const bool device = event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR;
    const bool pair = event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_REQ_ERR ||
                      event.event_type == IBV_EVENT_QP_ACCESS_ERR;
    const ibv_qp* which = event.element.qp;
    // A queue pair cannot be destroyed before its events are acknowledged. A port that went down may come back within
    // the retries.
    device_->lib.ack_async_event(&event);
    for (Link& link : links_) {
      if (link.connection != nullptr && (device || (pair && link.connection->owns(which))))
        break_off(link, Error::unreachable, device_->name + " reports: " + name);
    }
  }
}

// --- sleeping --------------------------------------------------------------------------------------------------------

// A network cannot count messages for us: any that comes wakes.
void VerbsFabric::arm(Sleeper who, uint32_t /*need*/) {
  probe();
  flush();
  // Only what peers send is solicited. The end of our own writes wakes nobody, unless somebody waits for it.
  parking_.arm(who, awaited_ > 0 || !dirty_.empty());
}

void VerbsFabric::sleep(Sleeper who, uint32_t /*ticket*/, int64_t nanoseconds) {
  if (who == Sleeper::caller) ++counters_.parks;
  // Not longer than until the next probe is due.
  constexpr int64_t kLongest = kProbeMilliseconds * 1'000'000;
  if (nanoseconds < 0 || nanoseconds > kLongest) nanoseconds = kLongest;
  parking_.sleep(who, nanoseconds);
}

// --- the end ---------------------------------------------------------------------------------------------------------

void VerbsFabric::announce_closed() {
  if (closed_) return;
  closed_ = true;
  for (Link& link : links_) {
    Connection* connection = link.connection.get();
    if (connection == nullptr || connection->state != Connection::State::ready || connection->peer_closed) continue;
    Work work = connection->mail(connection->place.outbox, 0, kClosed << kValueBits);
    work.signalled = true;
    queue_work(*connection, work);
  }
  flush();
  // Destroying a queue pair would take back what is still on its way. A peer that has closed, too, needs nothing any
  // more.
  const int64_t limit = now_milliseconds() + kCloseMilliseconds;
  const auto pending = [&] {
    return std::any_of(links_.begin(), links_.end(), [](const Link& link) {
      const Connection* c = link.connection.get();
      return c != nullptr && c->state == Connection::State::ready && !c->peer_closed &&
             (c->posted != c->completed || c->dirty);
    });
  };
  while (pending() && now_milliseconds() < limit) {
    if (collect() == 0) sched_yield();
    arrived_.clear();
  }
  bootstrap_->close();
}

void VerbsFabric::visit_counters(const CounterVisitor& visit) const {
  const auto add = [&](Counter counter, uint64_t value) { visit(counter, static_cast<double>(value)); };
  const RegistrationCounters& cache = registrations_.counters();
  add(Counter::work_requests, counters_.work_requests);
  add(Counter::chains, counters_.chains);
  add(Counter::inlined_writes, counters_.inlined);
  add(Counter::signalled_writes, counters_.signalled);
  add(Counter::sends, counters_.sends);
  add(Counter::credit_messages, counters_.credit_messages);
  add(Counter::credits_returned, counters_.credits_returned);
  add(Counter::credit_waits, counters_.credit_waits);
  add(Counter::receives_refilled, counters_.receives_refilled);
  add(Counter::events, parking_.events());
  add(Counter::parks, counters_.parks);
  add(Counter::probes, counters_.probes);
  add(Counter::cache_hits, cache.hits);
  add(Counter::cache_misses, cache.misses);
  add(Counter::cache_evictions, cache.evictions);
  add(Counter::cache_expired, cache.expired);
  add(Counter::cache_stale, cache.stale);
}

}  // namespace nbc::verbs
#endif
