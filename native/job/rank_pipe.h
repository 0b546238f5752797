// Pipes by which processes of a job wake the event loop of another one. A byte says nothing but that there is something
// to look at. Of the system calls alone, a round trip between two processes on one processor takes 7 to 9 µs; by
// datagram sockets it takes 10 to 14.
//
// Each rank makes one, and tells its descriptor and its inode in its RankLine. A peer opens it as /proc/PID/fd/N, which
// the system allows to processes of one user that see each other's numbers. The inode says whether it is the same pipe:
// the rank may have ended and its numbers may belong to something else. Ranks that are threads of one process write to
// the descriptor itself.
#pragma once
#include <vector>

#include "fabric/descriptor.h"
#include "job/segment.h"

namespace nbc::job {

class RankPipe {
 public:
  // Makes it, once, and tells the peers. False: the system refused (errno).
  bool open(const Segment& segment, Rank rank);
  // Readable when the rank was called; −1 where open() failed or was not called.
  int descriptor() const { return number_; }

 private:
  int number_ = -1;
  // None where peers may be threads of this process: the segment has both then.
  Descriptor read_;
  Descriptor write_;  // what peers open, and what keeps the pipe readable when they have gone
};

// The pipes of peers, each opened when it is first needed.
class PipeCaller {
 public:
  // False: nobody has been called; this process cannot open the pipe, or has opened as many as it may.
  bool call(const Segment& segment, Rank rank);

 private:
  // Each takes a descriptor of the program's limit.
  static constexpr size_t kMost = 128;

  struct Pipe {
    bool tried = false;
    Descriptor write;
  };
  std::vector<Pipe> pipes_;  // by rank
  size_t opened_ = 0;
};

}  // namespace nbc::job
