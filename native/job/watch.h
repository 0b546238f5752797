// A rank that shares memory with one that was killed cannot tell: nothing closes, as a connection would. So a thread
// waits for the ends of the processes beside this one, and closes the line of a rank that has ended without having done
// so, whether it had opened or not. (A job of nbcrun needs none of it: nbcrun sees its ranks end.)
#pragma once
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/descriptor.h"
#include "job/segment.h"

namespace nbc::job {

class Watch {
 public:
  // The process of each rank; 0: not to be watched. Throws FabricError if descriptors have run out. Where the kernel
  // does not offer to wait for a process (before Linux 5.3, or under a filter of system calls), the thread looks for it
  // every second.
  Watch(std::shared_ptr<Segment> segment, const std::vector<uint32_t>& processes);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct Watched {
    Rank rank;
    uint32_t process;
    Descriptor fd;  // readable when the process has ended; none: it has to be looked for
  };
  void run();

  std::shared_ptr<Segment> segment_;
  std::vector<Watched> watched_;
  Descriptor stop_;  // readable when it is enough
  std::thread thread_;
};

// Whether there is no such process, or only what its parent has not looked at yet.
bool has_ended(uint32_t process);

}  // namespace nbc::job
