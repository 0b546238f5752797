#include "job/presence.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/random.h>
#include <unistd.h>

#include "processor_set.h"

namespace nbc::job {
namespace {

bool same_host(const RankLine& one, const RankLine& other) { return std::strcmp(one.host, other.host) == 0; }

std::string host_of(const RankLine& line) {
  return line.host[0] == 0 ? "a host without a name (NBC_HOST is not set)" : "host '" + std::string(line.host) + "'";
}

}  // namespace

void claim(const Segment& segment, Rank rank, uint32_t eager_limit, uint32_t reach, const std::string& host) {
  if (host.size() >= kHostBytes)
    throw FabricError{"NBC_HOST: the name of a host has " + std::to_string(kHostBytes - 1) + " bytes at most"};
  RankLine& line = segment.line(rank);
  RankState now = RankState::absent;
  // acquire: of two processes that try, the second sees the first one's claim and writes nothing. A rank that was
  // elsewhere may try again with shared memory.
  while (!line.state.compare_exchange_weak(now, RankState::claimed, std::memory_order_acquire)) {
    if (now != RankState::absent && now != RankState::elsewhere)
      throw FabricError{"rank " + std::to_string(rank) + " of this job has already been opened"};
  }
  line.pid = getpid();
  line.eager_limit = eager_limit;
  line.reach = reach;
  if (getrandom(line.key, sizeof line.key, 0) != static_cast<ssize_t>(sizeof line.key))
    throw system_failure("no random numbers (getrandom)", errno);
  std::memcpy(line.host, host.c_str(), host.size() + 1);
  const ProcessorSet allowed = ProcessorSet::allowed();
  const ProcessorSet processors = allowed.count() > 0 ? allowed : ProcessorSet(0);
  for (uint32_t cpu = 0; cpu < kProcessorWords * 64; ++cpu) {
    if (processors.has(cpu)) line.processors[cpu / 64] |= uint64_t{1} << cpu % 64;
  }
}

void announce_open(const Segment& segment, Rank rank) {
  // release: the line before the state; pairs with the acquires of those who read it
  segment.line(rank).state.store(RankState::open, std::memory_order_release);
}

bool has_opened(const Segment& segment, Rank rank) {
  const RankState state = segment.line(rank).state.load(std::memory_order_acquire);  // pairs with announce_open()
  return state == RankState::open || state == RankState::closed || state == RankState::lost;
}

namespace {

// After a change of a rank's state: everybody looks.
void wake_all(const Segment& segment, RankCaller& caller) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // F2 in doorbell.h
  for (const Rank peer : segment.members()) {
    RankLine& line = segment.line(peer);
    wake(segment, peer, shm::doorbell_take(line.bell), caller);
    // A rank that is on a network only sleeps on its sockets, and looks at this count.
    if (!has_opened(segment, peer) || (line.reach & kBySharedMemory) != 0) continue;
    line.calls.fetch_add(1, std::memory_order_release);  // pairs with the acquire in HostBootstrap::called()
    caller.call(segment, peer, Call::bootstrap);
  }
}

}  // namespace

void announce_elsewhere(const Segment& segment, Rank rank, RankCaller& caller) {
  RankState now = RankState::absent;
  // release: pairs with the acquire in is_elsewhere()
  if (segment.line(rank).state.compare_exchange_strong(now, RankState::elsewhere, std::memory_order_acq_rel))
    wake_all(segment, caller);
}

bool is_elsewhere(const Segment& segment, Rank rank) {
  return segment.line(rank).state.load(std::memory_order_acquire) == RankState::elsewhere;
}

void announce_closed(const Segment& segment, Rank rank, RankCaller& caller) {
  std::atomic<RankState>& state = segment.line(rank).state;
  RankState now = state.load(std::memory_order_acquire);
  // release: everything the rank wrote before; pairs with the acquire in has_closed()
  do {
    if (now == RankState::closed || now == RankState::never) return;
  } while (!state.compare_exchange_weak(
      now, now == RankState::open || now == RankState::lost ? RankState::closed : RankState::never,
      std::memory_order_acq_rel));
  wake_all(segment, caller);
}

bool announce_lost(const Segment& segment, Rank rank, RankCaller& caller) {
  RankState now = RankState::open;
  // release: pairs with the acquire in is_lost()
  if (!segment.line(rank).state.compare_exchange_strong(now, RankState::lost, std::memory_order_acq_rel)) return false;
  wake_all(segment, caller);
  return true;
}

bool is_lost(const Segment& segment, Rank rank) {
  return segment.line(rank).state.load(std::memory_order_acquire) == RankState::lost;  // pairs with announce_lost()
}

bool has_closed(const Segment& segment, Rank rank) {
  const RankState state = segment.line(rank).state.load(std::memory_order_acquire);  // pairs with announce_closed()
  return state == RankState::closed || state == RankState::never;
}

bool never_opens(const Segment& segment, Rank rank) {
  return segment.line(rank).state.load(std::memory_order_acquire) == RankState::never;
}

void wake(const Segment& segment, Rank rank, shm::Armed armed, RankCaller& caller) {
  if (!armed) return;
  if (armed.who == Sleeper::loop) {
    // Where its pipe cannot be reached, the progress thread of that rank takes over.
    const bool called = caller.call_loop(segment, rank);
    if (!called || armed.progress_too) shm::doorbell_wake(segment.line(rank).bell, Sleeper::progress);
  } else if (armed.on_socket) {
    caller.call(segment, rank, armed.who == Sleeper::progress ? Call::progress : Call::caller);
  } else {
    shm::doorbell_wake(segment.line(rank).bell, armed.who);
  }
}

Route route_between(const Segment& segment, Rank one, Rank other) {
  if (one == other) return Route::shared_memory;
  const RankLine& a = segment.line(one);
  const RankLine& b = segment.line(other);
  const uint32_t both = a.reach & b.reach;
  if ((both & kBySharedMemory) != 0 && (((a.reach | b.reach) & kOnSameHostOnly) == 0 || same_host(a, b)))
    return Route::shared_memory;
  return (both & kByNetwork) != 0 ? Route::network : Route::none;
}

std::string why_no_route(const Segment& segment, Rank self, Rank peer, const std::string& mine) {
  const RankLine& here = segment.line(self);
  const RankLine& there = segment.line(peer);
  const std::string name = "rank " + std::to_string(peer) + " of the world";
  if (is_elsewhere(segment, peer))
    return name + " runs with transport 'tcp', and this rank without; it must be the same on all ranks";
  if ((here.reach & there.reach & kBySharedMemory) == 0)
    return name +
           " and this rank run with different transports: one uses shared memory, the other only a network; it must be "
           "the same on all ranks";
  std::string text = name + " is on " + host_of(there) + ", this rank on " + host_of(here) +
                     ", and to reach other hosts both need an active verbs device: ";
  if ((here.reach & kByNetwork) == 0) text += "this rank has none (" + mine + ")";
  if (((here.reach | there.reach) & kByNetwork) == 0) text += ", ";
  if ((there.reach & kByNetwork) == 0) text += "rank " + std::to_string(peer) + " has none";
  return text +
         ". Give both a device whose port is active (ibv_devinfo shows them) and an NBC_HOST, or, on one machine, "
         "start all ranks with the same NBC_HOST or with transport 'shm'";
}

Crowd crowd_of(const Segment& segment) {
  uint64_t together[kProcessorWords] = {};
  Crowd crowd{static_cast<Rank>(segment.members().size()), 0, true};
  for (const Rank peer : segment.members()) {
    const RankLine& line = segment.line(peer);
    if (!has_opened(segment, peer)) {
      crowd.complete &= never_opens(segment, peer);
      continue;
    }
    for (uint32_t word = 0; word < kProcessorWords; ++word) together[word] |= line.processors[word];
  }
  for (const uint64_t word : together) crowd.processors += static_cast<uint32_t>(std::popcount(word));
  crowd.processors = std::max(crowd.processors, 1u);
  return crowd;
}

}  // namespace nbc::job
