#include "fabric/shm/shm_fabric.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

namespace nbc::shm {
namespace {

// Whether the kernel lets this process use cross-memory attach at all: a filter that forbids it forbids it on
// ourselves, too.
bool attach_works(const uint64_t& word) {
  uint64_t copy = 0;
  const iovec local{&copy, sizeof copy};
  const iovec remote{const_cast<uint64_t*>(&word), sizeof copy};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof copy) && copy == word;
}

FabricError no_sockets() { return system_failure("no sockets for ranks to wake one another"); }

}  // namespace

ShmFabric::ShmFabric(std::shared_ptr<Segment> segment, const ShmOptions& options, Opening opening)
    : segment_(std::move(segment)),
      options_(options),
      arena_(std::make_shared<Arena>(segment_, options.rank, options.exposed_bytes)),
      memory_(arena_),
      bulk_(segment_, arena_, options.rank, options.find_kernel),
      probe_(std::make_unique<uint64_t>()),
      uncommitted_(segment_->size(), 0) {
  // Where hosts are named, peers may sleep on sockets, and must not be left asleep because there are no more
  // descriptors by then.
  if (!options_.host.empty() && !caller_.prepare()) throw no_sockets();
  using namespace job;
  segment_->reserve_mailboxes(options_.rank);
  claim(*segment_, options_.rank, options_.eager_limit, kBySharedMemory | (options_.by_host ? kOnSameHostOnly : 0),
        options_.host);
  RankLine& line = segment_->line(options_.rank);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  *probe_ = (static_cast<uint64_t>(now.tv_nsec) << 32) ^ static_cast<uint64_t>(now.tv_sec) ^
            (static_cast<uint64_t>(getpid()) << 20) ^ options_.rank;
  line.probe_address = reinterpret_cast<uintptr_t>(probe_.get());
  line.probe_value = *probe_;
  options_.cross_memory = options_.cross_memory && attach_works(*probe_);
  line.attaches = options_.cross_memory ? 1 : 0;
  segment_->enter(options_.rank);
  if (opening == Opening::now) open(false, {});
}

void ShmFabric::open(bool far, const std::string& why_not_far) {
  why_not_far_ = why_not_far;
  if (far) segment_->line(options_.rank).reach |= job::kByNetwork;
  job::announce_open(*segment_, options_.rank);
  // A peer that waits for this rank to appear sleeps with need = 1; the same fence as for a message (F2 in doorbell.h).
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Rank peer : segment_->members())
    job::wake(*segment_, peer, doorbell_count(segment_->line(peer).bell, 1), caller_);
}

ShmFabric::~ShmFabric() {
  announce_closed();
  segment_->leave();
}

void ShmFabric::announce_closed() { job::announce_closed(*segment_, rank(), caller_); }

void ShmFabric::alarm(Rank peer) {
  segment_->line(peer).alarms.fetch_add(1, std::memory_order_release);  // pairs with the acquire in alarmed()
  count(peer);
}

bool ShmFabric::alarmed() {
  const std::atomic<uint32_t>& alarms = segment_->line(options_.rank).alarms;
  if (alarms.load(std::memory_order_relaxed) == alarms_) return false;
  alarms_ = alarms.load(std::memory_order_acquire);  // what was written before the alarm is there
  return true;
}

Crowd ShmFabric::crowd() const { return job::crowd_of(*segment_); }

void ShmFabric::visit_counters(const CounterVisitor& visit) const {
  const auto add = [&](Counter counter, uint64_t value) { visit(counter, static_cast<double>(value)); };
  const BulkCounters& bulk = bulk_.counters();
  add(Counter::mapped_bytes, bulk.mapped_bytes);
  add(Counter::cross_memory_bytes, bulk.cross_memory_bytes);
  add(Counter::staged_bytes, bulk.staged_bytes);
  add(Counter::helped_pieces, bulk.helped_pieces);
  add(Counter::combined_bytes, bulk.combined_bytes);
  uint64_t peers = 0;
  for (const Rank peer : segment_->members()) peers += peer != rank() && route_to(peer) == Route::shared_memory ? 1 : 0;
  add(Counter::peers_by_memory, peers);
  add(Counter::doorbells, counters_.doorbells);
  add(Counter::parks, counters_.parks);
}

Connect ShmFabric::connect(Rank peer) { return connect(peer, route_to(peer)); }

Connect ShmFabric::connect(Rank peer, Route route) {
  if (rejected_.count(peer) > 0) return Connect::broken;
  if (job::is_elsewhere(*segment_, peer)) return Connect::refused;
  if (route == Route::unknown) return job::never_opens(*segment_, peer) ? Connect::closed : Connect::later;
  const RankLine& line = segment_->line(peer);
  if (line.eager_limit != options_.eager_limit || (line.reach & job::kBySharedMemory) == 0) return Connect::refused;
  if (route != Route::shared_memory) return Connect::broken;
  bulk_.open(peer, options_.cross_memory);
  return Connect::ready;
}

// Only asked where connect() said that there is a reason.
std::string ShmFabric::why(Rank peer) const {
  if (const auto rejected = rejected_.find(peer); rejected != rejected_.end())
    return "rank " + std::to_string(peer) + " of the world: " + rejected->second;
  const RankLine& line = segment_->line(peer);
  if (job::is_elsewhere(*segment_, peer) || line.eager_limit == options_.eager_limit)
    return job::why_no_route(*segment_, rank(), peer, why_not_far_);
  return other_setting(peer, "eagerLimit", std::to_string(line.eager_limit), std::to_string(options_.eager_limit));
}

Route ShmFabric::route_to(Rank peer) const {
  return job::has_opened(*segment_, peer) ? job::route_between(*segment_, rank(), peer) : Route::unknown;
}

void ShmFabric::open_sockets() {
  if (!socket_of(Sleeper::caller).open(*segment_, rank(), job::Call::caller) ||
      !socket_of(Sleeper::progress).open(*segment_, rank(), job::Call::progress))
    throw no_sockets();
}

bool ShmFabric::has_closed(Rank peer) { return job::has_closed(*segment_, peer) || is_lost(peer); }

bool ShmFabric::is_lost(Rank peer) const { return job::is_lost(*segment_, peer) || (peer != rank() && is_given_up()); }

void ShmFabric::abandon(Rank peer) {
  if (job::is_lost(*segment_, peer))
    reject(peer, "it did not answer for as long as option peerTimeout says; its process may be stopped");
  bulk_.abandon(peer);
}

bool ShmFabric::expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) {
  const bool in_arena = arena_->contains(buffer.data);
  out.address = in_arena ? arena_->offset_of(buffer.data) : reinterpret_cast<uintptr_t>(buffer.data);
  out.key = key_of(bulk_.revocations(peer), in_arena);
  return true;
}

bool ShmFabric::expose_combining(Rank peer, const LocalBuffer& buffer, const Combining& how, ExposedBuffer& out) {
  if (buffer.bytes < kCombineFrom) return false;
  expose(peer, buffer, out);
  bulk_.take(peer, out, buffer.bytes, how);
  return true;
}

// A peer that has closed, or died, is in the middle of nothing. One that was given up may be in the middle of a copy.
bool ShmFabric::revoke(Rank peer, const ExposedBuffer& buffer, size_t bytes, Error why, uint64_t told) {
  return bulk_.revoke(peer, buffer, bytes, why, told, [this](Rank rank) { count(rank); }) ||
         job::has_closed(*segment_, peer);
}

void ShmFabric::retract(Rank peer, void* cookie, Error error, uint64_t told) {
  bulk_.retract(peer, cookie, error, told, [this](Rank rank) { count(rank); });
}

void ShmFabric::count(Rank peer) {
  if (uncommitted_[peer]++ == 0) dirty_.push_back(peer);
}

void ShmFabric::flush() {
  if (dirty_.empty()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // F2 in doorbell.h, once for all peers
  for (const Rank peer : dirty_) {
    if (const Armed armed = doorbell_count(segment_->line(peer).bell, uncommitted_[peer])) {
      ++counters_.doorbells;
      job::wake(*segment_, peer, armed, caller_);
    }
    uncommitted_[peer] = 0;
  }
  dirty_.clear();
}

void ShmFabric::put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
                    void* cookie) {
  Put put{};
  put.peer = peer;
  put.to = to;
  put.from = from.data;
  put.bytes = error == Error::none ? from.bytes : 0;
  put.told = from.bytes;
  put.immediate = immediate;
  put.error = error;
  put.cookie = cookie;
  bulk_.put(put);
}

unsigned ShmFabric::poll(Completion* out, unsigned max, Effort effort) {
  return bulk_.poll(out, max, effort, [this](Rank peer) { count(peer); });
}

int ShmFabric::open_loop() {
  loop_pipe_.open(*segment_, rank());
  return loop_pipe_.descriptor();
}

void ShmFabric::note_processor() {
  const uint32_t now = static_cast<uint32_t>(sched_getcpu()) + 1;  // a failure becomes 0
  if (now == processor_) return;
  processor_ = now;
  segment_->line(rank()).processor.store(now, std::memory_order_relaxed);
}

bool ShmFabric::shares_processor(Rank peer) const {
  const uint32_t there = segment_->line(peer).processor.load(std::memory_order_relaxed);
  return there != 0 && there == static_cast<uint32_t>(sched_getcpu()) + 1;
}

void ShmFabric::sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) {
  if (who == Sleeper::caller) ++counters_.parks;
  doorbell_sleep(bell(), who, ticket, nanoseconds);
}

}  // namespace nbc::shm
