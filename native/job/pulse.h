// Whether the ranks beside this one still answer. A process that is stopped (SIGSTOP, a debugger, a frozen container)
// ends nothing that a peer could see. So a thread of each rank counts its RankLine::beats up, whatever else the rank
// does, and looks at those of all peers. A peer that has beaten, and whose count stays the same for as long as the
// option peerTimeout says, is given up: announce_lost().
//
// Looks are counted, not time: where all ranks are stopped and go on together, one look is late, and nobody is given
// up.
#pragma once
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/descriptor.h"
#include "job/patience.h"
#include "job/rank_socket.h"
#include "job/segment.h"

namespace nbc::job {

class Pulse {
 public:
  // The rank has opened. Throws FabricError if descriptors have run out, std::system_error if there is no thread.
  Pulse(std::shared_ptr<Segment> segment, Rank rank, int64_t peer_timeout);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  struct Seen {
    uint32_t beats = 0;
    uint32_t silent = 0;  // looks in a row that found the same count
  };
  void run();
  void look();

  std::shared_ptr<Segment> segment_;
  const Rank rank_;
  const Patience patience_;
  std::vector<Seen> seen_;  // by rank
  RankCaller caller_;
  Descriptor stop_;  // readable when it is enough
  std::thread thread_;
};

}  // namespace nbc::job
