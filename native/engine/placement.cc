#include "engine/placement.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <unistd.h>

#include "processor_set.h"

namespace nbc {
namespace {

// Times of sharing between two readings of the clock.
constexpr uint32_t kTimes = 64;
// How long a processor must have been idle, mostly, to move there: the system counts in hundredths of a second.
constexpr int64_t kMeasure = 50;
// A measurement that is much older says nothing about now.
constexpr int64_t kTooOld = 4 * kMeasure;
// A decision may be wrong, and costs some tens of microseconds: from one to the next it takes longer and longer.
constexpr int64_t kFirstPause = 50;
constexpr int64_t kLongestPause = 10'000;

class SystemProcessors : public Processors {
 public:
  int64_t now() override {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
  }
  int current() override { return sched_getcpu(); }
  std::vector<int> allowed() override { return ProcessorSet::allowed().list(); }
  std::vector<int64_t> idle() override {
    std::vector<int64_t> found;
    std::FILE* file = std::fopen("/proc/stat", "re");
    if (file == nullptr) return found;
    const long per_second = sysconf(_SC_CLK_TCK);
    char line[512];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      unsigned processor;
      unsigned long long ticks;
      // The first line, without a number, is of all processors.
      if (std::strncmp(line, "cpu ", 4) == 0) continue;
      if (std::sscanf(line, "cpu%u %*u %*u %*u %llu", &processor, &ticks) != 2) continue;
      if (processor >= found.size()) found.resize(processor + 1);
      found[processor] = static_cast<int64_t>(ticks) * 1000 / per_second;
    }
    std::fclose(file);
    return found;
  }
  // The kernel moves a thread that may not stay. Afterwards it may run where it might before.
  bool move_to(int processor) override {
    const ProcessorSet before = ProcessorSet::allowed();
    if (before.count() == 0) return false;
    const bool moved = ProcessorSet(static_cast<size_t>(processor)).bind();
    return before.bind() && moved;
  }
};

}  // namespace

std::unique_ptr<Processors> system_processors() { return std::make_unique<SystemProcessors>(); }

void Placement::shares_processor() {
  if (++times_ < kTimes) return;
  times_ = 0;
  const int64_t now = processors_->now();
  if (now < next_) return;
  if (measuring_ && now - began_ < kTooOld) {
    decide(now);
  } else {
    begin(now);
  }
}

void Placement::begin(int64_t now) {
  idle_ = processors_->idle();
  measuring_ = true;
  began_ = now;
  next_ = now + kMeasure;
}

void Placement::decide(int64_t now) {
  measuring_ = false;
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  next_ = now + pause_;
  const std::vector<int64_t> idle = processors_->idle();
  const int here = processors_->current();
  int best = -1;
  int64_t most = (now - began_) * 3 / 4;
  for (const int processor : processors_->allowed()) {
    const size_t i = static_cast<size_t>(processor);
    if (processor == here || i >= idle.size() || i >= idle_.size()) continue;
    const int64_t time = idle[i] - idle_[i];
    if (time < most) continue;
    most = time;
    best = processor;
  }
  if (best >= 0 && processors_->move_to(best)) ++moves_;
}

}  // namespace nbc
