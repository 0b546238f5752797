// On which processor the calling thread runs, where it shares one with a peer.
//
// Two ranks that send each other small messages in turn are never ready at the same time. So the kernel may leave both
// on one processor while another one idles. Each message then costs a switch: a round trip of 8 bytes takes 10 to 15 µs
// instead of 2. A rank that finds this for a while moves to a processor that idles; of two ranks, the one with the
// higher number.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace nbc {

// What Placement asks of the system. The calling thread only.
class Processors {
 public:
  virtual ~Processors() = default;
  virtual int64_t now() = 0;                // milliseconds
  virtual int current() = 0;                // the processor of the calling thread
  virtual std::vector<int> allowed() = 0;   // where it may run; empty: not known
  virtual std::vector<int64_t> idle() = 0;  // how long each processor was idle so far, in milliseconds
  virtual bool move_to(int processor) = 0;  // what is allowed stays the same
};

std::unique_ptr<Processors> system_processors();

class Placement {
 public:
  explicit Placement(std::unique_ptr<Processors> processors) : processors_(std::move(processors)) {}
  // The calling thread is about to sleep, because the peer that it waits for runs on its processor.
  void shares_processor();
  uint64_t moves() const { return moves_; }

 private:
  void begin(int64_t now);
  void decide(int64_t now);

  std::unique_ptr<Processors> processors_;
  uint32_t times_ = 0;      // shared, since the clock was read
  bool measuring_ = false;  // `idle_` was taken at `began_`
  int64_t began_ = 0;
  int64_t next_ = 0;   // nothing happens before
  int64_t pause_ = 0;  // after a decision
  std::vector<int64_t> idle_;
  uint64_t moves_ = 0;
};

}  // namespace nbc
