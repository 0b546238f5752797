#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/verbs_fabric.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sched.h>

#include "fabric/clock.h"

namespace nbc::verbs {
namespace {

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
  depths.spare = spare;
  return depths;
}

VerbsFabric::VerbsFabric(std::unique_ptr<cards::Bootstrap> bootstrap, const VerbsOptions& options,
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
      connecting_(device_->lib.modify_qp, options.connect_milliseconds),
      parking_(device_, *bootstrap_, {&connecting_, &registrations_.beside()}),
      // The ranks of a machine use the interrupts of their device in turns.
      queue_(device_, depths_.completions(1), depths_.completions(std::max(depths_.connections, 1u)),
             parking_.channel(),
             static_cast<int>(options.device.turn) % std::max(device_->context->num_comp_vectors, 1)),
      links_(size_) {
  if (options_.eager == Eager::send && size_ > 1)
    shared_ = std::make_unique<SharedReceives>(device_, depths_.connections * depths_.receive,
                                               sizeof(Header) + kCommitHead + options_.eager_limit, counters_);
  parking_.watch(queue_.get());
}

VerbsFabric::~VerbsFabric() {
  announce_closed();
  connecting_.stop();
  links_.clear();
  parking_.acknowledge();
}

// --- buffers ---------------------------------------------------------------------------------------------------------

bool VerbsFabric::prepare(Rank peer, const LocalBuffer& buffer, bool sends) {
  if (peer == rank_ || buffer.bytes == 0 || memory_->find(buffer.data, buffer.bytes) != nullptr) return true;
  return registrations_.prepare(buffer, sends ? Registrations::Use::sends : Registrations::Use::exposed);
}

bool VerbsFabric::expose(Rank, const LocalBuffer& buffer, ExposedBuffer& out) {
  out = {reinterpret_cast<uintptr_t>(buffer.data), 0, nullptr};
  if (buffer.bytes == 0) return true;
  if (const ibv_mr* mr = memory_->find(buffer.data, buffer.bytes); mr != nullptr) {
    out.key = mr->rkey;
    return true;
  }
  Registration* registration = registrations_.acquire(buffer, Registrations::Use::exposed);
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
  unflushed_ = true;
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

void VerbsFabric::queue_note(Connection& connection, uint32_t immediate, Error error, uint64_t bytes) {
  const size_t at = kControlBytes + links_[connection.peer].notes_sent++ % kNotes * sizeof(Note);
  const Note note{bytes, static_cast<uint32_t>(error), 0};
  std::memcpy(connection.place.outbox + at, &note, sizeof note);
  Work work = connection.mail(connection.place.outbox + at, sizeof note, kNoted << kValueBits | immediate);
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
  if (error == Error::none && !prepare(peer, from, true)) {
    unregistered_.push_back({peer, to, from, *from.home, immediate, cookie});
    return;
  }
  Put put;
  put.cookie = cookie;
  put.bytes = from.bytes;
  uint32_t local_key = 0;
  if (error == Error::none && from.bytes > 0) {
    if (const ibv_mr* mr = memory_->find(from.data, from.bytes); mr != nullptr) {
      local_key = mr->lkey;
    } else if ((put.registration = registrations_.acquire(from, Registrations::Use::sends)) != nullptr) {
      local_key = put.registration->mr->lkey;
    } else {
      // The receiver waits for this: it learns that nothing comes.
      error = Error::memory;
      arrived_.push({Completion::Kind::put_done, error, peer, 0, 0, cookie});
      put.cookie = nullptr;
    }
  }
  ++awaited_;
  connection->puts.push(put);
  if (error != Error::none) return queue_note(*connection, immediate, error, from.bytes);
  const size_t longest = std::min<size_t>(device_->longest_message(), size_t{1} << 30);
  const bool whole = from.bytes <= longest;
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
    if (at == from.bytes && whole) {
      work.immediate = kPut << kValueBits | immediate;
      work.verb = Verb::announced_write;
      work.signalled = work.ends_put = true;
    }
    queue_work(*connection, work);
  } while (at < from.bytes);
  // The immediate of the last write would tell the length of that one only.
  if (!whole) queue_note(*connection, immediate, Error::none, from.bytes);
}

// Those whose registration is there, or could not be made.
void VerbsFabric::start_registered() {
  for (const Unregistered& waited : std::exchange(unregistered_, {}))
    put(waited.peer, waited.to, {waited.from.data, waited.from.bytes, &waited.home}, waited.immediate, Error::none,
        waited.cookie);
}

void VerbsFabric::drop_unregistered(Rank peer, Error error) {
  std::erase_if(unregistered_, [&](const Unregistered& put) {
    if (put.peer == peer) arrived_.push({Completion::Kind::put_done, error, peer, 0, 0, put.cookie});
    return put.peer == peer;
  });
}

void VerbsFabric::flush() {
  unflushed_ = false;
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

// --- sleeping --------------------------------------------------------------------------------------------------------

// A network cannot count messages for us: any that comes wakes.
void VerbsFabric::arm(Sleeper who, uint32_t /*need*/) {
  probe();
  flush();
  // Only what peers send is solicited. The end of our own writes wakes no thread, unless it is awaited.
  parking_.arm(who, awaited_ > 0 || !dirty_.empty());
}

void VerbsFabric::sleep(Sleeper who, uint32_t /*ticket*/, int64_t nanoseconds) {
  if (who == Sleeper::caller) ++counters_.parks;
  // Until the next probe is due. With nothing pending the queue is not armed, and a receiver that has failed may have
  // revoked its RTR.
  sleep_at_most(parking_, who, nanoseconds, kProbeMilliseconds * 1'000'000);
}

// --- the end ---------------------------------------------------------------------------------------------------------

void VerbsFabric::announce_closed() {
  if (closed_) return;
  closed_ = true;
  for (Link& link : links_) {
    Connection* connection = link.connection.get();
    if (connection == nullptr || connection->state != Connection::State::ready || connection->peer_closed) continue;
    Work work =
        connection->mail(connection->place.outbox, 0, kClosed << kValueBits | (connection->arrivals & kValueMask));
    work.signalled = true;
    queue_work(*connection, work);
  }
  flush();
  // Destroying a queue pair would take back what is still on its way. A peer that has closed, too, needs nothing any
  // more.
  const int64_t limit = now_milliseconds() + options_.close_milliseconds;
  const auto pending = [&] {
    return std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
      const Connection* c = link.connection.get();
      return c != nullptr && c->state == Connection::State::ready && !c->peer_closed &&
             (c->posted != c->completed || c->dirty) && bootstrap_->standing(c->peer) < cards::Standing::gone;
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
  add(Counter::peers_by_verbs, size_ - 1);
  add(Counter::probes, counters_.probes);
  add(Counter::cache_hits, cache.hits);
  add(Counter::cache_misses, cache.misses);
  add(Counter::cache_evictions, cache.evictions);
  add(Counter::cache_expired, cache.expired);
  add(Counter::cache_stale, cache.stale);
  add(Counter::cache_beside, cache.beside);
}

}  // namespace nbc::verbs
#endif
