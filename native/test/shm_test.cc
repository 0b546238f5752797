// The engine over shared memory, with ranks as threads that share one mapping, so that ThreadSanitizer sees who touches
// what. (It does not see the arenas, which every rank maps for itself, nor what the kernel copies between plain
// buffers.)
#include <algorithm>
#include <csignal>
#include <ctime>
#include <deque>
#include <iterator>
#include <sys/mman.h>

#include "test/cross_memory.h"
#include "test/failing.h"
#include "test/mix.h"
#include "test/ranks.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Every mode in which ranks can run.
std::vector<RankOptions> modes() {
  std::vector<RankOptions> all;
  for (const bool progress_thread : {true, false}) {
    for (const bool cross_memory : {true, false}) {
      RankOptions options;
      options.progress_thread = progress_thread;
      options.cross_memory = cross_memory;
      all.push_back(options);
    }
  }
  return all;
}

// --- single messages -------------------------------------------------------------------------------------------------

// The paths that a message can take are the ones that it takes.
TEST(each_path_is_taken_where_it_should_be) {
  need_cross_memory();
  constexpr size_t kBytes = 1u << 20;
  for (const bool cross_memory : {true, false}) {
    for (const bool from_arena : {false, true}) {
      for (const bool to_arena : {false, true}) {
        RankOptions options;
        options.cross_memory = cross_memory;
        std::atomic<double> mapped{0}, crossed{0}, staged{0};
        run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
          if (me.rank == 0) {
            me.send(me.filled(kBytes, from_arena, 1), 1, 0);
          } else {
            const Pinned in = me.memory(kBytes, to_arena);
            me.receive(in, 0, 0);
            check_data(in, 1);
          }
          const auto add = [](std::atomic<double>& sum, double value) {
            double old = sum.load();
            while (!sum.compare_exchange_weak(old, old + value)) {
            }
          };
          add(mapped, me.counter("mappedBytes"));
          add(crossed, me.counter("crossMemoryBytes"));
          add(staged, me.counter("stagedBytes"));
          meeting.meet();
        });
        CHECK_EQ(mapped + crossed, double{kBytes});
        if (!cross_memory) CHECK_EQ(crossed.load(), 0.0);
        if (to_arena && !from_arena) CHECK_EQ(staged.load(), 0.0);
        if (!to_arena && !from_arena) CHECK_EQ(staged > 0, !cross_memory);
        if (to_arena && from_arena) CHECK_EQ(mapped.load(), double{kBytes});
      }
    }
  }
}

// --- reductions ------------------------------------------------------------------------------------------------------

// How a rank combines what it receives with what it has.
enum class Joined {
  result,     // received into the place of the result, combined with the contribution
  temporary,  // received into temporary memory, combined with the result so far, of which a half is sent meanwhile
  apart,      // the same, and all of the result so far is sent meanwhile: the reduction has to wait
};

// Two ranks exchange as many bytes and combine them.
Schedule exchange_and_combine(Joined how, Rank peer, uint64_t bytes) {
  const Role other = how == Joined::result ? Role::receive : Role::temporary;
  const uint64_t sent = how == Joined::temporary ? bytes : 0;
  Schedule schedule(how == Joined::result ? bytes : 0, 2 * bytes, how == Joined::result ? 0 : bytes);
  schedule.round().send(peer, how == Joined::result ? Role::send : Role::receive, sent, bytes);
  schedule.receive(peer, other, 0, bytes).round();
  if (how == Joined::result)
    schedule.reduce(Operator::sum, ElementType::uint64, Role::send, 0, Role::receive, 0, bytes);
  else
    schedule.reduce(Operator::sum, ElementType::uint64, Role::temporary, 0, Role::receive, 0, bytes);
  return schedule;
}

uint64_t contribution(Rank rank, size_t i) { return (rank + 1) * 0x9e3779b97f4a7c15u * (i + 1); }

void contribute(const Pinned& block, size_t offset, size_t bytes, Rank rank) {
  for (size_t i = 0; i < bytes / 8; ++i) {
    const uint64_t value = contribution(rank, i);
    std::memcpy(block.data + offset + 8 * i, &value, 8);
  }
}

void check_combined(const Pinned& block, size_t bytes) {
  for (size_t i = 0; i < bytes / 8; ++i) {
    uint64_t value;
    std::memcpy(&value, block.data + 8 * i, 8);
    CHECK_EQ(value, contribution(0, i) + contribution(1, i));
  }
}

constexpr uint32_t kRepetitions = 2;

// Ranks that are threads of one process, and others.
void combine_large_messages(const std::function<std::shared_ptr<job::Segment>(Rank)>& segment_of, bool in_arena) {
  for (const Joined how : {Joined::result, Joined::temporary, Joined::apart}) {
    for (const RankOptions& options : modes()) {
      for (const size_t bytes : {shm::kCombineFrom - 8, shm::kCombineFrom, (size_t{300} << 10) + 8}) {
        const auto segment = segment_of(2);
        const auto fabric_of = [&](Rank rank) { return shm_fabric(segment, rank, options); };
        // Of both: a rank that has its message already helps the other one.
        std::atomic<uint64_t> combined{0};
        run_ranks_over(2, options, fabric_of, [&](TestRank& me, Meeting& meeting) {
          const auto plan = me.load(exchange_and_combine(how, 1 - me.rank, bytes));
          const Pinned send = me.memory(how == Joined::result ? bytes : 0, in_arena);
          const Pinned receive = me.memory(2 * bytes, in_arena);
          for (uint32_t repetition = 0; repetition < kRepetitions; ++repetition) {
            if (how == Joined::result) contribute(send, 0, bytes, me.rank);
            contribute(receive, 0, bytes, me.rank);
            contribute(receive, bytes, bytes, me.rank);
            me.wait(me.start(plan, send, receive));
            check_combined(receive, bytes);
            meeting.meet([&] { me.engine->test(); });
          }
          combined += static_cast<uint64_t>(me.counter("combinedBytes"));
        });
        const bool joins = how != Joined::apart && bytes >= shm::kCombineFrom;
        CHECK_EQ(combined.load(), joins ? 2 * kRepetitions * bytes : 0);
      }
    }
  }
}

// A large message is combined while it is copied, unless the place of the result is still needed.
TEST(large_messages_are_combined_as_they_come) {
  for (const bool in_arena : {false, true}) {
    combine_large_messages([](Rank size) { return make_segment(size); }, in_arena);
    combine_large_messages([](Rank size) { return make_shared_segment(size); }, in_arena);
  }
}

// One rank sends, the other one has the result: both combine, and each may do all of it.
TEST(both_ranks_combine_what_one_sends) {
  for (const RankOptions& options : modes()) {
    for (const size_t bytes : {shm::kCombineFrom, (size_t{1} << 20) + 8}) {
      std::atomic<uint64_t> combined{0};
      run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
        Schedule schedule(bytes, bytes);
        schedule.round();
        if (me.rank == 0) {
          schedule.send(1, Role::send, 0, bytes);
        } else {
          schedule.receive(0, Role::receive, 0, bytes).round();
          schedule.reduce(Operator::sum, ElementType::uint64, Role::send, 0, Role::receive, 0, bytes);
        }
        const auto plan = me.load(schedule);
        const Pinned send = me.memory(bytes, true);
        const Pinned receive = me.memory(bytes, true);
        contribute(send, 0, bytes, me.rank);
        for (int repetition = 0; repetition < 20; ++repetition) {
          std::memset(receive.data, 0, bytes);
          meeting.meet([&] { me.engine->test(); });
          const uint32_t request = me.start(plan, send, receive);
          if (request != kNoRequest) me.wait(request);
          if (me.rank == 1) check_combined(receive, bytes);
        }
        meeting.meet([&] { me.engine->test(); });
        combined += static_cast<uint64_t>(me.counter("combinedBytes"));
      });
      CHECK_EQ(combined.load(), 20 * bytes);
    }
  }
}

// One of two ranks closes in the middle: the other gets all of the result, or an error, and then its memory is not
// written any more.
TEST(a_reduction_fails_while_its_message_comes) {
  constexpr size_t kBytes = size_t{4} << 20;
  for (const RankOptions& options : modes()) {
    run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
      const auto plan = me.load(exchange_and_combine(Joined::result, 1 - me.rank, kBytes));
      const Pinned send = me.plain(kBytes);
      const Pinned receive = me.plain(2 * kBytes);
      contribute(send, 0, kBytes, me.rank);
      meeting.meet();
      const uint32_t request = me.start(plan, send, receive);
      if (me.rank == 0) {
        me.engine->test();
        me.close();
        CHECK(me.error(request) == Error::none || me.error(request) == Error::closed);
        meeting.meet();
      } else {
        meeting.meet();
        if (!me.done(request)) CHECK(me.engine->wait(&request, 1, true, -1));
        if (me.error(request) == Error::none) {
          check_combined(receive, kBytes);
        } else {
          CHECK_EQ(me.error(request), Error::peer_closed);
          fill(receive.data, receive.bytes, 9);
          me.engine->test();
          check_data(receive, 9);
        }
      }
    });
  }
}

// A receiver that waits copies pieces of what is sent to it. How many depends on who is faster, so this asks for one at
// all.
TEST(waiting_receivers_help) {
  std::atomic<bool> helped{false};
  run_ranks(2, {}, [&](TestRank& me, Meeting& meeting) {
    constexpr size_t kBytes = 4u << 20;
    const Pinned block = me.exposed(kBytes);
    for (uint32_t i = 0; !helped.load(std::memory_order_acquire); ++i) {
      if (me.rank == 0) {
        fill(block.data, 64, i);
        me.send(block, 1, 0);
      } else {
        me.receive(block, 0, 0);
        CHECK_EQ(first_difference(block.data, 64, i), 64u);
        if (me.counter("helpedPieces") > 0) helped.store(true, std::memory_order_release);
      }
      meeting.meet();
    }
  });
}

TEST(order_per_tag_is_kept) {
  for (const RankOptions& options : modes()) {
    run_ranks(2, options, [&](TestRank& me, Meeting&) {
      const auto size_of = [](uint32_t n) -> size_t { return n % 5 == 0 ? 300 + n : n % 200; };
      constexpr uint32_t kCount = 500;
      std::vector<uint32_t> requests;
      std::vector<Pinned> blocks;
      if (me.rank == 0) {
        for (uint32_t n = 0; n < kCount; ++n) requests.push_back(me.isend(me.filled(size_of(n), false, n), 1, n % 3));
      } else {
        std::vector<std::pair<Pinned, uint32_t>> received;
        for (uint32_t tag = 3; tag-- > 0;) {
          for (uint32_t n = tag; n < kCount; n += 3) {
            received.emplace_back(me.plain(size_of(n)), n);
            requests.push_back(me.irecv(received.back().first, 0, tag));
          }
        }
        for (const uint32_t request : requests) me.wait(request);
        requests.clear();
        for (const auto& [block, n] : received) check_data(block, n);
      }
      for (const uint32_t request : requests) me.wait(request);
    });
  }
}

// --- schedules -------------------------------------------------------------------------------------------------------

TEST(collectives_of_every_shape) {
  for (const RankOptions& options : modes()) {
    for (const Rank size : {1u, 2u, 3u, 4u}) {
      run_ranks(size, options, [&](TestRank& me, Meeting&) {
        for (const size_t block : {size_t{1}, size_t{255}, size_t{256}, size_t{70'000}}) {
          for (const bool in_arena : {false, true}) {
            const auto seed_of = [&](Rank from, Rank to) { return block * 1000 + from * 10 + to; };
            const Pinned out = me.memory(block * size, in_arena);
            for (Rank to = 0; to < size; ++to) fill(out.data + to * block, block, seed_of(me.rank, to));
            const Pinned in = me.memory(block * size, in_arena);
            me.wait(me.start(me.load(alltoall(me.rank, size, block)), out, in));
            for (Rank from = 0; from < size; ++from)
              CHECK_EQ(first_difference(in.data + from * block, block, seed_of(from, me.rank)), block);

            const auto gather = me.load(ring_allgather(me.rank, size, block));
            for (int repeat = 0; repeat < 2; ++repeat) {  // the second time with the first one's temporary buffer
              const Pinned mine = me.filled(block, in_arena, me.rank + repeat);
              const Pinned all = me.memory(block * size, in_arena);
              me.wait(me.start(gather, mine, all));
              for (Rank from = 0; from < size; ++from)
                CHECK_EQ(first_difference(all.data + from * block, block, from + repeat), block);
            }

            const Pinned piece = me.memory(block * 3, in_arena);
            if (me.rank == 0) fill(piece.data, block * 3, 99);
            me.wait(me.start(me.load(chain_broadcast(me.rank, size, block * 3, block / 2 + 1)), {}, piece));
            check_data(piece, 99);
          }
        }
      });
    }
  }
}

TEST(one_plan_may_run_many_times_at_once) {
  run_ranks(3, {}, [&](TestRank& me, Meeting&) {
    constexpr size_t kBlock = 3000;
    const auto plan = me.load(ring_allgather(me.rank, me.size, kBlock));
    std::vector<std::pair<uint32_t, Pinned>> running;
    for (uint32_t i = 0; i < 20; ++i) {
      const Pinned all = me.plain(kBlock * me.size);
      running.emplace_back(me.start(plan, me.filled(kBlock, false, i * 10 + me.rank), all), all);
    }
    for (uint32_t i = 20; i-- > 0;) {
      me.wait(running[i].first);
      for (Rank from = 0; from < me.size; ++from)
        CHECK_EQ(first_difference(running[i].second.data + from * kBlock, kBlock, i * 10 + from), kBlock);
    }
  });
}

// A round may hold more messages between two ranks than any mailbox, RTR array or bulk array has room for; the waiting
// receiver must take them as they come, although its operation needs all of them.
TEST(a_round_may_exceed_every_array) {
  for (const size_t bytes : {size_t{8}, size_t{600}, size_t{100'000}}) {
    for (const RankOptions& options : modes()) {
      for (const uint32_t eager_limit : {255u, 4096u, kLargestEagerLimit}) {
        RankOptions limited = options;
        limited.eager_limit = eager_limit;
        limited.compact_from = eager_limit == 4096 ? 1 : 4;
        run_ranks(3, limited, [&](TestRank& me, Meeting&) {
          const uint32_t count = bytes < 1000 ? 500 : 40;
          Schedule schedule(bytes * count, bytes * count);
          schedule.round();
          for (uint32_t i = 0; i < count; ++i) {
            if (me.rank == 0) schedule.send(1, Role::send, i * bytes, bytes);
            if (me.rank == 1) schedule.receive(0, Role::receive, i * bytes, bytes);
          }
          const Pinned in = me.plain(bytes * count);
          // Late, so that the receiver has gone to sleep.
          if (me.rank == 0) compute(milliseconds(2));
          me.wait(me.start(me.load(schedule), me.filled(bytes * count, false, 5), in));
          if (me.rank == 1) check_data(in, 5);
        });
      }
    }
  }
}

// --- independent progress --------------------------------------------------------------------------------------------

// Starts a large exchange on each rank, computes without any call, and asks once. True if every rank was told that it
// is done.
bool lands_while_computing(const RankOptions& options, bool in_arena, microseconds time) {
  std::atomic<uint32_t> done{0};
  run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
    constexpr size_t kBlock = 2u << 20;
    const auto plan = me.load(alltoall(me.rank, me.size, kBlock));
    const Pinned out = me.filled(kBlock * 2, in_arena, me.rank);
    const Pinned in = me.memory(kBlock * 2, in_arena);
    meeting.meet();
    const uint32_t request = me.start(plan, out, in);
    compute(time);
    if (me.test(request)) done.fetch_add(1);
    meeting.meet();
    me.wait(request);
    const Rank peer = 1 - me.rank;
    for (size_t i = 0; i < kBlock; i += 4097) CHECK(in.data[peer * kBlock + i] == byte_of(peer, me.rank * kBlock + i));
  });
  return done.load() == 2;
}

TEST(operations_land_while_the_callers_compute) {
  for (const bool in_arena : {false, true}) {
    for (const bool cross_memory : {true, false}) {
      RankOptions options;
      options.cross_memory = cross_memory;
      // No time is known to be enough on a loaded machine. If nothing moves by itself, none is.
      bool landed = false;
      for (int time = 10; time < 100'000 && !landed; time *= 4)
        landed = lands_while_computing(options, in_arena, milliseconds(time));
      CHECK(landed);
    }
  }
}

TEST(nothing_large_moves_in_manual_mode_without_calls) {
  RankOptions options;
  options.progress_thread = false;
  for (const bool in_arena : {false, true}) CHECK(!lands_while_computing(options, in_arena, milliseconds(20)));
}

TEST(rounds_advance_while_the_callers_compute) {
  run_ranks(3, {}, [&](TestRank& me, Meeting&) {
    constexpr size_t kBlock = 1000;
    const auto plan = me.load(ring_allgather(me.rank, me.size, kBlock));
    for (uint32_t i = 0; i < repetitions(300, 100); ++i) {
      const Pinned all = me.plain(kBlock * me.size);
      const uint32_t before = me.notifications.load();
      const uint32_t request = me.start(plan, me.filled(kBlock, false, i + me.rank), all);
      if (request != kNoRequest) {
        me.watch(request);
        // From here on only the progress thread works. If it does not, the watchdog ends this.
        while (!me.done(request) || me.notifications.load(std::memory_order_acquire) == before) sched_yield();
        me.finish(request);
      }
      for (Rank from = 0; from < me.size; ++from)
        CHECK_EQ(first_difference(all.data + from * kBlock, kBlock, i + from), kBlock);
    }
  });
}

// The receiver has posted everything and makes no call any more; the sender's requests end only if what arrives is
// taken.
TEST(more_messages_than_slots_land_while_the_receiver_computes) {
  for (const size_t bytes : {size_t{8}, size_t{600}, size_t{100'000}}) {
    for (const bool cross_memory : {true, false}) {
      RankOptions options;
      options.cross_memory = cross_memory;
      std::atomic<bool> sent{false};
      run_ranks(2, options, [&](TestRank& me, Meeting&) {
        const uint32_t count = bytes < 1000 ? 500 : 40;
        std::vector<uint32_t> requests;
        std::vector<Pinned> blocks;
        if (me.rank == 0) {
          for (uint32_t i = 0; i < count; ++i) requests.push_back(me.isend(me.filled(bytes, false, i), 1, 0));
          for (const uint32_t request : requests) me.wait(request);
          sent.store(true, std::memory_order_release);
        } else {
          for (uint32_t i = 0; i < count; ++i) {
            blocks.push_back(me.plain(bytes));
            requests.push_back(me.irecv(blocks.back(), 0, 0));
          }
          while (!sent.load(std::memory_order_acquire)) sched_yield();
          me.engine->test();
          for (const uint32_t request : requests) {
            CHECK(me.done(request));
            me.finish(request);
          }
          for (uint32_t i = 0; i < count; ++i) check_data(blocks[i], i);
        }
      });
    }
  }
}

// The same many times with the smallest messages: a wake-up that is lost once stops this.
TEST(no_wake_up_is_lost_between_caller_progress_thread_and_peers) {
  const uint32_t count = repetitions(30'000, 6'000);
  for (const Rank size : {2u, 3u}) {
    run_ranks(size, {}, [&](TestRank& me, Meeting&) {
      Random random(me.rank);
      const Rank to = (me.rank + 1) % me.size;
      const Rank from = (me.rank + me.size - 1) % me.size;
      for (uint32_t i = 0; i < count / size; ++i) {
        const size_t bytes = i % 4 == 0 ? 300 : 8;
        const Pinned in = me.plain(bytes);
        const uint32_t receive = me.irecv(in, from, 0);
        const uint32_t send = me.isend(me.filled(bytes, false, i), to, 0);
        for (const uint32_t request : {receive, send}) {
          if (request == kNoRequest) continue;
          switch (random.below(3)) {
            case 0:
              me.watch(request);
              while (!me.done(request)) sched_yield();
              me.finish(request);
              break;
            case 1:
              while (!me.test(request)) sched_yield();
              me.finish(request);
              break;
            default:
              me.wait(request);
          }
        }
        check_data(in, i);
      }
    });
  }
}

// Ranks are interrupted at random points for as long as waking a thread takes, so that what lies between two
// instructions of the library takes long enough for others to come in between. An interrupt also ends a sleep: so a
// rank is interrupted only after it got on, and one that has lost its wake-up is left alone.
void pause_for_a_while(int) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t begin = now.tv_nsec;
  const int64_t length = 5'000 + begin / 64 % 60'000;
  int64_t passed = 0;
  while (passed < length) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    passed = (now.tv_nsec - begin + 1'000'000'000) % 1'000'000'000;
  }
}

// Interrupts threads by a signal, each somewhere in each of its steps, for as long as it lives.
class Interrupter {
 public:
  static constexpr Rank kThreads = 3;
  Interrupter() : thread_([this] { run(); }) {}
  ~Interrupter() {
    over_.store(true, std::memory_order_release);
    thread_.join();
  }
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

 private:
  struct alignas(64) Line {
    std::atomic<uint32_t> steps{0};
    std::mutex mutex;  // guards the thread's life
    pthread_t thread{};
    bool alive = false;
  };

 public:
  // The calling thread may be interrupted as long as this lives.
  class Turn {
   public:
    Turn(Interrupter& interrupter, Rank rank) : line_(interrupter.lines_[rank]) { set(true); }
    ~Turn() { set(false); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void step() { line_.steps.fetch_add(1, std::memory_order_relaxed); }

   private:
    void set(bool alive) {
      const std::lock_guard<std::mutex> guard(line_.mutex);
      line_.thread = pthread_self();
      line_.alive = alive;
    }
    Line& line_;
  };

 private:
  void run() {
    Random random(1);
    uint32_t seen[kThreads] = {};
    while (!over_.load(std::memory_order_acquire)) {
      const Rank rank = random.below(kThreads);
      const uint32_t steps = lines_[rank].steps.load(std::memory_order_relaxed);
      if (steps == seen[rank]) {
        sched_yield();
        continue;
      }
      seen[rank] = steps;
      // At any point of the step.
      for (uint32_t spin = random.below(3000); spin > 0; --spin) over_.load(std::memory_order_relaxed);
      const std::lock_guard<std::mutex> guard(lines_[rank].mutex);
      if (lines_[rank].alive) pthread_kill(lines_[rank].thread, SIGUSR1);
    }
  }

  Line lines_[kThreads];
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(no_wake_up_is_lost_by_ranks_that_are_interrupted_anywhere) {
  struct sigaction action = {};
  action.sa_handler = pause_for_a_while;
  sigaction(SIGUSR1, &action, nullptr);
  Interrupter interrupter;
  run_ranks(Interrupter::kThreads, {}, [&](TestRank& me, Meeting&) {
    Interrupter::Turn turn(interrupter, me.rank);
    Random random(me.rank);
    const Rank to = (me.rank + 1) % me.size;
    const Rank from = (me.rank + me.size - 1) % me.size;
    for (uint32_t i = 0; i < repetitions(12'000, 1'500); ++i) {
      turn.step();
      const Pinned in = me.plain(16);
      const uint32_t receive = me.irecv(in, from, 0);
      me.send(me.filled(16, false, i), to, 0);
      if (receive != kNoRequest && random.one_in(2)) {
        me.watch(receive);
        while (!me.done(receive)) sched_yield();
      }
      me.wait(receive);
      check_data(in, i);
    }
  });
}

TEST(watchers_are_told_once_and_also_about_what_is_over) {
  run_ranks(2, {}, [&](TestRank& me, Meeting& meeting) {
    if (me.rank == 0) {
      const Pinned in = me.plain(8);
      const uint32_t request = me.irecv(in, 1, 0);
      CHECK(request != kNoRequest);
      me.watch(request);
      me.watch(request);
      meeting.meet();
      while (me.notifications.load(std::memory_order_acquire) == 0) sched_yield();
      CHECK(me.done(request));
      check_data(in, 3);
      const uint32_t before = me.notifications.load();
      me.watch(request);
      CHECK_EQ(me.notifications.load(), before + 1);
      me.finish(request);
    } else {
      meeting.meet();
      me.send(me.filled(8, false, 3), 0, 0);
    }
  });
}

TEST(wait_on_send_and_startall_move_rendezvous_in_manual_mode) {
  need_cross_memory();
  for (const bool startall : {false, true}) {
    RankOptions options;
    options.progress_thread = false;
    (startall ? options.startall_us : options.wait_on_send_us) = 20'000'000;
    run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
      constexpr size_t kBytes = 1u << 20;
      Schedule schedule(kBytes, kBytes);
      schedule.round();
      if (me.rank == 0) schedule.send(1, Role::send, 0, kBytes);
      if (me.rank == 1) schedule.receive(0, Role::receive, 0, kBytes);
      const Pinned in = me.plain(kBytes);
      meeting.meet();  // a receiver that is alone cannot send its RTR, and nobody calls later
      const uint32_t request = me.start(me.load(schedule), me.filled(kBytes, false, 8), in);
      // The sender's start has caught the RTR and moved the data.
      if (me.rank == 0) CHECK(me.test(request));
      meeting.meet();
      if (me.rank == 1) {
        CHECK(me.test(request));
        check_data(in, 8);
      }
      me.finish(request);
    });
  }
}

TEST(the_startall_call_drives_sends_of_several_requests) {
  need_cross_memory();
  RankOptions options;
  options.progress_thread = false;
  run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
    constexpr size_t kBytes = 50'000;
    std::vector<uint32_t> requests;
    std::vector<Pinned> blocks;
    if (me.rank == 0) {
      for (uint32_t i = 0; i < 10; ++i) requests.push_back(me.isend(me.filled(kBytes, false, i), 1, i));
      meeting.meet();
      me.engine->startall(requests.data(), requests.size(), 20'000'000);
      for (const uint32_t request : requests) CHECK(me.test(request));
      meeting.meet();
    } else {
      meeting.meet();
      for (uint32_t i = 0; i < 10; ++i) {
        blocks.push_back(me.plain(kBytes));
        requests.push_back(me.irecv(blocks.back(), 0, i));
      }
      meeting.meet();
      for (const uint32_t request : requests) CHECK(me.test(request));
      for (uint32_t i = 0; i < 10; ++i) check_data(blocks[i], i);
    }
    for (const uint32_t request : requests) me.finish(request);
  });
}

// --- random mixes ----------------------------------------------------------------------------------------------------

void random_mix_on(Rank size, const RankOptions& options, uint64_t seed, uint32_t steps) {
  run_ranks(size, options, [&](TestRank& me, Meeting&) { random_mix(me, seed, steps); });
}

// As on a host with many ranks, by the default limit of JavaScript: payloads lie apart from their headers.
RankOptions compact(bool progress_thread) {
  static_assert(libof::has_heads(4096));
  RankOptions options = mode(progress_thread);
  options.eager_limit = 4096;
  options.compact_from = 1;
  return options;
}

TEST(random_mixes_with_compact_mailboxes) {
  RankOptions options = compact(true);
  random_mix_on(3, options, 105, repetitions(300, 100));
  options.progress_thread = false;
  options.unexpected_window = 4;
  random_mix_on(3, options, 106, repetitions(300, 100));
}

TEST(random_mixes_with_other_options) {
  RankOptions options;
  options.test_on_init = false;
  random_mix_on(3, options, 100, repetitions(300, 100));
  options.progress_thread = false;
  random_mix_on(3, options, 101, repetitions(300, 100));
  options = {};
  options.eager_limit = 0;
  random_mix_on(3, options, 102, repetitions(300, 100));
  options.eager_limit = kLargestEagerLimit;
  options.unexpected_window = 4;
  random_mix_on(3, options, 103, repetitions(300, 100));
  options = {};
  options.wait_on_send_us = 20;
  options.startall_us = 20;
  random_mix_on(3, options, 104, repetitions(300, 100));
}

// A batch of small operations at a time, all ways to look at them, while the progress thread is at it as well.
TEST(start_test_and_wait_race_with_the_progress_thread) {
  run_ranks(2, {}, [&](TestRank& me, Meeting&) {
    Random random(me.rank + 7);
    const Rank peer = 1 - me.rank;
    for (uint32_t round = 0; round < repetitions(1500, 300); ++round) {
      std::vector<uint32_t> requests;
      std::vector<std::pair<Pinned, uint64_t>> arriving;
      for (uint32_t i = 0; i < 12; ++i) {
        const size_t bytes = i % 3 == 0 ? 400 : i % 7 == 0 ? 70'000 : 16;
        arriving.emplace_back(me.memory(bytes, i % 2 == 0), round * 100 + i);
        requests.push_back(me.irecv(arriving.back().first, peer, i));
        requests.push_back(me.isend(me.filled(bytes, i % 4 == 0, round * 100 + i), peer, i));
        if (random.one_in(4)) me.engine->test();
      }
      std::vector<uint32_t> pending;
      for (const uint32_t request : requests) {
        if (request == kNoRequest) continue;
        if (random.one_in(5)) me.watch(request);
        pending.push_back(request);
      }
      while (pending.size() > 3) {
        if (random.one_in(2)) {
          CHECK(me.engine->wait(pending.data(), pending.size(), false, -1));
        } else {
          me.engine->test();
        }
        for (size_t i = 0; i < pending.size();) {
          if (me.done(pending[i])) {
            me.finish(pending[i]);
            pending[i] = pending.back();
            pending.pop_back();
          } else {
            ++i;
          }
        }
      }
      if (!pending.empty()) CHECK(me.engine->wait(pending.data(), pending.size(), true, -1));
      for (const uint32_t request : pending) me.finish(request);
      for (const auto& [block, seed] : arriving) check_data(block, seed);
    }
  });
}

TEST(waiting_has_a_limit) {
  for (const RankOptions& options : modes()) {
    run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
      if (me.rank == 0) {
        const Pinned in = me.plain(1000);
        const uint32_t request = me.irecv(in, 1, 0);
        CHECK(!me.engine->wait(&request, 1, true, 0));
        CHECK(!me.engine->wait(&request, 1, true, 3'000'000));
        CHECK(!me.engine->wait(&request, 1, false, 100));
        CHECK(!me.done(request));
        meeting.meet();
        me.wait(request);  // still pending, and still able to end
        check_data(in, 4);
      } else {
        meeting.meet();
        me.send(me.filled(1000, false, 4), 0, 0);
      }
    });
  }
}

// --- ends, late arrivals, disagreement -------------------------------------------------------------------------------

// A short message to private memory is sent when it lies in a buffer of the sender. The sender may close then, and give
// its exposed memory back, before the receiver looks.
TEST(a_sender_closes_before_its_short_message_is_read) {
  for (const bool progress : {true, false}) {
    RankOptions options;
    options.progress_thread = progress;
    run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
      constexpr size_t kBytes = 20'000;
      meeting.meet();  // an RTR to a rank that has not opened waits for the receiver's next call
      if (me.rank == 0) {
        meeting.meet();
        me.send(me.filled(kBytes, false, 3), 1, 0);
        CHECK_EQ(me.counter("stagedBytes"), double{kBytes});
        me.close();
        me.arena.reset();
        meeting.meet();
      } else {
        const Pinned in = me.plain(kBytes);
        const uint32_t request = me.irecv(in, 0, 0);
        meeting.meet();
        meeting.meet();
        CHECK(me.test(request));
        CHECK_EQ(me.error(request), Error::none);
        check_data(in, 3);
        me.finish(request);
      }
    });
  }
}

// A sender that closes in the middle of a large message: its receiver gets all of it, or an error; never something
// else.
TEST(closing_in_the_middle_of_a_large_message) {
  for (const bool cross_memory : {true, false}) {
    for (const bool in_arena : {false, true}) {
      for (const size_t bytes : {size_t{1000}, size_t{100'000}, size_t{200'000}, size_t{2} << 20}) {
        for (uint32_t attempt = 0; attempt < 4; ++attempt) {
          RankOptions options;
          options.cross_memory = cross_memory;
          options.progress_thread = attempt % 2 == 0;
          run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
            meeting.meet();
            if (me.rank == 0) {
              const uint32_t request = me.isend(me.filled(bytes, in_arena, 6), 1, 0);
              meeting.meet();  // the RTR is there
              if (attempt >= 2) me.engine->test();
              me.close();
              CHECK(me.error(request) == Error::none || me.error(request) == Error::closed);
              meeting.meet();
            } else {
              const Pinned in = me.plain(bytes);
              const uint32_t request = me.irecv(in, 0, 0);
              meeting.meet();
              meeting.meet();
              if (!me.done(request)) CHECK(me.engine->wait(&request, 1, true, -1));
              if (me.error(request) == Error::none) {
                check_data(in, 6);
              } else {
                CHECK_EQ(me.error(request), Error::peer_closed);
              }
            }
          });
        }
      }
    }
  }
}

// A receiver that closes in the middle of a large message. The sender learns that it has closed, and not that an
// operation failed there. If the sender goes on meanwhile, it may write all of the message before.
TEST(a_receiver_closes_in_the_middle_of_a_large_message) {
  constexpr size_t kBytes = size_t{16} << 20;
  for (const bool cross_memory : {true, false}) {
    for (const bool in_arena : {false, true}) {
      for (const bool meanwhile : {false, true}) {
        RankOptions options;
        options.cross_memory = cross_memory;
        options.progress_thread = false;
        run_ranks(2, options, [&](TestRank& me, Meeting& meeting) {
          meeting.meet();
          if (me.rank == 0) {
            meeting.meet();  // the RTR is there
            const uint32_t request = me.isend(me.filled(kBytes, in_arena, 6), 1, 0);
            me.engine->test();
            meeting.meet();
            if (!meanwhile) meeting.meet();  // the receiver has closed
            const Error error = me.failure(request);
            if (!meanwhile || error != Error::none) CHECK_EQ(error, Error::peer_closed);
          } else {
            const uint32_t request = me.irecv(me.plain(kBytes), 0, 0);
            meeting.meet();
            meeting.meet();
            me.close();
            CHECK_EQ(me.error(request), Error::closed);
            if (!meanwhile) meeting.meet();
          }
        });
      }
    }
  }
}

// One message of an operation fails at once, another is still on its way when the world closes.
TEST(closing_after_a_failure_that_was_reported) {
  run_ranks(2, {}, [&](TestRank& me, Meeting& meeting) {
    Schedule schedule(100, 2000);
    schedule.round();
    if (me.rank == 0) {
      schedule.receive(1, Role::receive, 0, 100).receive(1, Role::receive, 1000, 1000);
      const uint32_t request = me.start(me.load(schedule), me.plain(100), me.plain(2000));
      meeting.meet();
      CHECK_EQ(me.failure(request), Error::truncated);
      me.close();
      CHECK_EQ(me.error(request), Error::truncated);
    } else {
      schedule.send(0, Role::send, 0, 50);
      me.wait(me.start(me.load(schedule), me.plain(100), me.plain(2000)));
      meeting.meet();
    }
  });
}

TEST(sizes_that_differ_are_an_error_and_not_an_overflow) {
  for (const RankOptions& options : modes()) {
    run_ranks(2, options, [&](TestRank& me, Meeting&) {
      const std::pair<size_t, size_t> pairs[] = {{100, 50},          {50, 100},      {1000, 999}, {500, 1000},
                                                 {300'000, 299'999}, {300, 200'000}, {10, 1000}};
      uint32_t tag = 0;
      for (const auto& [sent, awaited] : pairs) {
        const bool eager = sent <= 255;
        // A message may be shorter than the buffer that it is received into.
        const Error expected = sent > awaited ? Error::truncated : Error::none;
        const auto outcome = [&](uint32_t request) {
          return request == kNoRequest ? Error::none : me.failure(request);
        };
        if (me.rank == 0) {
          const uint32_t request = me.isend(me.filled(sent, false, 1), 1, tag);
          CHECK_EQ(outcome(request), eager ? Error::none : expected);
        } else {
          const Pinned in = me.filled(awaited, false, 2);
          CHECK_EQ(outcome(me.irecv(in, 0, tag)), expected);
          if (expected == Error::none) {
            CHECK_EQ(first_difference(in.data, sent, 1), sent);
          } else {
            check_data(in, 2);
          }
        }
        ++tag;
      }
    });
  }
}

// A schedule's empty message is a message: only so do both ranks hear that the other one expects something else.
TEST(an_empty_message_of_a_schedule_meets_one_that_is_not) {
  for (const RankOptions& options : modes()) {
    for (const auto& [sent, awaited] : {std::pair<size_t, size_t>{0, 8}, {8, 0}, {0, 1000}, {1000, 0}}) {
      run_ranks(2, options, [&, sent = sent, awaited = awaited](TestRank& me, Meeting&) {
        Schedule schedule(1000, 1000);
        schedule.round();
        if (me.rank == 0) {
          const uint32_t request =
              me.start(me.load(schedule.send(1, Role::send, 0, sent)), me.plain(1000), me.plain(1000));
          // A small message may leave before its sender learns of the disagreement.
          const Error error = request == kNoRequest ? Error::none : me.failure(request);
          CHECK(error == Error::truncated || (sent <= 255 && error == Error::none));
        } else {
          const auto plan = me.load(schedule.receive(0, Role::receive, 0, awaited));
          CHECK_EQ(me.failure(me.start(plan, me.plain(1000), me.plain(1000))), Error::truncated);
        }
      });
    }
  }
}

// Rank 1 sends the wrong size and rank 2 nothing until rank 0, which sleeps for two arrivals, has failed.
void fail_while_asleep(const std::function<void(TestRank&, uint32_t)>& until_done) {
  const auto segment = make_segment(3);
  const auto make = [&](Rank rank) { return shm_fabric(segment, rank, mode(true)); };
  run_ranks_over(3, mode(true), make, [&](TestRank& me, Meeting& meeting) {
    constexpr size_t kBytes = 8;
    for (uint32_t i = 0; i < 2; ++i) {
      Schedule schedule(2 * kBytes, 2 * kBytes);
      schedule.round();
      if (me.rank == 0) {
        schedule.receive(1, Role::receive, 0, kBytes).receive(2, Role::receive, kBytes, kBytes);
        const uint32_t request = me.start(me.load(schedule), me.plain(2 * kBytes), me.plain(2 * kBytes));
        meeting.meet();
        until_done(me, request);
        CHECK_EQ(me.failure(request), Error::truncated);
        meeting.meet();
      } else {
        schedule.send(0, Role::send, 0, me.rank == 1 ? 2 * kBytes : kBytes);
        meeting.meet();
        while (me.rank == 1 && !shm::doorbell_is_armed(segment->line(0).bell)) sched_yield();
        if (me.rank == 2) meeting.meet();
        me.wait(me.start(me.load(schedule), me.plain(2 * kBytes), me.plain(2 * kBytes)));
        if (me.rank == 1) meeting.meet();
      }
    }
  });
}

TEST(a_caller_that_sleeps_sees_an_error_before_the_last_arrival) {
  fail_while_asleep([](TestRank& me, uint32_t request) { CHECK(me.engine->wait(&request, 1, true, -1)); });
}

TEST(a_progress_thread_that_sleeps_sees_an_error_before_the_last_arrival) {
  fail_while_asleep([](TestRank& me, uint32_t request) {
    me.slots->exchange()[0] = request;
    me.engine->look(1, 0);
    while (!me.done(request)) sched_yield();
  });
}

TEST(a_late_rank_is_waited_for) {
  for (const RankOptions& options : modes()) {
    const auto segment = make_segment(3);
    Meeting started(3);
    Meeting end(3);
    run_threads(3, [&](Rank rank) {
      if (rank == 2) {
        started.meet();  // the others have started, and may sleep
        compute(milliseconds(1));
      }
      TestRank me(segment, rank, options);
      const Pinned in = me.plain(3000);
      const uint32_t request = me.start(me.load(ring_allgather(rank, 3, 1000)), me.filled(1000, false, rank), in);
      if (rank != 2) {
        if (options.progress_thread) me.watch(request);
        started.meet();
      }
      me.wait(request);
      for (Rank from = 0; from < 3; ++from) CHECK_EQ(first_difference(in.data + from * 1000, 1000, from), 1000u);
      end.meet();
    });
  }
}

TEST(a_rank_is_opened_once) {
  const auto segment = make_segment(1);
  TestRank first(segment, 0);
  bool refused = false;
  try {
    TestRank second(segment, 0);
  } catch (const FabricError& error) {
    refused = !error.message.empty();
  }
  CHECK(refused);
}

// One rank may forbid cross-memory attach and another not.
TEST(ranks_may_differ_in_cross_memory) {
  const auto segment = make_segment(2);
  Meeting end(2);
  run_threads(2, [&](Rank rank) {
    RankOptions options;
    options.cross_memory = rank == 0;
    TestRank me(segment, rank, options);
    for (const size_t bytes : {size_t{300}, size_t{1} << 20}) {
      Schedule schedule(bytes * 8, bytes * 8);
      schedule.round();
      for (uint32_t i = 0; i < 8; ++i)
        schedule.receive(1 - rank, Role::receive, i * bytes, bytes).send(1 - rank, Role::send, i * bytes, bytes);
      const auto plan = me.load(schedule);
      for (int repeat = 0; repeat < 5; ++repeat) {
        const Pinned in = me.plain(bytes * 8);
        if (rank == 1) compute(microseconds(300));
        me.wait(me.start(plan, me.filled(bytes * 8, false, repeat), in));
        check_data(in, repeat);
      }
    }
    end.meet();
  });
}

// --- a flood ---------------------------------------------------------------------------------------------------------

TEST(a_flood_from_one_peer_harms_nobody) {
  for (const RankOptions& options : modes()) {
    run_ranks(3, options, [&](TestRank& me, Meeting&) {
      constexpr uint32_t kFlood = 3000;
      if (me.rank == 0) {
        std::vector<uint32_t> requests;
        for (uint32_t i = 0; i < kFlood; ++i) requests.push_back(me.isend(me.filled(100, false, i), 1, 1));
        requests.push_back(me.isend(me.filled(20, false, 77), 1, 2));
        for (const uint32_t request : requests) me.wait(request);
      } else if (me.rank == 1) {
        const Pinned behind = me.plain(20);
        const uint32_t awaited = me.irecv(behind, 0, 2);
        for (uint32_t i = 0; i < 300; ++i) {
          const Pinned in = me.plain(100);
          me.receive(in, 2, 1);
          check_data(in, i);
        }
        me.wait(awaited);
        check_data(behind, 77);
        CHECK(me.counter("eagerUnexpected") <= 1024 + 300);  // the window of rank 0, and what rank 2 sends at all
        for (uint32_t i = 0; i < kFlood; ++i) {
          const Pinned in = me.plain(100);
          me.receive(in, 0, 1);
          check_data(in, i);
        }
      } else {
        for (uint32_t i = 0; i < 300; ++i) me.send(me.filled(100, false, i), 1, 1);
      }
    });
  }
}

// --- the memory of a pair --------------------------------------------------------------------------------------------

// Of a mailbox of rank 0: a bit for each page that has ever been touched.
uint32_t touched(const job::Segment& segment) {
  const size_t page = job::system_page();
  unsigned char there[job::kPairBytes / 4096] = {};
  CHECK_EQ(mincore(segment.pair(0, 1), job::kPairBytes, there), 0);
  uint32_t bits = 0;
  for (size_t i = 0; i < job::kPairBytes / page; ++i) bits |= (there[i] & 1u) << i;
  return bits;
}

// A job of n ranks has n² pairs. Page 0 has what large messages need, page 1 the heads, then come the bodies.
TEST(messages_touch_few_pages_of_a_mailbox) {
  constexpr uint32_t kRounds = 500;
  constexpr uint32_t kBurst = 100;
  if (job::system_page() != 4096) throw Skip{"pages are not of 4 KiB here"};
  const RankOptions options = compact(false);
  const auto segment = make_segment(2);
  const auto make = [&](Rank rank) { return shm_fabric(segment, rank, options); };
  run_ranks_over(2, options, make, [&](TestRank& me, Meeting& meeting) {
    const Rank peer = 1 - me.rank;
    const auto exchange = [&](size_t bytes) {
      for (uint32_t i = 0; i < kRounds; ++i) {
        const Pinned in = me.plain(bytes);
        const uint32_t receive = me.irecv(in, peer, 1);
        me.wait(me.isend(me.filled(bytes, false, i), peer, 1));
        me.wait(receive);
        check_data(in, i);
      }
    };
    const auto expect = [&](const char* what, uint32_t pages, uint32_t more) {
      meeting.meet();
      const uint32_t there = touched(*segment);
      if (me.rank == 0) std::printf("  %s: pages %#x\n", what, there);
      CHECK((there & pages) == pages && (there & ~(pages | more)) == 0);
      meeting.meet();
    };
    meeting.meet();  // who sends to a rank that has not opened looks for RTRs
    exchange(libof::kInHead);
    expect("small messages", 0b10, 0);
    // One way only: counts of what has come leave as a message of their own, in the AckLine.
    for (uint32_t i = 0; i < kRounds; ++i) {
      if (me.rank == 0) me.send(me.filled(8, false, i), 1, 2);
      if (me.rank == 1) me.receive(me.plain(8), 0, 2);
      if (i % 4 == 0) meeting.meet();  // nobody finds the slots full, and looks for RTRs
    }
    CHECK(me.rank == 0 || me.counter("acksExplicit") > 0);
    expect("one way", 0b10, 0);
    exchange(4096);
    expect("with bodies", 0b110, 0b1000);
    // As many as there are slots are on their way.
    if (me.rank == 1) {
      for (uint32_t i = 0; i < kBurst; ++i) me.isend(me.filled(4096, false, i), 0, 3);
      meeting.meet();
      me.send(me.plain(8), 0, 4);
    } else {
      meeting.meet();
      for (uint32_t i = 0; i < kBurst; ++i) {
        const Pinned in = me.plain(4096);
        me.receive(in, 1, 3);
        check_data(in, i);
      }
      me.receive(me.plain(8), 1, 4);
    }
    expect("a burst", 0xfffe, 0);
    exchange(100'000);
    expect("large messages", 0xffff, 0);
  });
}

// Where the payload of a message lies is not believed.
TEST(a_body_that_there_is_not_is_rejected) {
  const RankOptions options = compact(false);
  const auto segment = make_segment(2);
  const auto make = [&](Rank rank) { return shm_fabric(segment, rank, options); };
  run_ranks_over(2, options, make, [&](TestRank& me, Meeting& meeting) {
    if (me.rank == 1) {
      me.send(me.filled(300, false, 1), 0, 1);
      auto& header = *reinterpret_cast<libof::EagerHeader*>(segment->pair(0, 1) + kControlBytes + job::kBulkBytes);
      CHECK_EQ(header.bytes, 300);
      CHECK_EQ(header.body, 0);
      header.body = libof::eager_slots(4096);
      meeting.meet();
    } else {
      meeting.meet();
      CHECK_EQ(me.failure(me.irecv(me.plain(300), 1, 1)), Error::unreachable);
    }
    meeting.meet();
  });
}

// Rank 1 is stopped in the middle of a copy, as the gate says that it passes: it has no progress thread, and makes no
// call. Rank 2 sends a block of a wrong size.
TEST(a_peer_that_is_stopped_amid_a_copy_does_not_delay_an_error_for_ever) {
  constexpr size_t kBlock = 100'000;
  for (const bool progress_thread : {true, false}) {
    for (const bool watched : {false, true}) {
      if (watched && !progress_thread) continue;
      RankOptions options = mode(progress_thread);
      options.revoke_limit = 300;
      const auto segment = make_segment(3);
      const auto make = [&](Rank rank) { return shm_fabric(segment, rank, options); };
      const OptionsOf options_of = [&](Rank rank) {
        RankOptions own = options;
        own.progress_thread = progress_thread && rank != 1;
        return own;
      };
      run_ranks_over(3, options_of, make, [&](TestRank& me, Meeting& meeting) {
        auto& gate = *reinterpret_cast<shm::Gate*>(segment->pair(0, 1) + kControlBytes - kFabricBytes);
        Schedule schedule(kBlock, 2 * kBlock);
        schedule.round();
        if (me.rank == 0) schedule.receive(1, Role::receive, 0, kBlock).receive(2, Role::receive, kBlock, kBlock);
        if (me.rank != 0) schedule.send(0, Role::send, 0, me.rank == 1 ? kBlock : kBlock / 2);
        const auto plan = me.load(schedule);
        std::weak_ptr<void> buffer;
        if (me.rank == 0) {
          gate.inside.store(1);
          Pinned in = me.plain(2 * kBlock);
          buffer = in.keeper;
          const uint32_t request = me.start(plan, me.plain(kBlock), std::move(in));
          meeting.meet();
          if (watched) {
            me.watch(request);
            while (!me.done(request)) sched_yield();
          }
          CHECK_EQ(me.failure(request), Error::truncated);
          CHECK(me.engine->failure(request).buffers_in_use);
          CHECK(!buffer.expired());
          gate.inside.store(2);  // it goes on
          meeting.meet();
        } else {
          meeting.meet();
          if (me.rank == 2)
            CHECK_EQ(me.failure(me.start(plan, me.plain(kBlock), me.plain(2 * kBlock))), Error::truncated);
          meeting.meet();
          if (me.rank == 1)
            CHECK_EQ(me.failure(me.start(plan, me.plain(kBlock), me.plain(2 * kBlock))), Error::abandoned);
        }
        const Pinned in = me.plain(kBlock);
        const uint32_t receive = me.irecv(in, (me.rank + 2) % 3, 5);
        me.wait(me.isend(me.filled(kBlock, false, me.rank), (me.rank + 1) % 3, 5));
        me.wait(receive);
        check_data(in, (me.rank + 2) % 3);
        meeting.meet();
        CHECK(me.rank != 0 || !buffer.expired());
      });
    }
  }
}

// After the error a buffer is the user's again, whatever peers that know nothing of it do later.
TEST(a_buffer_is_left_alone_after_its_request_has_failed) {
  for (const bool progress_thread : {true, false}) {
    for (const bool cross_memory : {true, false}) {
      RankOptions options = mode(progress_thread);
      options.cross_memory = cross_memory;
      run_ranks(3, options, [&](TestRank& me, Meeting& meeting) {
        for (const size_t block : {8, 5000, 3'000'000}) late_block(me, meeting, block, false, progress_thread);
        late_block(me, meeting, 200'000, true, progress_thread);
      });
    }
  }
}

}  // namespace

TEST_MAIN(100)
