// Ranks that know that they are threads of one process (Segment::share): they copy from one another's memory, so memory
// must outlive every copy, in whichever order they end. conformance_test runs all else over them.
#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sched.h>
#include <sys/mman.h>
#include <vector>

#include "test/cross_memory.h"
#include "test/random.h"
#include "test/ranks.h"

namespace {

using namespace nbc;
using namespace nbc::check;

constexpr size_t kLarge = size_t{1} << 20;

TEST(plain_memory_moves_by_memcpy) {
  for (const bool cross_memory : {true, false}) {
    const auto segment = make_shared_segment(2);
    Meeting end(2);
    run_threads(2, [&](Rank rank) {
      RankOptions options;
      options.cross_memory = cross_memory;
      TestRank me(segment, rank, options);
      if (rank == 0) {
        me.send(me.filled(kLarge, false, 7), 1, 0);
      } else {
        const Pinned in = me.plain(kLarge);
        me.receive(in, 0, 0);
        check_data(in, 7);
      }
      end.meet();
      CHECK_EQ(me.counter("crossMemoryBytes"), 0.0);
      CHECK_EQ(me.counter("stagedBytes"), 0.0);
    });
  }
}

// A rank that comes through map() may be another process: nothing is assumed of its addresses.
TEST(other_mappings_of_the_file_are_of_other_processes) {
  need_cross_memory();
  const int fd = job::Segment::create(2, kTestArena);
  const auto shared = job::Segment::share(fd);
  const auto mapped = job::Segment::map(fd);
  ::close(fd);
  Meeting end(2);
  std::atomic<uint64_t> crossed{0};  // by both: on a busy machine one of them may copy all
  run_threads(2, [&](Rank rank) {
    TestRank me(rank == 0 ? shared : mapped, rank, mode(true));
    const Pinned in = me.plain(kLarge);
    const uint32_t receive = me.irecv(in, 1 - rank, 0);
    me.send(me.filled(kLarge, false, rank), 1 - rank, 0);
    me.wait(receive);
    check_data(in, 1 - rank);
    end.meet();
    crossed += static_cast<uint64_t>(me.counter("crossMemoryBytes"));
  });
  CHECK_EQ(crossed.load(), 2 * uint64_t{kLarge});
}

TEST(what_a_rank_leaves_behind_is_kept_until_the_last_has_gone) {
  const auto segment = make_shared_segment(3);
  std::vector<std::unique_ptr<Fabric>> fabrics;
  for (Rank rank = 0; rank < 3; ++rank) fabrics.push_back(shm_fabric(segment, rank, mode(true)));
  auto memory = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = memory;
  // Its own exposed memory, too: it holds the segment, which must not keep itself.
  std::vector<std::shared_ptr<void>> keepers{memory, fabrics[0]->memory()};
  memory.reset();
  CHECK(fabrics[0]->keep(keepers));
  keepers.clear();
  for (const Rank rank : {0, 1}) {
    fabrics[rank].reset();
    CHECK(!seen.expired());
  }
  fabrics[2].reset();
  CHECK(seen.expired());
  CHECK_EQ(segment.use_count(), 1);
}

TEST(the_segment_goes_with_its_last_rank) {
  const int fd = job::Segment::create(1, kTestArena);
  std::weak_ptr<job::Segment> first = job::Segment::share(fd);
  CHECK(first.expired());
  CHECK(job::Segment::share(fd) != nullptr);
  ::close(fd);
}

int descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

// Each rank has its pipe, and peers write to that: they need no descriptors of their own.
TEST(event_loops_are_woken_without_a_descriptor_for_each_peer) {
  constexpr Rank kRanks = 8;
  const auto segment = make_shared_segment(kRanks);
  std::vector<std::unique_ptr<Fabric>> fabrics;
  const int before = descriptors();
  std::vector<int> loops;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    fabrics.push_back(shm_fabric(segment, rank, mode(true)));
    loops.push_back(fabrics[rank]->open_loop());
    CHECK(loops[rank] >= 0);
  }
  job::RankCaller callers[kRanks];
  for (job::RankCaller& caller : callers) {
    for (Rank rank = 0; rank < kRanks; ++rank) CHECK(caller.call_loop(*segment, rank));
  }
  CHECK_EQ(descriptors(), before + 2 * static_cast<int>(kRanks));
  char bytes[64];
  for (const int loop : loops) CHECK_EQ(::read(loop, bytes, sizeof bytes), static_cast<ssize_t>(kRanks));
  // The number of a rank that has gone stays its own.
  fabrics[3].reset();
  CHECK(callers[0].call_loop(*segment, 3));
}

// Memory that is gone when it is freed: a copy that goes on, or comes later, ends the program.
Pinned mapped(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  CHECK(data != MAP_FAILED);
  return {static_cast<std::byte*>(data), bytes, std::shared_ptr<void>(data, [bytes](void* at) { munmap(at, bytes); })};
}

// What a terminated worker does: its world closes at any moment, while peers copy to and from its buffers, which are
// freed then.
TEST(a_rank_may_end_in_the_middle_of_copies) {
  for (uint32_t round = 0; round < repetitions(60, 20); ++round) {
    const auto segment = make_shared_segment(3);
    std::atomic<uint32_t> begun{0};
    run_threads(3, [&](Rank rank) {
      TestRank me(segment, rank, mode(round % 2 == 0));
      std::vector<uint32_t> requests;
      for (Rank peer = 0; peer < 3; ++peer) {
        if (peer == rank) continue;
        requests.push_back(me.irecv(mapped(4 * kLarge), peer, 0));
        requests.push_back(me.isend(mapped(4 * kLarge), peer, 0));
      }
      begun.fetch_add(1, std::memory_order_acq_rel);
      if (rank == round % 3) {
        while (begun.load(std::memory_order_acquire) < 3) sched_yield();
        for (uint32_t i = 0; i < round % 7; ++i) me.engine->test();
        me.close();
        return;
      }
      for (const uint32_t request : requests) {
        if (request == kNoRequest) continue;
        CHECK(me.engine->wait(&request, 1, true, -1));
        CHECK(me.error(request) == Error::none || me.error(request) == Error::peer_closed ||
              me.error(request) == Error::abandoned);
      }
      begun.fetch_add(1, std::memory_order_acq_rel);
      while (begun.load(std::memory_order_acquire) < 5) sched_yield();
    });
  }
}

}  // namespace

TEST_MAIN(60)
