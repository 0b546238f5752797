// Parking: the doorbell's functions one by one, and threads that ring and sleep as ranks do. A wake-up that is lost
// once stops the program, which is what the watchdog is for. (test/model proves the protocol; this tests that the code
// is the protocol.)
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/shm/doorbell.h"
#include "test/check.h"
#include "test/random.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using namespace nbc::shm;

// What a writer does for a rank that sleeps on its futex. True if somebody was woken.
bool ring(DoorbellLine& bell, uint32_t messages) {
  const Armed armed = doorbell_count(bell, messages);
  if (armed) doorbell_wake(bell, armed.who);
  return static_cast<bool>(armed);
}

TEST(a_sleeper_that_is_not_armed_is_not_rung) {
  DoorbellLine bell;
  const uint32_t ticket = doorbell_ticket(bell, Sleeper::caller);
  CHECK(!ring(bell, 1));
  CHECK(!ring(bell, 1000));
  CHECK_EQ(doorbell_ticket(bell, Sleeper::caller), ticket);
  CHECK(!doorbell_is_armed(bell));
}

TEST(the_last_message_needed_rings) {
  for (const uint32_t need : {1u, 2u, 7u}) {
    for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
      DoorbellLine bell;
      const uint32_t ticket = doorbell_ticket(bell, who);
      doorbell_arm(bell, {who}, need);
      for (uint32_t i = 1; i < need; ++i) {
        CHECK(!ring(bell, 1));
        CHECK(doorbell_is_armed(bell));
      }
      CHECK(ring(bell, 1));
      CHECK(!doorbell_is_armed(bell));
      CHECK(!ring(bell, 1));  // once is enough
      CHECK_EQ(doorbell_ticket(bell, who), ticket + 1);
      doorbell_sleep(bell, who, ticket, -1);  // rung already: returns at once
      const Sleeper other = who == Sleeper::caller ? Sleeper::progress : Sleeper::caller;
      CHECK_EQ(doorbell_ticket(bell, other), 0u);
    }
  }
}

TEST(several_messages_at_once_ring_as_well) {
  DoorbellLine bell;
  doorbell_arm(bell, {Sleeper::caller}, 5);
  CHECK(!ring(bell, 4));
  CHECK(ring(bell, 3));
  doorbell_arm(bell, {Sleeper::caller}, 5);
  CHECK(ring(bell, 1000));
}

TEST(the_writer_that_rings_learns_which_sleeper_and_how) {
  DoorbellLine bell;
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
    for (const bool on_socket : {false, true}) {
      doorbell_arm(bell, {who, on_socket}, 1);
      const Armed armed = doorbell_count(bell, 1);
      CHECK_EQ(armed.who, who);
      CHECK_EQ(armed.on_socket, on_socket);
      CHECK(!doorbell_take(bell));
      doorbell_arm(bell, {who, on_socket}, 5);
      const Armed all = doorbell_take(bell);
      CHECK(all.who == who && all.on_socket == on_socket);
      CHECK(!doorbell_count(bell, 5));
    }
  }
}

// A writer that was slow to count may find the count of a later arming, even below zero: it wakes too early, never too
// late.
TEST(late_counting_only_wakes_early) {
  DoorbellLine bell;
  doorbell_arm(bell, {Sleeper::caller}, 2);
  bell.need.fetch_sub(3);  // of writers that saw an earlier arming
  CHECK(ring(bell, 1));
}

TEST(disarmed_is_not_rung) {
  DoorbellLine bell;
  doorbell_arm(bell, {Sleeper::progress}, 1);
  doorbell_disarm(bell);
  CHECK(!ring(bell, 1));
  CHECK_EQ(doorbell_ticket(bell, Sleeper::progress), 0u);
}

TEST(sleeping_has_a_limit) {
  DoorbellLine bell;
  const auto begin = std::chrono::steady_clock::now();
  doorbell_sleep(bell, Sleeper::caller, doorbell_ticket(bell, Sleeper::caller), 2'000'000);
  // A signal may end it earlier, but there is none here.
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(2));
}

TEST(the_progress_thread_can_be_added_to_the_event_loop_until_it_has_rung) {
  DoorbellLine bell;
  doorbell_arm(bell, {Sleeper::loop}, 2);
  CHECK(doorbell_add_progress(bell));
  CHECK(doorbell_is_armed(bell));
  CHECK(!doorbell_count(bell, 1));  // the count is as it was
  const Armed both = doorbell_count(bell, 1);
  CHECK(both.who == Sleeper::loop && both.progress_too);
  CHECK(!doorbell_add_progress(bell));
  CHECK(!doorbell_is_armed(bell));
  doorbell_arm(bell, {Sleeper::loop}, 1);
  const Armed one = doorbell_take(bell);
  CHECK(one.who == Sleeper::loop && !one.progress_too);
}

TEST(waking_oneself_needs_no_arming) {
  DoorbellLine bell;
  const uint32_t ticket = doorbell_ticket(bell, Sleeper::progress);
  doorbell_wake(bell, Sleeper::progress);
  doorbell_sleep(bell, Sleeper::progress, ticket, -1);
}

// --- stress ----------------------------------------------------------------------------------------------------------

struct alignas(64) Inbox {
  std::atomic<uint32_t> messages{0};  // from one writer
};

struct Rank_ {
  DoorbellLine bell;
  std::vector<Inbox> from;
};

// Messages from one rank to another in one step: known to both.
uint32_t messages_of(uint64_t seed, uint32_t step, uint32_t from, uint32_t to) {
  if (from == to) return 0;
  return static_cast<uint32_t>(Random(seed ^ (uint64_t{step} << 24 | from << 12 | to)).next() >> 40) % 3;
}

// In each step a rank sends some messages to each other rank and waits until it has all that the others sent to it in
// this step and before. It sleeps as either sleeper, wants all that are missing or fewer, and gives up the processor at
// random points.
void stress(uint32_t ranks, uint32_t steps, uint64_t seed) {
  std::vector<std::unique_ptr<Rank_>> all;
  for (uint32_t i = 0; i < ranks; ++i) {
    all.push_back(std::make_unique<Rank_>());
    all.back()->from = std::vector<Inbox>(ranks);
  }
  std::atomic<uint64_t> rings{0}, sleeps{0};
  std::vector<std::thread> threads;
  for (uint32_t me = 0; me < ranks; ++me) {
    threads.emplace_back([&, me] {
      Random random(seed + me);
      Rank_& self = *all[me];
      uint32_t expected = 0, seen = 0;
      uint64_t rung = 0, slept = 0;
      const auto look = [&] {
        uint32_t now = 0;
        for (const Inbox& inbox : self.from) now += inbox.messages.load(std::memory_order_acquire);
        const bool news = now != seen;
        seen = now;
        return news;
      };
      for (uint32_t step = 0; step < steps; ++step) {
        for (uint32_t i = 1; i < ranks; ++i) {
          const uint32_t to = (me + i) % ranks;
          const uint32_t count = messages_of(seed, step, me, to);
          if (count == 0) continue;
          Rank_& peer = *all[to];
          const bool together = random.one_in(2);
          for (uint32_t n = 0; n < count; ++n) {
            Inbox& inbox = peer.from[me];
            inbox.messages.store(inbox.messages.load(std::memory_order_relaxed) + 1, std::memory_order_release);
            if (together && n + 1 < count) continue;
            std::atomic_thread_fence(std::memory_order_seq_cst);  // F2
            if (random.one_in(64)) sched_yield();
            rung += ring(peer.bell, together ? count : 1);
          }
        }
        for (uint32_t from = 0; from < ranks; ++from) expected += messages_of(seed, step, from, me);
        look();
        for (uint32_t spin = random.below(60); spin > 0 && static_cast<int32_t>(expected - seen) > 0; --spin) look();
        while (static_cast<int32_t>(expected - seen) > 0) {
          const Sleeper who = random.one_in(2) ? Sleeper::caller : Sleeper::progress;
          const uint32_t ticket = doorbell_ticket(self.bell, who);
          const uint32_t missing = expected - seen;
          doorbell_arm(self.bell, {who}, random.one_in(4) ? 1 + random.below(missing) : missing);
          if (random.one_in(64)) sched_yield();
          if (!look()) {
            doorbell_sleep(self.bell, who, ticket, -1);
            ++slept;
            look();
          }
          doorbell_disarm(self.bell);
        }
      }
      rings.fetch_add(rung);
      sleeps.fetch_add(slept);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Otherwise nothing was tested.
  CHECK(rings.load() > steps / 100);
  CHECK(sleeps.load() > steps / 100);
}

TEST(no_wake_up_is_lost_between_two) { stress(2, repetitions(200'000, 40'000), 1); }
TEST(no_wake_up_is_lost_between_three) { stress(3, repetitions(60'000, 15'000), 2); }
TEST(no_wake_up_is_lost_between_eight) { stress(8, repetitions(10'000, 3'000), 3); }

}  // namespace

TEST_MAIN(60)
