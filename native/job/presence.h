// Which ranks are there: what a rank tells about itself in its RankLine, whichever fabric carries its messages.
//
//   absent --claim--> claimed --announce_open--> open --announce_closed--> closed
//     |                  |                         +--announce_lost--> lost --announce_closed--> closed
//     |                  +----------announce_closed--------> never
//     +--announce_elsewhere--> elsewhere --announce_closed--> never
//
// Every step is a compare-and-swap, by the rank itself; announce_closed() also by a process that has seen it end, and
// announce_lost() by its peers only.
#pragma once
#include <string>

#include "fabric/shm/doorbell.h"
#include "job/rank_socket.h"
#include "job/segment.h"

namespace nbc::job {

// How one rank reaches another. Both come to the same answer, from what both tell.
enum class Route : uint8_t { unknown, shared_memory, network, none };

// Takes the rank for the calling process, and fills its line. Throws FabricError if another process has taken it
// before; of several that try at once, one succeeds.
void claim(const Segment& segment, Rank rank, uint32_t eager_limit, uint32_t reach, const std::string& host = {});
// Says that everything written before is there for all to read.
void announce_open(const Segment& segment, Rank rank);
bool has_opened(const Segment& segment, Rank rank);
// Says that the rank is reached without this file, and will not open in it; and wakes all who wait for it.
void announce_elsewhere(const Segment& segment, Rank rank, RankCaller& caller);
bool is_elsewhere(const Segment& segment, Rank rank);
// Says that the rank will do no more, and wakes all who may wait for it. The rank says it, or a process that has seen
// the rank's process end; a second call does nothing.
void announce_closed(const Segment& segment, Rank rank, RankCaller& caller);
bool has_closed(const Segment& segment, Rank rank);
// Says that the rank, which is open, did not answer for so long that it is given up for good: nobody waits for it, and
// if it goes on it is to do no more. Wakes all who may wait for it, and the rank. False: it was not open.
bool announce_lost(const Segment& segment, Rank rank, RankCaller& caller);
bool is_lost(const Segment& segment, Rank rank);
// It ended before it had opened, and will not come.
bool never_opens(const Segment& segment, Rank rank);
// Wakes the rank's sleeper, if its doorbell said that there is one.
void wake(const Segment& segment, Rank rank, shm::Armed armed, RankCaller& caller);
// Shared memory where both have it, and are on one host if either makes a difference; otherwise a network if both have
// one. Both have opened.
Route route_between(const Segment& segment, Rank one, Rank other);
// Why there is none, and what to do. `mine`: what stands in the way of this rank's network.
std::string why_no_route(const Segment& segment, Rank self, Rank peer, const std::string& mine);
// The ranks of the job, and the processors that they may use together, as far as they have opened.
Crowd crowd_of(const Segment& segment);

}  // namespace nbc::job
