// Reductions by functions of the user's: what the engine hands out, and what becomes of results.
#include <atomic>
#include <chrono>
#include <cstring>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "test/ranks.h"
#include "test/thread_network.h"

namespace {

using namespace nbc;
using namespace nbc::check;

constexpr UserOperator kOfCaller{1, false};
constexpr UserOperator kOfThread{2, true};
constexpr int64_t kForever = 60'000'000'000;

// b[i] = 3 a[i] + b[i]: tells the operands apart.
UserPiece computed(UserPiece piece) {
  CHECK_EQ(piece.a.size(), piece.b.size());
  for (size_t i = 0; i < piece.b.size(); ++i)
    piece.b[i] = static_cast<std::byte>(3 * static_cast<unsigned>(piece.a[i]) + static_cast<unsigned>(piece.b[i]));
  return piece;
}

// What another rank must not keep from ending: the block of the send buffer, combined with that of the receive buffer.
Schedule reduction(uint64_t bytes) {
  Schedule schedule(bytes, bytes);
  schedule.round().reduce(Operator::user, ElementType::uint8, Role::send, 0, Role::receive, 0, bytes);
  return schedule;
}

// The calling thread runs its functions until the request has ended.
void run_until_done(TestRank& me, uint32_t request) {
  while (!me.engine->wait(&request, 1, true, -1)) {
    UserPiece piece;
    CHECK(me.engine->user_work().take(piece));
    me.engine->user_work().give_back(computed(std::move(piece)), false);
  }
}

TEST(a_function_gets_every_byte_once_in_pieces) {
  run_ranks(1, mode(true), [](TestRank& me, Meeting&) {
    for (const uint64_t bytes : {uint64_t{1}, kUserPiece, kUserPiece + 1, 3 * kUserPiece + 17}) {
      const Pinned source = me.filled(bytes, false, 1);
      const Pinned target = me.filled(bytes, false, 2);
      std::vector<std::byte> expected(target.data, target.data + bytes);
      for (uint64_t i = 0; i < bytes; ++i)
        expected[i] =
            static_cast<std::byte>(3 * static_cast<unsigned>(source.data[i]) + static_cast<unsigned>(expected[i]));
      const uint32_t request = me.start(me.load(reduction(bytes), kOfCaller), source, target);
      run_until_done(me, request);
      me.finish(request);
      CHECK(std::memcmp(target.data, expected.data(), bytes) == 0);
    }
  });
}

// A message of another size fails the operation while its function computes, or before.
TEST(an_operation_that_fails_does_not_wait_for_its_function) {
  for (const bool thread : {false, true}) {
    for (const bool taken : {false, true}) {
      run_ranks(2, mode(thread), [&](TestRank& me, Meeting& meeting) {
        Schedule schedule(16, 16);
        schedule.round();
        if (me.rank == 0) {
          schedule.reduce(Operator::user, ElementType::uint8, Role::send, 0, Role::receive, 0, 8);
          schedule.receive(1, Role::receive, 8, 8);
        } else {
          schedule.send(0, Role::send, 0, 16);
        }
        const Pinned target = me.filled(16, false, 3);
        const std::vector<std::byte> before(target.data, target.data + 16);
        if (me.rank == 1) meeting.meet();
        const uint32_t request = me.start(me.load(schedule, kOfCaller), me.filled(16, false, 4), target);
        UserWork& work = me.engine->user_work();
        UserPiece piece;
        if (me.rank == 0) {
          CHECK(work.waits());
          if (taken) CHECK(work.take(piece));
          meeting.meet();
          while (!me.test(request)) sched_yield();
          CHECK(me.failure(request) == Error::truncated);
          CHECK(!work.waits());
          if (taken) {
            work.give_back(computed(std::move(piece)), false);
            me.engine->test();
            CHECK(!work.has_results());
          }
          CHECK(std::memcmp(target.data, before.data(), 8) == 0);
        } else if (request != kNoRequest) {
          me.failure(request);
        }
        meeting.meet();
      });
    }
  }
}

// The calling thread sleeps in wait, or computes; the result wakes who drives.
TEST(a_thread_with_a_function_needs_no_calling_thread) {
  for (const bool thread : {false, true}) {
    run_ranks(1, mode(thread), [&](TestRank& me, Meeting&) {
      UserWork& work = me.engine->user_work();
      std::thread server([&] {
        UserPiece piece;
        while (work.take_of(kOfThread.number, kForever, piece) == UserWork::Taken::piece)
          work.give_back(computed(std::move(piece)), true);
      });
      const auto plan = me.load(reduction(2 * kUserPiece), kOfThread);
      for (uint32_t i = 0; i < repetitions(300, 30); ++i) {
        const Pinned target = me.filled(2 * kUserPiece, false, i);
        const uint32_t request = me.start(plan, me.filled(2 * kUserPiece, false, i + 1), target);
        if (thread && i % 2 == 1) {
          while (!me.done(request)) sched_yield();
        }
        me.wait(request);
      }
      work.close();
      server.join();
    });
  }
}

TEST(a_thread_that_has_ended_fails_its_operations) {
  run_ranks(1, mode(true), [](TestRank& me, Meeting&) {
    UserWork& work = me.engine->user_work();
    const auto plan = me.load(reduction(100), kOfThread);
    const uint32_t taken = me.start(plan, me.filled(100, false, 1), me.plain(100));
    UserPiece piece;
    CHECK(work.take_of(kOfThread.number, kForever, piece) == UserWork::Taken::piece);
    const uint32_t queued = me.start(plan, me.filled(100, false, 1), me.plain(100));
    std::thread([&] { work.fail(kOfThread.number, "gone"); }).join();
    const uint32_t later = me.start(plan, me.filled(100, false, 1), me.plain(100));
    work.give_back(computed(std::move(piece)), true);
    for (const uint32_t request : {taken, queued, later}) {
      CHECK(me.engine->wait(&request, 1, true, -1));
      CHECK(me.engine->failure(request).detail == "gone");
      CHECK(me.failure(request) == Error::operator_failed);
    }
  });
}

TEST(a_world_that_closes_ends_what_functions_compute) {
  run_ranks(1, mode(true), [](TestRank& me, Meeting&) {
    const auto work = UserWork::of_world(me.slots->world());
    CHECK(work != nullptr);
    const Pinned target = me.plain(100);
    me.start(me.load(reduction(100), kOfThread), me.filled(100, false, 1), target);
    const uint32_t of_caller = me.start(me.load(reduction(100), kOfCaller), me.filled(100, false, 1), me.plain(100));
    UserPiece piece;
    CHECK(work->take_of(kOfThread.number, kForever, piece) == UserWork::Taken::piece);
    me.close();
    CHECK(me.error(of_caller) == Error::closed);
    work->give_back(computed(std::move(piece)), true);
    CHECK(work->take_of(kOfThread.number, kForever, piece) == UserWork::Taken::closed);
  });
}

// The result comes while the calling thread hands the engine over: after its last look, and before it unlocks. The
// progress thread is woken, finds the engine locked and sleeps without a limit.
TEST(a_result_that_comes_while_the_engine_is_handed_over_is_taken) {
  ThreadNetwork network(1);
  auto made = std::make_unique<ThreadFabric>(network, 0, std::make_shared<Heap>());
  ThreadFabric& fabric = *made;
  std::atomic<bool> ready{false};
  UserWork* work = nullptr;
  UserPiece piece;
  uint32_t flushes = 0;  // while the progress thread is called for
  const auto caller = std::this_thread::get_id();
  fabric.at_flush = [&] {
    // The first ends a pass, which has looked for results; the second ends the last look.
    if (std::this_thread::get_id() != caller || !ready.load() || !fabric.is_armed() || ++flushes != 2) return;
    const uint64_t before = fabric.endless_sleeps.load(std::memory_order_acquire);
    work->give_back(computed(std::move(piece)), true);
    while (fabric.endless_sleeps.load(std::memory_order_acquire) == before) sched_yield();
  };
  TestRank me(std::move(made), mode(true));
  work = &me.engine->user_work();
  const uint32_t request = me.start(me.load(reduction(100), kOfThread), me.filled(100, false, 1), me.plain(100));
  CHECK(work->take_of(kOfThread.number, kForever, piece) == UserWork::Taken::piece);
  // Watched, as when the event loop waits for it: then the progress thread need not look again by itself.
  me.slots->exchange()[0] = request;
  CHECK_EQ(me.engine->look(1, 0), 0u);
  ready.store(true);
  me.engine->rest();
  CHECK(flushes >= 2);
  // Against hangs only: what ends the program's threads for a report also wakes them.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!me.done(request) && std::chrono::steady_clock::now() < limit) sched_yield();
  CHECK(me.done(request));
  me.finish(request);
}

// The progress thread drives while its rank closes: what the worker has not computed must not look like a failure of
// the function to the rank that needs it.
TEST(a_world_that_closes_tells_peers_of_no_failed_function) {
  ThreadNetwork network(2);
  auto made = std::make_unique<ThreadFabric>(network, 0, std::make_shared<Heap>());
  ThreadFabric& fabric = *made;
  std::atomic<bool> hold{false};
  std::atomic<bool> held{false};
  const auto caller = std::this_thread::get_id();
  fabric.at_flush = [&] {
    if (std::this_thread::get_id() == caller || !hold.exchange(false)) return;
    const uint64_t rings = fabric.self_rings.load(std::memory_order_acquire);
    held.store(true);
    // Until the engine's end calls for this thread.
    while (fabric.self_rings.load(std::memory_order_acquire) == rings) sched_yield();
  };
  TestRank peer(std::make_unique<ThreadFabric>(network, 1, std::make_shared<Heap>()), mode(true));
  Schedule from(100, 100);
  from.round().receive(0, Role::receive, 0, 100);
  const uint32_t receive = peer.start(peer.load(from), peer.plain(100), peer.plain(100));
  TestRank me(std::move(made), mode(true));
  // A rank tells its end to those that it knows.
  const uint32_t first = peer.irecv(peer.plain(1), 0, 0);
  me.send(me.plain(1), 1, 0);
  peer.wait(first);
  Schedule to = reduction(100);
  to.round().send(1, Role::receive, 0, 100);
  hold.store(true);
  const uint32_t request = me.start(me.load(to, kOfThread), me.filled(100, false, 1), me.plain(100));
  while (!held.load()) sched_yield();
  me.close();
  CHECK(me.error(request) == Error::closed);
  CHECK(peer.failure(receive) == Error::peer_closed);
}

// Processes cannot do this for a test: a thread that ends before it serves, and one that serves in time.
TEST(a_thread_that_ends_before_it_serves_fails_its_operations) {
  run_ranks(1, mode(true), [](TestRank& me, Meeting&) {
    UserWork& work = me.engine->user_work();
    for (const bool serves : {true, false}) {
      const UserOperator op{serves ? 3u : 4u, true};
      std::atomic<pid_t> id{0};
      std::atomic<bool> end{false};
      std::thread thread([&] {
        id.store(gettid());
        while (!end.load()) sched_yield();
        if (serves) work.serves(op.number);
      });
      while (id.load() == 0) sched_yield();
      work.await_thread(op.number, {id.load()});
      CHECK(work.awaits_threads());
      const uint32_t request = me.start(me.load(reduction(100), op), me.filled(100, false, 1), me.plain(100));
      work.look_for_threads();
      me.engine->test();
      CHECK(!me.done(request));
      end.store(true);
      thread.join();
      while (work.awaits_threads()) work.look_for_threads();
      if (serves) {
        UserPiece piece;
        CHECK(work.take_of(op.number, kForever, piece) == UserWork::Taken::piece);
        work.give_back(computed(std::move(piece)), true);
        me.wait(request);
      } else {
        CHECK(me.engine->wait(&request, 1, true, -1));
        CHECK(me.engine->failure(request).detail.find("ended before") != std::string::npos);
        CHECK(me.failure(request) == Error::operator_failed);
      }
    }
    // A thread that has served, or has failed, is not awaited any more.
    for (const uint32_t op : {3, 4}) work.await_thread(op, {1});
    CHECK(!work.awaits_threads());
  });
}

}  // namespace

TEST_MAIN(60)
