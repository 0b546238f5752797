// Who is there: what a rank tells about itself in its RankLine, whichever fabric carries its messages.
#pragma once
#include <string>

#include "fabric/shm/doorbell.h"
#include "job/rank_socket.h"
#include "job/segment.h"

namespace nbc::shm {

// How one rank reaches another. Both come to the same answer, from what both tell.
enum class Way : uint8_t { unknown, near, far, none };

// Fills the calling process's line, all but the state. Throws FabricError if the rank has been opened before.
void describe_self(const Segment& segment, Rank rank, uint32_t eager_limit, uint32_t ways,
                   const std::string& host = {});
// Says that everything written before is there for all to read.
void announce_open(const Segment& segment, Rank rank);
bool has_opened(const Segment& segment, Rank rank);
// Says that the rank will do no more, which it says itself, or who has seen its process end; and wakes all who may wait
// for it. Whoever says it later says nothing.
void announce_closed(const Segment& segment, Rank rank, RankCaller& caller);
bool has_closed(const Segment& segment, Rank rank);
// It ended before it had opened, and will not come.
bool never_opens(const Segment& segment, Rank rank);
// Wakes the rank's sleeper, if its doorbell said that there is one.
void wake(const Segment& segment, Rank rank, Armed armed, RankCaller& caller);
// Shared memory where both have it, and are on one host if either makes a difference; otherwise a network if both have
// one. Both have opened.
Way way_between(const Segment& segment, Rank one, Rank other);
// Why there is none, and what to do. `mine`: what stands in the way of this rank's network.
std::string why_no_way(const Segment& segment, Rank self, Rank peer, const std::string& mine);
// The ranks of the job, and the processors that they may use together, as far as they have opened.
Crowd crowd_of(const Segment& segment);

}  // namespace nbc::shm
