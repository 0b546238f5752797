// The event loop as a sleeper, over shared memory: a message wakes it by its descriptor, and what it does not look
// after, because it computes, the progress thread does. Nothing here has a time limit of its own: a wake-up that is
// lost stops the program, which is what the watchdog is for.
#include <algorithm>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>

#include "fabric/descriptor.h"
#include "test/no_descriptors.h"
#include "test/ranks.h"

namespace {

using namespace nbc;
using namespace nbc::check;

// What src/event-loop.ts and addon/event_loop.cc do.
class Loop {
 public:
  explicit Loop(TestRank& me)
      : me_(me),
        doorbell_(me.engine->open_loop()),
        notified_(std::make_shared<Descriptor>(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {
    CHECK(doorbell_ >= 0);
    me.on_notify = [notified = notified_] {
      const uint64_t one = 1;
      static_cast<void>(!::write(notified->get(), &one, sizeof one));
    };
  }

  // Watches the request, and goes back to the event loop.
  void await(uint32_t request, int64_t spin_nanoseconds) {
    if (request == kNoRequest) return;
    me_.slots->exchange()[0] = request;
    bool again = note(me_.engine->look(1, spin_nanoseconds)) > 0 || !me_.engine->rest();
    while (again) again = note(me_.engine->look(0, 0)) > 0 || !me_.engine->rest();
  }
  // The event loop sleeps, and is woken, until the request has ended.
  void run_until_done(uint32_t request) {
    while (!me_.done(request)) {
      pollfd set[] = {{doorbell_, POLLIN, 0}, {notified_->get(), POLLIN, 0}};
      ::poll(set, 2, -1);
      char some[64];
      if ((set[0].revents & POLLIN) != 0 && ::read(doorbell_, some, sizeof some) > 0) ++rung;
      uint64_t count;
      if (::read(notified_->get(), &count, sizeof count) > 0) ++notified;
      while (note(me_.engine->look(0, 0)) > 0 || !me_.engine->rest()) {
      }
    }
  }

  uint64_t rung = 0;
  uint64_t notified = 0;
  uint64_t ended = 0;

 private:
  size_t note(size_t count) {
    ended += count;
    return count;
  }
  TestRank& me_;
  int doorbell_;
  std::shared_ptr<Descriptor> notified_;
};

constexpr size_t kBytes = 8;

// How often event loops were rung by their doorbell, and by their progress thread.
struct Rings {
  std::atomic<uint64_t> doorbell{0};
  std::atomic<uint64_t> progress{0};
};

// Asks a rank without a pause what it waits for.
class Asker {
 public:
  explicit Asker(TestRank& me)
      : thread_([this, &me] {
          while (!stop_.load()) {
            const std::optional<Status> status = me.engine->ask(60'000);
            CHECK(status.has_value());
            ++answers[static_cast<size_t>(status->caller)];
          }
        }) {}
  ~Asker() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  uint64_t answers[3] = {0, 0, 0};  // by Status::Caller; valid when the thread has ended

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Two ranks send to each other, each sleeping, computing or waiting for what it receives, as chance has it.
// `reachable`: each can open the pipe of the other one's event loop. `asked`: somebody asks each what it does.
void exchange(uint32_t rounds, uint64_t seed, bool reachable, Rings& rings, std::atomic<uint64_t>* asked = nullptr) {
  run_ranks(2, mode(true), [&](TestRank& me, Meeting& meeting) {
    std::unique_ptr<Asker> asker;
    if (asked != nullptr) asker = std::make_unique<Asker>(me);
    Loop loop(me);
    meeting.meet();
    std::optional<NoDescriptors> none;
    if (!reachable && me.rank == 0) none.emplace();
    meeting.meet();
    Random random(seed + me.rank);
    for (uint32_t i = 0; i < rounds; ++i) {
      const Pinned in = me.plain(kBytes);
      const uint32_t receive = me.irecv(in, 1 - me.rank, 1);
      if (random.one_in(16)) sched_yield();
      const bool first = me.rank == i % 2;
      if (first) me.wait(me.isend(me.filled(kBytes, false, i), 1 - me.rank, 1));
      loop.await(receive, random.one_in(2) ? 0 : 20'000);
      switch (random.below(4)) {
        case 0:  // computes, and leaves all to the progress thread
          while (!me.done(receive)) sched_yield();
          break;
        case 1:
          CHECK(receive == kNoRequest || me.engine->wait(&receive, 1, true, -1));
          break;
        default:
          loop.run_until_done(receive);
      }
      me.finish(receive);
      check_data(in, i);
      if (!first) me.wait(me.isend(me.filled(kBytes, false, i), 1 - me.rank, 1));
    }
    if (asker != nullptr) {
      asker->stop();
      for (size_t i = 0; i < 3; ++i) asked[i] += asker->answers[i];
    }
    rings.doorbell += loop.rung;
    rings.progress += loop.notified;
    meeting.meet();
  });
}

TEST(no_wake_up_is_lost_that_the_event_loop_sleeps_for) {
  Rings rings;
  exchange(repetitions(20'000, 3'000), 1, true, rings);
  CHECK(rings.doorbell > 0);  // otherwise nothing was tested
}

// A thread that asks takes the engine for a moment, and rings: no wake-up is lost for that.
TEST(no_wake_up_is_lost_when_somebody_asks) {
  Rings rings;
  std::atomic<uint64_t> answers[3] = {};
  exchange(repetitions(5'000, 1'000), 3, true, rings, answers);
  for (const auto& count : answers) CHECK(count.load() > 0);  // in the program, in wait() and in the event loop
}

TEST(the_progress_thread_rings_where_the_peer_cannot) {
  Rings rings;
  exchange(repetitions(2'000, 500), 2, false, rings);
  CHECK(rings.doorbell == 0);
  CHECK(rings.progress > 0);
}

// All that is sent needs the receiver to take part, while that only computes after it has gone to its event loop.
TEST(what_the_event_loop_does_not_look_after_goes_on) {
  RankOptions options = mode(true);
  options.cross_memory = false;
  run_ranks(2, options, [](TestRank& me, Meeting& meeting) {
    Loop loop(me);
    for (uint32_t i = 0; i < repetitions(50, 10); ++i) {
      if (me.rank == 0) {
        const Pinned in = me.plain(1'000'000);
        const uint32_t receive = me.irecv(in, 1, i);
        loop.await(receive, 0);
        meeting.meet();
        while (!me.done(receive)) sched_yield();
        me.finish(receive);
        check_data(in, i);
      } else {
        meeting.meet();
        me.wait(me.isend(me.filled(1'000'000, false, i), 0, i));
      }
      meeting.meet();
    }
  });
}

// The event loop sleeps for two arrivals. The first is wrong; the second comes when the first has failed the operation.
TEST(an_event_loop_that_sleeps_hears_of_an_error_before_the_last_arrival) {
  const auto segment = make_segment(3);
  const auto make = [&](Rank rank) { return shm_fabric(segment, rank, mode(true)); };
  run_ranks_over(3, mode(true), make, [&](TestRank& me, Meeting& meeting) {
    Schedule schedule(2 * kBytes, 2 * kBytes);
    schedule.round();
    if (me.rank == 0) {
      Loop loop(me);
      schedule.receive(1, Role::receive, 0, kBytes).receive(2, Role::receive, kBytes, kBytes);
      const uint32_t request = me.start(me.load(schedule), me.plain(2 * kBytes), me.plain(2 * kBytes));
      loop.await(request, 0);
      meeting.meet();
      loop.run_until_done(request);
      CHECK_EQ(me.failure(request), Error::truncated);
      meeting.meet();
    } else {
      schedule.send(0, Role::send, 0, me.rank == 1 ? 2 * kBytes : kBytes);
      meeting.meet();
      if (me.rank == 2) meeting.meet();
      me.wait(me.start(me.load(schedule), me.plain(2 * kBytes), me.plain(2 * kBytes)));
      if (me.rank == 1) meeting.meet();
    }
  });
}

TEST(a_look_gives_out_every_slot_that_ended_once) {
  run_ranks(2, mode(true), [](TestRank& me, Meeting& meeting) {
    constexpr uint32_t kRequests = 600;
    if (me.rank == 0) {
      Loop loop(me);
      std::vector<uint32_t> receives;
      for (uint32_t i = 0; i < kRequests; ++i) receives.push_back(me.irecv(me.plain(8), 1, i));
      std::copy(receives.begin(), receives.end(), me.slots->exchange());
      std::vector<uint32_t> ended;
      size_t count = me.engine->look(receives.size(), 0);
      meeting.meet();
      while (ended.size() + count <= kRequests) {
        for (size_t i = 0; i < count; ++i) ended.push_back(me.slots->exchange()[i]);
        if (ended.size() == kRequests) break;
        count = me.engine->look(0, 0);
      }
      std::sort(ended.begin(), ended.end());
      std::sort(receives.begin(), receives.end());
      CHECK(ended == receives);
      CHECK_EQ(me.engine->look(0, 0), 0u);
      for (const uint32_t receive : receives) me.finish(receive);
    } else {
      meeting.meet();
      for (uint32_t i = 0; i < kRequests; ++i) me.wait(me.isend(me.filled(8, false, i), 0, i));
    }
    meeting.meet();
  });
}

// A look that copies reads the clock after each copy: with a message of many copies, it ends after the second one.
TEST(a_look_does_not_copy_beyond_its_time) {
  run_ranks(2, mode(false), [](TestRank& me, Meeting& meeting) {
    constexpr size_t kBytes = size_t{16} << 20;
    const Pinned block = me.filled(kBytes, false, me.rank);
    const uint32_t receive = me.rank == 1 ? me.irecv(block, 0, 1) : kNoRequest;
    meeting.meet();
    const uint32_t send = me.rank == 0 ? me.isend(block, 1, 1) : kNoRequest;
    if (me.rank == 0) {
      me.slots->exchange()[0] = send;
      CHECK_EQ(me.engine->look(1, 1), 0u);
      const double copied = me.counter("mappedBytes") + me.counter("crossMemoryBytes");
      CHECK(copied <= kBytes / 8);
    }
    meeting.meet();
    me.wait(me.rank == 0 ? send : receive);
  });
}

}  // namespace

TEST_MAIN(120)
