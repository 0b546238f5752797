// Two ranks on the engine, without JavaScript: the same measurements as ../transfers.ts, so that the difference is what
// JavaScript costs.
//
//   transfers DEVICE DEVICE CASE…      the device of each rank; a case is latency:BYTES:COUNT or bandwidth:BYTES:COUNT
//
// Prints a line for each case: the case, and µs (half of the median round trip) or MB/s (10⁶ bytes).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "fabric/cards/host_bootstrap.h"
#include "fabric/verbs/available.h"
#include "fabric/verbs/verbs_fabric.h"

#if NBC_HAS_VERBS
namespace {

using namespace nbc;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kEagerLimit = 4096;  // the default of init()
constexpr uint32_t kWarmUp = 500;       // round trips, as in JavaScript
constexpr uint32_t kWindow = 16;        // messages on their way
constexpr uint32_t kTag = 0;

struct Measurement {
  std::string text;
  bool latency;
  size_t bytes;
  uint32_t count;
};

Measurement parse(const std::string& text) {
  const size_t first = text.find(':');
  const size_t second = text.find(':', first + 1);
  const std::string kind = text.substr(0, first);
  if (second == std::string::npos || (kind != "latency" && kind != "bandwidth"))
    throw FabricError{text + ": expected latency:BYTES:COUNT or bandwidth:BYTES:COUNT"};
  return {text, kind == "latency", std::strtoul(&text[first + 1], nullptr, 10),
          static_cast<uint32_t>(std::strtoul(&text[second + 1], nullptr, 10))};
}

class RankOfTwo {
 public:
  RankOfTwo(const std::shared_ptr<job::Segment>& segment, Rank rank, const std::string& device)
      : rank_(rank), slots_(std::make_shared<SlotTable>()) {
    verbs::VerbsOptions verbs;
    verbs.device.name = device;
    verbs.eager_limit = kEagerLimit;
    EngineOptions options;
    options.libof.eager_limit = kEagerLimit;
    auto bootstrap = std::make_unique<cards::HostBootstrap>(segment, rank, kEagerLimit);
    engine_ = std::make_unique<Engine>(std::make_unique<verbs::VerbsFabric>(std::move(bootstrap), verbs), options,
                                       slots_, [] {});
    group_.members = {0, 1};
    group_.rank = rank;
    group_.context = 10;
  }

  Rank rank() const { return rank_; }
  // Slots are the caller's: each has one message at a time.
  void send(uint32_t slot, const Pinned& buffer) {
    waits_[slot] = !engine_->isend(group_, slot, buffer, 1 - rank_, kTag);
  }
  void receive(uint32_t slot, const Pinned& buffer) {
    waits_[slot] = !engine_->irecv(group_, slot, buffer, 1 - rank_, kTag);
  }
  void wait(uint32_t slot) {
    if (!waits_[slot]) return;
    engine_->wait(&slot, 1, true, -1);
    waits_[slot] = false;
    if (slots_->get(slot) != 1) throw FabricError{"a message failed: " + engine_->explain(slot)};
  }

 private:
  Rank rank_;
  std::shared_ptr<SlotTable> slots_;
  std::unique_ptr<Engine> engine_;
  Group group_;
  bool waits_[kWindow + 1] = {};
};

Pinned memory(size_t bytes) {
  std::shared_ptr<std::byte[]> block(new std::byte[bytes]());
  return {block.get(), bytes, block};
}

// Half of the median round trip, in µs.
double latency(RankOfTwo& me, size_t bytes, uint32_t count) {
  const Pinned out = memory(bytes);
  const Pinned in = memory(bytes);
  std::vector<double> trips;
  for (uint32_t i = 0; i < kWarmUp + count; ++i) {
    const auto begin = Clock::now();
    for (uint32_t half = 0; half < 2; ++half) {
      if (half == me.rank()) {
        me.send(0, out);
        me.wait(0);
      } else {
        me.receive(1, in);
        me.wait(1);
      }
    }
    if (i >= kWarmUp) trips.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(trips.begin(), trips.begin() + count / 2, trips.end());
  return trips[count / 2] / 2;
}

// From rank 0 to rank 1, a window of messages on their way; ends when the last has arrived. MB/s.
double bandwidth(RankOfTwo& me, size_t bytes, uint32_t count) {
  std::vector<Pinned> buffers;
  for (uint32_t i = 0; i < kWindow; ++i) buffers.push_back(memory(bytes));
  const auto stream = [&](uint32_t messages) {
    for (uint32_t i = 0; i < messages; ++i) {
      const uint32_t slot = i % kWindow;
      me.wait(slot);
      if (me.rank() == 0)
        me.send(slot, buffers[slot]);
      else
        me.receive(slot, buffers[slot]);
    }
    for (uint32_t slot = 0; slot < kWindow; ++slot) me.wait(slot);
    const Pinned last = memory(1);
    if (me.rank() == 0)
      me.receive(kWindow, last);
    else
      me.send(kWindow, last);
    me.wait(kWindow);
  };
  stream(kWindow);  // all buffers are registered
  const auto begin = Clock::now();
  stream(count);
  const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
  return static_cast<double>(bytes) * count / took.count();
}

void run(const std::shared_ptr<job::Segment>& segment, Rank rank, const std::string& device,
         const std::vector<Measurement>& all) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(rank, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) throw FabricError{"needs two processors, 0 and 1"};
  RankOfTwo me{segment, rank, device};
  for (const Measurement& one : all) {
    const double figure = (one.latency ? latency : bandwidth)(me, one.bytes, one.count);
    if (rank == 0) std::printf("%s %.3f\n", one.text.c_str(), figure);
  }
  std::fflush(stdout);
}

// The rank in a process of its own, which ends with this one.
pid_t start(const std::function<void()>& body) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  try {
    body();
  } catch (const FabricError& error) {
    std::fprintf(stderr, "transfers: %s\n", error.message.c_str());
    _exit(1);
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: transfers DEVICE DEVICE latency:BYTES:COUNT|bandwidth:BYTES:COUNT…\n", stderr);
    return 2;
  }
  try {
    std::vector<Measurement> all;
    for (int i = 3; i < argc; ++i) all.push_back(parse(argv[i]));
    const int file = job::Segment::create(2);
    const std::shared_ptr<job::Segment> segment = job::Segment::map(file);
    close(file);
    for (const Rank rank : {0u, 1u}) start([&] { run(segment, rank, argv[1 + rank], all); });
  } catch (const FabricError& error) {
    std::fprintf(stderr, "transfers: %s\n", error.message.c_str());
    return 1;
  }
  bool well = true;
  for (int status = 0; wait(&status) > 0;) well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return well ? 0 : 1;
}
#else
int main() {
  std::fputs("transfers: this build has no verbs: <infiniband/verbs.h> was not found\n", stderr);
  return 1;
}
#endif
