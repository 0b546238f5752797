// Who shares memory with a rank that was killed cannot tell: nothing closes, as a connection would. So a thread waits
// for the ends of the processes beside this one, and closes the line of a rank that has ended without having done so,
// whether it had opened or not. (nbcrun needs none of it: it ends the others.)
#pragma once
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "job/segment.h"

namespace nbc::shm {

class Watch {
 public:
  // The process of each rank; 0: not to be watched. Where the kernel cannot wait for processes (before Linux 5.3),
  // nothing is watched.
  Watch(std::shared_ptr<Segment> segment, const std::vector<uint32_t>& processes);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct Watched {
    Rank rank;
    int fd;  // readable when the process has ended; -1: it has
  };
  void run();

  std::shared_ptr<Segment> segment_;
  std::vector<Watched> watched_;
  int stop_;  // readable when it is enough
  std::thread thread_;
};

}  // namespace nbc::shm
