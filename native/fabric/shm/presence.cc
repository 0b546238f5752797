#include "fabric/shm/presence.h"

#include <algorithm>
#include <bit>
#include <sched.h>
#include <unistd.h>

namespace nbc::shm {

void describe_self(const Segment& segment, Rank rank, uint32_t eager_limit) {
  RankLine& line = segment.line(rank);
  if (line.state.load(std::memory_order_acquire) != RankState::absent)
    throw FabricError{"rank " + std::to_string(rank) + " of this job has already been opened"};
  line.pid = getpid();
  line.eager_limit = eager_limit;
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

Crowd crowd_of(const Segment& segment) {
  uint64_t together[kProcessorWords] = {};
  Crowd crowd{segment.size(), 0, true};
  for (Rank peer = 0; peer < segment.size(); ++peer) {
    const RankLine& line = segment.line(peer);
    if (line.state.load(std::memory_order_acquire) == RankState::absent) {  // pairs with announce_open()
      crowd.complete = false;
      continue;
    }
    for (uint32_t word = 0; word < kProcessorWords; ++word) together[word] |= line.processors[word];
  }
  for (const uint64_t word : together) crowd.processors += static_cast<uint32_t>(std::popcount(word));
  crowd.processors = std::max(crowd.processors, 1u);
  return crowd;
}

}  // namespace nbc::shm
