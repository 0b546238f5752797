#include "job/presence.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sched.h>
#include <unistd.h>

namespace nbc::shm {
namespace {

bool same_host(const RankLine& one, const RankLine& other) { return std::strcmp(one.host, other.host) == 0; }

std::string host_of(const RankLine& line) {
  return line.host[0] == 0 ? "a host without a name (NBC_HOST is not set)" : "host '" + std::string(line.host) + "'";
}

}  // namespace

void describe_self(const Segment& segment, Rank rank, uint32_t eager_limit, uint32_t ways, const std::string& host) {
  RankLine& line = segment.line(rank);
  if (line.state.load(std::memory_order_acquire) != RankState::absent)
    throw FabricError{"rank " + std::to_string(rank) + " of this job has already been opened"};
  line.pid = getpid();
  line.eager_limit = eager_limit;
  line.ways = ways;
  if (host.size() >= kHostBytes)
    throw FabricError{"NBC_HOST: the name of a host has " + std::to_string(kHostBytes - 1) + " bytes at most"};
  std::memcpy(line.host, host.c_str(), host.size() + 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
  for (uint32_t cpu = 0; cpu < kProcessorWords * 64; ++cpu) {
    if (CPU_ISSET(cpu, &set)) line.processors[cpu / 64] |= uint64_t{1} << cpu % 64;
  }
}

void announce_open(const Segment& segment, Rank rank) {
  // release: the line before the state; pairs with the acquires of whoever reads it
  segment.line(rank).state.store(RankState::open, std::memory_order_release);
}

bool has_opened(const Segment& segment, Rank rank) {
  const RankState state = segment.line(rank).state.load(std::memory_order_acquire);  // pairs with announce_open()
  return state == RankState::open || state == RankState::closed;
}

void announce_closed(const Segment& segment, Rank rank, RankCaller& caller) {
  std::atomic<RankState>& state = segment.line(rank).state;
  RankState now = state.load(std::memory_order_acquire);
  // release: everything the rank wrote before; pairs with the acquire in has_closed()
  do {
    if (now == RankState::closed || now == RankState::never) return;
  } while (!state.compare_exchange_weak(now, now == RankState::open ? RankState::closed : RankState::never,
                                        std::memory_order_acq_rel));
  std::atomic_thread_fence(std::memory_order_seq_cst);  // F2 in doorbell.h
  for (Rank peer = 0; peer < segment.size(); ++peer)
    wake(segment, peer, doorbell_take(segment.line(peer).bell), caller);
}

bool has_closed(const Segment& segment, Rank rank) {
  const RankState state = segment.line(rank).state.load(std::memory_order_acquire);  // pairs with announce_closed()
  return state == RankState::closed || state == RankState::never;
}

bool never_opens(const Segment& segment, Rank rank) {
  return segment.line(rank).state.load(std::memory_order_acquire) == RankState::never;
}

void wake(const Segment& segment, Rank rank, Armed armed, RankCaller& caller) {
  if (!armed) return;
  if (armed.who == Sleeper::loop) {
    // Where the socket cannot be reached, the progress thread of that rank takes over.
    const bool called = caller.call(segment, rank, Call::loop);
    if (!called || armed.progress_too) doorbell_wake(segment.line(rank).bell, Sleeper::progress);
  } else if (armed.on_socket) {
    caller.call(segment, rank, armed.who == Sleeper::progress ? Call::progress : Call::caller);
  } else {
    doorbell_wake(segment.line(rank).bell, armed.who);
  }
}

Way way_between(const Segment& segment, Rank one, Rank other) {
  if (one == other) return Way::near;
  const RankLine& a = segment.line(one);
  const RankLine& b = segment.line(other);
  const uint32_t both = a.ways & b.ways;
  if ((both & kNearWay) != 0 && (((a.ways | b.ways) & kNearByHost) == 0 || same_host(a, b))) return Way::near;
  return (both & kFarWay) != 0 ? Way::far : Way::none;
}

std::string why_no_way(const Segment& segment, Rank self, Rank peer, const std::string& mine) {
  const RankLine& here = segment.line(self);
  const RankLine& there = segment.line(peer);
  const std::string name = "rank " + std::to_string(peer) + " of the world";
  if ((here.ways & there.ways & kNearWay) == 0)
    return name +
           " and this rank run with different transports: one uses shared memory, the other only a network; it must be "
           "the "
           "same on all ranks";
  std::string text = name + " is on " + host_of(there) + ", this rank on " + host_of(here) +
                     ", and to reach other hosts both need an active verbs device: ";
  if ((here.ways & kFarWay) == 0) text += "this rank has none (" + mine + ")";
  if (((here.ways | there.ways) & kFarWay) == 0) text += ", ";
  if ((there.ways & kFarWay) == 0) text += "rank " + std::to_string(peer) + " has none";
  return text +
         ". Give both a device whose port is active (ibv_devinfo shows them) and an NBC_HOST, or, on one machine, "
         "start all ranks "
         "with the same NBC_HOST or with transport 'shm'";
}

Crowd crowd_of(const Segment& segment) {
  uint64_t together[kProcessorWords] = {};
  Crowd crowd{segment.size(), 0, true};
  for (Rank peer = 0; peer < segment.size(); ++peer) {
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

}  // namespace nbc::shm
