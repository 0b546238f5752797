// Who is there: what a rank tells about itself in its RankLine, whichever fabric carries its messages.
#pragma once
#include "fabric/shm/segment.h"

namespace nbc::shm {

// Fills the calling process's line, all but the state. Throws FabricError if the rank has been opened before.
void describe_self(const Segment& segment, Rank rank, uint32_t eager_limit);
// Says that everything written before is there for all to read.
void announce_open(const Segment& segment, Rank rank);
// The ranks of the job, and the processors that they may use together, as far as they have opened.
Crowd crowd_of(const Segment& segment);

}  // namespace nbc::shm
