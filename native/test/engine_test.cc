// Who drives: what must go on while the calling thread computes, over a network of threads (thread_network.h). Nothing
// here has a time limit of its own: what does not go on stops the program, which is what the watchdog is for.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <sched.h>
#include <thread>

#include "engine/lock.h"
#include "test/fake_fabric.h"
#include "test/ranks.h"
#include "test/thread_network.h"

namespace {

using namespace nbc;
using namespace nbc::check;

void run_over_threads(Rank size, const RankOptions& options, uint32_t pieces,
                      const std::function<void(TestRank&, Meeting&)>& body) {
  ThreadNetwork network(size);
  const auto make = [&](Rank rank) {
    auto fabric = std::make_unique<ThreadFabric>(network, rank, std::make_shared<Heap>());
    fabric->pieces_of_a_put = pieces;
    return fabric;
  };
  run_ranks_over(size, options, make, body);
}

// The caller computes, and asks for nothing.
void until_done(const TestRank& me, uint32_t request) {
  while (!me.done(request)) sched_yield();
}

// Room for the next piece is found by the look before the sleep, which must not be followed by the sleep: nobody would
// come to end it.
TEST(room_that_comes_in_the_last_look_is_used) {
  constexpr uint32_t kPieces = 50;
  constexpr size_t kBytes = 100'000;
  run_over_threads(2, mode(true), kPieces, [](TestRank& me, Meeting& meeting) {
    for (uint32_t i = 0; i < repetitions(50, 10); ++i) {
      const bool watched = i % 2 == 1;
      const Pinned in = me.plain(kBytes);
      const uint32_t receive = me.irecv(in, 1 - me.rank, i);
      if (watched) me.watch(receive);
      meeting.meet();
      const uint32_t send = me.isend(me.filled(kBytes, false, i + me.rank), 1 - me.rank, i);
      if (watched && send != kNoRequest) me.watch(send);
      until_done(me, send);
      me.finish(send);
      // Data that only lands is noticed by a look, or by a caller that asked to be told.
      if (watched) until_done(me, receive);
      me.wait(receive);
      check_data(in, i + 1 - me.rank);
      meeting.meet();
    }
  });
}

// A thread that has waited for the lock holds it like any other: nobody else wants it. Local work would stand still,
// since it gives way to a thread that waits.
TEST(a_lock_that_was_waited_for_is_not_wanted) {
  EngineLock lock;
  lock.lock();
  CHECK(!lock.wanted());
  std::atomic<bool> wanted_by_holder{true};
  std::thread waiter([&] {
    lock.lock();
    wanted_by_holder = lock.wanted();
    lock.unlock();
  });
  while (!lock.wanted()) sched_yield();
  lock.unlock();
  waiter.join();
  CHECK(!wanted_by_holder.load());
  lock.lock();
  bool locked = true;
  std::thread impatient([&] { locked = lock.lock_within(1); });
  impatient.join();
  CHECK(!locked);
  CHECK(!lock.wanted());
  lock.unlock();
}

// Peers wait for short messages. Long ones wait for the RTRs of receives.
TEST(short_messages_leave_before_receives_are_posted) {
  struct Noting : ThreadFabric {
    using ThreadFabric::ThreadFabric;
    Connect connect(Rank peer) override {
      asked.push_back(peer);
      return ThreadFabric::connect(peer);
    }
    std::vector<Rank> asked;
  };
  for (const size_t bytes : {size_t{8}, size_t{100'000}}) {
    ThreadNetwork network(3);
    auto made = std::make_unique<Noting>(network, 0, std::make_shared<Heap>());
    Noting& fabric = *made;
    TestRank me(std::move(made), mode(false));
    Schedule schedule(bytes, bytes);
    schedule.round().receive(1, Role::receive, 0, bytes).send(2, Role::send, 0, bytes);
    me.start(me.load(schedule), me.plain(bytes), me.plain(bytes));
    CHECK_EQ(fabric.asked.size(), 2u);
    CHECK_EQ(fabric.asked.front(), bytes == 8 ? 2u : 1u);
  }
}

// While this thread spins, a peer on the same processor cannot send what it waits for.
TEST(a_waiter_whose_peer_has_the_same_processor_sleeps_at_once) {
  ThreadNetwork network(2);
  auto made = std::make_unique<ThreadFabric>(network, 0, std::make_shared<Heap>());
  made->processors = 2;
  made->beside = true;
  ThreadFabric& fabric = *made;
  TestRank peer(std::make_unique<ThreadFabric>(network, 1, std::make_shared<Heap>()), mode(false));
  TestRank me(std::move(made), mode(false));
  const uint32_t receive = me.irecv(me.plain(8), 1, 0);
  const uint64_t before = fabric.polls.load();
  std::thread waiter([&] { me.wait(receive); });
  while (!network.is_armed(0)) sched_yield();
  // The look before sleeping is one more; so is the first.
  CHECK(fabric.polls.load() - before < 20);
  peer.wait(peer.isend(peer.filled(8, false, 1), 0, 0));
  waiter.join();
}

// A process that ends announces it, and nobody may be at the network meanwhile: not even a progress thread that never
// runs out of work.
TEST(an_end_takes_the_network_from_a_busy_progress_thread) {
  for (uint32_t i = 0; i < repetitions(20, 5); ++i) {
    ThreadNetwork network(2);
    auto made = std::make_unique<ThreadFabric>(network, 0, std::make_shared<Heap>());
    made->pieces_of_a_put = UINT32_MAX;
    ThreadFabric& fabric = *made;
    TestRank peer(std::make_unique<ThreadFabric>(network, 1, std::make_shared<Heap>()), mode(true));
    TestRank me(std::move(made), mode(true));
    const uint32_t receive = peer.irecv(peer.plain(100'000), 0, 0);
    CHECK(receive != kNoRequest);
    const uint32_t send = me.isend(me.filled(100'000, false, 1), 1, 0);
    CHECK(send != kNoRequest);
    const uint64_t before = fabric.polls.load();
    while (fabric.polls.load() < before + 100) sched_yield();
    bool alone = true;
    fabric.before_closing = [&] {
      const uint64_t polls = fabric.polls.load();
      for (int look = 0; look < 100; ++look) sched_yield();
      alone = fabric.polls.load() == polls;
    };
    me.engine->abandon();
    CHECK(alone);
    fabric.before_closing = nullptr;
  }
}

// Everything that commits is flushed before the engine is given up: the native tests are built with
// NBC_CHECK_INVARIANTS, and then every unlocking checks it. Here the commit happens where a closed peer is found, and
// nothing needs to be driven afterwards.
TEST(what_the_end_of_a_peer_lets_go_is_flushed) {
  constexpr uint32_t kReceives = libof::kRtrSlots + 1;  // one RTR waits for room in the array
  constexpr size_t kBytes = 600;
  FakeNetwork network(3, false);
  libof::Options options;
  libof::LibOF live(network.rank(1), options);
  std::vector<libof::RequestOwner> sends(kReceives);
  const std::vector<std::byte> out(kBytes);
  TestRank me(network.take(0), mode(true));
  network.rank(0).before_has_closed = [&] {
    // Rank 1 takes the RTRs, and reports that; rank 2 closes. All of it between a pass and the look for closed peers.
    for (uint32_t i = 0; i < kReceives; ++i) live.isend(sends[i], 0, {me.world->context + 1, i, 0}, out.data(), kBytes);
    live.progress(Effort::pass);
    network.presence[2] = FakeNetwork::Presence::closed;
  };
  std::vector<Pinned> in;
  std::vector<uint32_t> receives;
  for (uint32_t i = 0; i < kReceives; ++i) receives.push_back(me.irecv(in.emplace_back(me.plain(kBytes)), 1, i));
  const uint32_t last = me.irecv(me.plain(8), 2, 0);
  // Hands over without a request to watch: the look for closed peers is the last thing that happens.
  me.engine->rest();
  CHECK(me.failure(last) == Error::peer_closed);
}

// The last look before sleeping tells peers which sends wait. The fabric checks that this has left when a caller
// sleeps; elsewhere the engine is unlocked before the sleep, and checks it itself.
TEST(what_is_announced_before_sleeping_is_flushed) {
  FakeNetwork network(2, false);
  TestRank me(network.take(0), mode(false));
  const uint32_t send = me.isend(me.filled(600, false, 1), 1, 0);
  while (network.rank(0).commits == 0) CHECK(!me.engine->wait(&send, 1, true, 1'000'000));
}

// A copy that goes on from front to back, into memory in which no byte is that of the source by chance.
struct Copy {
  Pinned from, to;
  size_t at = 0;
  // How far it is. Looks at what is new since the last call only.
  size_t bytes() {
    while (at < from.bytes && from.data[at] == to.data[at]) ++at;
    return at;
  }
};

// A call does a bounded part of the copies that are in flight, whatever their size: the lock is free in between.
TEST(a_call_copies_no_more_than_a_piece) {
  constexpr size_t kBytes = 4 << 20;
  constexpr uint32_t kOperations = 3;
  run_over_threads(1, mode(false), 1, [](TestRank& me, Meeting&) {
    std::vector<Copy> copies;
    std::vector<uint32_t> requests;
    const auto plan = me.load(Schedule(kBytes, kBytes).round().copy(Role::send, 0, Role::receive, 0, kBytes));
    const auto total = [&] {
      size_t bytes = 0;
      for (Copy& copy : copies) bytes += copy.bytes();
      return bytes;
    };
    for (uint32_t i = 0; i < kOperations; ++i) {
      const Copy& copy = copies.emplace_back(Copy{me.filled(kBytes, false, i), me.plain(kBytes)});
      for (size_t at = 0; at < kBytes; ++at) copy.to.data[at] = ~copy.from.data[at];
      requests.push_back(me.start(plan, copy.from, copy.to));
      CHECK(requests.back() != kNoRequest);
      CHECK_EQ(total(), 0u);
    }
    size_t before = 0;
    uint32_t tests = 0;
    for (bool done = false; !done; ++tests) {
      me.engine->test();
      const size_t now = total();
      CHECK(now > before);
      CHECK(now - before <= LocalWork::kPiece);
      before = now;
      done = true;
      for (const uint32_t request : requests) done = done && me.done(request);
    }
    CHECK(tests >= kOperations * kBytes / LocalWork::kPiece);
    for (const uint32_t request : requests) me.finish(request);
  });
}

// The progress thread gives the engine up between two pieces of local work when a call wants it. A call that comes
// after the last piece shows nothing: the next operation may.
TEST(a_call_need_not_wait_for_the_local_work_of_the_progress_thread) {
  constexpr size_t kBytes = 32 << 20;
  ThreadNetwork network(1);
  auto made = std::make_unique<ThreadFabric>(network, 0, std::make_shared<Heap>());
  const ThreadFabric& fabric = *made;
  TestRank me(std::move(made), mode(true));
  const Pinned from = me.filled(kBytes, false, 1);
  const Pinned to = me.plain(kBytes);
  const auto plan = me.load(Schedule(kBytes, kBytes).round().copy(Role::send, 0, Role::receive, 0, kBytes));
  bool between = false;
  for (uint32_t i = 0; i < 1000 && !between; ++i) {
    const uint32_t request = me.start(plan, from, to);
    me.watch(request);
    const uint64_t polls = fabric.polls.load();
    while (fabric.polls.load() == polls && !me.done(request)) sched_yield();
    me.counter("progressPasses");  // waits for the engine
    between = !me.done(request);
    me.wait(request);
  }
  CHECK(between);
}

// No peer can take local work over. So it comes first, and only then the caller helps peers with what they send here.
TEST(who_waits_helps_peers_when_its_local_work_is_done) {
  constexpr size_t kBytes = 4 << 20;
  ThreadNetwork network(1);
  auto made = std::make_unique<ThreadFabric>(network, 0, std::make_shared<Heap>());
  ThreadFabric& fabric = *made;
  TestRank me(std::move(made), mode(false));
  const Pinned to = me.plain(kBytes);
  const auto plan = me.load(Schedule(kBytes, kBytes).round().copy(Role::send, 0, Role::receive, 0, kBytes));
  const uint32_t request = me.start(plan, me.filled(kBytes, false, 1), to);
  const Pinned never = me.plain(8);
  const uint32_t receive = me.irecv(never, 0, 1);
  std::vector<Effort> efforts;
  fabric.efforts = &efforts;
  CHECK(me.engine->wait(&request, 1, true, -1));
  CHECK(!me.engine->wait(&receive, 1, true, 1'000'000));
  fabric.efforts = nullptr;
  const auto pieces = std::count(efforts.begin(), efforts.end(), Effort::waiting);
  CHECK(pieces >= static_cast<long>(kBytes / LocalWork::kLargePiece) - 1);
  CHECK(std::find(efforts.begin(), efforts.end(), Effort::helping) == efforts.begin() + pieces);
  CHECK(std::find(efforts.begin() + pieces, efforts.end(), Effort::waiting) == efforts.end());
  me.finish(request);
}

// Short copies are part of the start, as they must be for latency; a schedule of many of them is not.
TEST(a_start_does_short_local_work_and_no_more) {
  run_over_threads(1, mode(false), 1, [](TestRank& me, Meeting&) {
    for (const size_t bytes : {size_t{8}, size_t{10'000}, size_t{200'000}}) {
      const Pinned from = me.filled(bytes, false, 1);
      const Pinned to = me.plain(bytes);
      const auto plan = me.load(Schedule(bytes, bytes).round().copy(Role::send, 0, Role::receive, 0, bytes));
      CHECK_EQ(me.start(plan, from, to), kNoRequest);
      check_data(to, 1);
    }
    constexpr size_t kPart = 10'000;
    constexpr size_t kParts = 400;
    Schedule schedule(kPart * kParts, kPart * kParts);
    for (size_t i = 0; i < kParts; ++i) schedule.round().copy(Role::send, i * kPart, Role::receive, i * kPart, kPart);
    const Pinned from = me.filled(kPart * kParts, false, 2);
    const Pinned to = me.plain(kPart * kParts);
    for (size_t at = 0; at < to.bytes; ++at) to.data[at] = ~from.data[at];
    const uint32_t request = me.start(me.load(schedule), from, to);
    CHECK(request != kNoRequest);
    CHECK(Copy({from, to}).bytes() <= 256 * 1024);
    me.wait(request);
    check_data(to, 2);
  });
}

// What is sent in the next round is what was reduced and rearranged in this one.
TEST(rounds_wait_for_their_local_work) {
  constexpr size_t kCount = 100'000;
  for (const bool progress_thread : {false, true}) {
    run_over_threads(2, mode(progress_thread), 3, [](TestRank& me, Meeting& meeting) {
      constexpr size_t kBytes = kCount * sizeof(float);
      const Rank peer = 1 - me.rank;
      // The sum of both ranks' send buffers, with its halves interleaved.
      Schedule schedule(kBytes, kBytes, 2 * kBytes);
      schedule.round().receive(peer, Role::temporary, 0, kBytes).send(peer, Role::send, 0, kBytes);
      schedule.round()
          .reduce(Operator::sum, ElementType::float32, Role::send, 0, Role::temporary, 0, kBytes)
          .strided(Role::temporary, 0, Role::temporary, kBytes, 4, {{2, kBytes / 2, 4}, {kCount / 2, 4, 8}});
      schedule.round().send(peer, Role::temporary, kBytes, kBytes).receive(peer, Role::receive, 0, kBytes);
      const auto plan = me.load(schedule);
      for (uint32_t repeat = 0; repeat < 3; ++repeat) {
        const Pinned in = me.plain(kBytes);
        const Pinned out = me.plain(kBytes);
        auto* values = reinterpret_cast<float*>(in.data);
        for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i + me.rank * 1000 + repeat);
        me.wait(me.start(plan, in, out));
        const auto* sums = reinterpret_cast<const float*>(out.data);
        for (size_t i = 0; i < kCount; ++i) {
          const size_t from = (i % 2) * (kCount / 2) + i / 2;
          CHECK_EQ(sums[i], static_cast<float>(2 * from + 1000 + 2 * repeat));
        }
        meeting.meet();
      }
    });
  }
}

// Each start of a prepared exchange packs what the buffer then holds, and its messages come behind those that were
// started before with the same tags.
TEST(each_start_of_prepared_messages_has_its_own) {
  static constexpr uint64_t kBlocks = 1000;
  static constexpr uint64_t kBytes = 8 * kBlocks;
  for (const bool thread : {true, false}) {
    run_ranks(2, mode(thread), [](TestRank& me, Meeting&) {
      const Rank peer = 1 - me.rank;
      Schedule schedule(2 * kBytes, 2 * kBytes, 2 * kBytes);
      schedule.round().strided(Role::send, 0, Role::temporary, 0, 8, {{kBlocks, 16, 8}});
      schedule.round()
          .send(peer, Role::temporary, 0, kBytes)
          .receive(peer, Role::temporary, kBytes, kBytes)
          .round()
          .strided(Role::temporary, kBytes, Role::receive, 0, 8, {{kBlocks, 8, 16}});
      const Pinned out = me.plain(2 * kBytes);
      const Pinned in = me.plain(2 * kBytes);
      const Pinned theirs = me.plain(2 * kBytes);
      const uint32_t exchange = me.prepare_messages(me.load(schedule, {}, true), out, in, me.rank, peer);
      for (uint32_t start = 0; start < 6; ++start) {
        const auto seed = [&](Rank rank) { return 10 * start + rank; };
        fill(out.data, out.bytes, seed(me.rank));
        fill(theirs.data, theirs.bytes, seed(peer));
        std::memset(in.data, 0xee, in.bytes);
        const Pinned word = me.plain(8);
        uint32_t before[2] = {kNoRequest, kNoRequest};
        if (start % 2 == 1) {
          before[0] = me.isend(me.filled(8, false, seed(me.rank)), peer, me.rank);
          before[1] = me.irecv(word, peer, peer);
        }
        me.run_prepared(exchange);
        me.wait(before[0]);
        me.wait(before[1]);
        if (start % 2 == 1) check_data(word, seed(peer));
        for (uint64_t at = 0; at < 2 * kBytes; at += 8)
          CHECK_EQ(std::memcmp(in.data + at, theirs.data + at, 8) == 0, at % 16 == 0);
        CHECK_EQ(me.length(exchange), kBytes);
      }
      me.engine->release(exchange);
    });
  }
}

// Its memory is refused to the operation of one rank, before that has sent anything.
TEST(ranks_learn_that_memory_was_refused) {
  struct Empty final : ExposedMemory {
    void* allocate(size_t) override { return nullptr; }
    void release(void*) override {}
    size_t used() const override { return 0; }
    std::string why() const override { return "no memory"; }
  };
  constexpr Rank kSize = 8;
  constexpr Rank kRefused = 4;
  for (const bool progress_thread : {true, false}) {
    for (const size_t block : {size_t{8}, size_t{5000}}) {
      ThreadNetwork network(kSize);
      const auto make = [&](Rank rank) -> std::unique_ptr<Fabric> {
        std::shared_ptr<ExposedMemory> memory = std::make_shared<Heap>();
        if (rank == kRefused) memory = std::make_shared<Empty>();
        return std::make_unique<ThreadFabric>(network, rank, memory);
      };
      run_ranks_over(kSize, mode(progress_thread), make, [&](TestRank& me, Meeting& meeting) {
        const auto plan = me.load(ring_allgather(me.rank, kSize, block));
        const uint32_t request = me.start(plan, me.filled(block, false, me.rank), me.plain(kSize * block));
        CHECK_EQ(me.failure(request), me.rank == kRefused ? Error::memory : Error::abandoned);
        if (me.rank != kRefused) {
          const RequestFailure failure = me.engine->failure(request);
          // A put that has begun ends without an origin.
          if (block == 8 || failure.cause == Error::memory) {
            CHECK_EQ(failure.origin, kRefused);
            CHECK_EQ(failure.cause, Error::memory);
          }
        }
        meeting.meet([&] { me.engine->test(); });
      });
    }
  }
}

// Rank 0 finds that rank 2 has made another call. Its mailbox at rank 1 is full, so its notice has to wait, and rank 1
// learns first that a message of the call was given up: one that it sends, as the RTR is taken back, or one of which it
// has received a part.
TEST(what_follows_from_a_mismatch_waits_for_its_notice) {
  constexpr size_t kLarge = 600'000;
  constexpr uint32_t kMailbox = libof::eager_slots(255);
  enum class Then { notice, silence, end };
  for (const Then then : {Then::notice, Then::silence, Then::end}) {
    for (const bool sends : {true, false}) {
      ThreadNetwork network(3);
      RankOptions options = mode(false);
      options.revoke_limit = then == Then::silence ? 200 : 60'000;
      const auto segment = make_segment(3);
      std::deque<TestRank> ranks;
      for (Rank rank = 0; rank < 3; ++rank) {
        if (sends) {
          ranks.emplace_back(segment, rank, options);
          continue;
        }
        auto fabric = std::make_unique<ThreadFabric>(network, rank, std::make_shared<Heap>());
        fabric->pieces_of_a_put = 1000;
        ranks.emplace_back(std::move(fabric), options);
      }
      TestRank &finder = ranks[0], &me = ranks[1], &odd = ranks[2];
      const auto start = [&](TestRank& rank) {
        Schedule schedule(kLarge, kLarge + 8);
        schedule.round();
        if (rank.rank == 2) {
          schedule.send(0, Role::send, 0, 8);
        } else if (sends == (rank.rank == 1)) {
          schedule.send(1 - rank.rank, Role::send, 0, kLarge);
        } else {
          schedule.receive(1 - rank.rank, Role::receive, 0, kLarge);
        }
        if (rank.rank == 0) schedule.receive(2, Role::receive, kLarge, 8);
        const auto plan = rank.load(schedule);
        plan->call.signature = rank.rank == 2 ? 2 : 1;
        return rank.start(plan, rank.filled(kLarge, false, 1), rank.plain(kLarge + 8));
      };
      const uint32_t request = start(me);
      const uint32_t failed = start(finder);
      for (uint32_t i = 0; i < kMailbox; ++i) finder.isend(finder.filled(8, false, i), 1, 9);
      start(odd);
      while (!finder.done(failed)) finder.engine->test();
      CHECK_EQ(finder.error(failed), Error::calls_differ);

      for (int look = 0; look < 3; ++look) me.engine->test();
      CHECK(!me.done(request));
      if (then == Then::end) {
        me.close();
        CHECK_EQ(me.error(request), Error::abandoned);
        continue;
      }
      while (!me.done(request)) {
        if (then == Then::notice) finder.engine->test();
        me.engine->test();
      }
      const RequestFailure failure = me.engine->failure(request);
      if (then == Then::notice) {
        CHECK_EQ(failure.error, Error::calls_differ);
        CHECK_EQ(failure.mismatch.ranks[0], 0u);
        CHECK_EQ(failure.mismatch.ranks[1], 2u);
      } else {
        CHECK_EQ(failure.error, Error::abandoned);
        CHECK_EQ(failure.cause, Error::calls_differ);
      }
    }
  }
}

// Both threads write to a trace, and the calling thread reads it meanwhile. It holds what there was room for.
TEST(a_trace_has_every_event_or_counts_it) {
  constexpr size_t kBytes = 50'000;
  constexpr uint32_t kExchanges = 100;
  const auto count = [](const std::vector<Trace::Event>& events, Trace::Kind kind) {
    return std::count_if(events.begin(), events.end(),
                         [kind](const Trace::Event& event) { return event.kind == static_cast<double>(kind); });
  };
  RankOptions options = mode(true);
  options.trace_events = 100'000;
  run_over_threads(2, options, 3, [&](TestRank& me, Meeting&) {
    const Rank peer = 1 - me.rank;
    const auto exchange = me.load(Schedule(kBytes, kBytes)
                                      .round()
                                      .receive(peer, Role::receive, 0, kBytes)
                                      .send(peer, Role::send, 0, kBytes)
                                      .round()
                                      .copy(Role::send, 0, Role::receive, 0, kBytes));
    const Pinned from = me.filled(kBytes, false, 1);
    const Pinned to = me.plain(kBytes);
    for (uint32_t i = 1; i <= kExchanges; ++i) {
      const uint32_t request = me.start(exchange, from, to);
      CHECK_EQ(count(me.engine->read_trace().events, Trace::Kind::operation), i);
      me.wait(request);
    }
    const Trace::Lists lists = me.engine->read_trace();
    CHECK_EQ(count(lists.events, Trace::Kind::end), kExchanges);
    CHECK_EQ(count(lists.events, Trace::Kind::round), 2 * kExchanges);
    CHECK_EQ(lists.left_out, 0u);
    CHECK_EQ(lists.names.size(), 3u);  // isend, irecv, and this one
    CHECK_EQ(count(lists.calls, Trace::Kind::call), static_cast<ptrdiff_t>(lists.calls.size()));
    for (size_t i = 1; i < lists.calls.size(); ++i)
      CHECK(lists.calls[i].time >= lists.calls[i - 1].time + lists.calls[i - 1].words[0]);
  });
  options.trace_events = 10;
  run_over_threads(1, options, 1, [count](TestRank& me, Meeting&) {
    for (uint32_t i = 0; i < 20; ++i) {
      const uint32_t receive = me.irecv(me.plain(8), 0, i);
      me.send(me.filled(8, false, i), 0, i);
      me.wait(receive);
    }
    const Trace::Lists lists = me.engine->read_trace();
    // Ten waits, and the starts of operations that have a record. What begins and ends in one record has more events.
    const auto operations = static_cast<size_t>(count(lists.events, Trace::Kind::operation));
    CHECK(operations > 0 && operations < 10);
    CHECK_EQ(lists.calls.size(), 10 + operations);
    CHECK(lists.events.size() > 10u);
    CHECK(lists.left_out >= 20 * 4 - 10u + 20 - 10u);
  });
}

}  // namespace

// A rank that sleeps in wait() has the engine, and answers by itself.
TEST(a_rank_says_what_it_waits_for) {
  run_over_threads(2, mode(true), 1, [](TestRank& me, Meeting& meeting) {
    if (me.rank == 1) {
      const std::optional<Status> idle = me.engine->ask(60'000);
      CHECK(idle.has_value());
      CHECK(idle->caller == Status::Caller::program);
      CHECK_EQ(idle->pending, 0u);
      CHECK_EQ(idle->text(), std::string("in the program, nothing is pending\n"));
      meeting.meet();
      me.wait(me.isend(me.filled(8, false, 1), 0, 7));
      return;
    }
    std::thread asker([&] {
      std::optional<Status> status;
      do {
        status = me.engine->ask(60'000, Engine::Metering::on);
        CHECK(status.has_value());
      } while (status->caller != Status::Caller::waits);
      // The meter was turned on while it waited, and counts that wait at once.
      const std::optional<Status> later = me.engine->ask(60'000);
      CHECK(later->metered.waited > status->metered.waited);
      CHECK(later->metered.waited <= later->metered.time);
      CHECK_EQ(later->metered.received, 0u);
      CHECK_EQ(status->pending, 1u);
      CHECK_EQ(status->operations.size(), 1u);
      CHECK_EQ(status->peers.size(), 1u);
      CHECK_EQ(status->peers[0], 1u);
      const Status::Message message = status->operations[0].messages.at(0);
      CHECK_EQ(message.bytes, 8u);
      CHECK_EQ(message.tag, 7u);
      const std::string members = status->members_for_nbcrun();
      CHECK(members.find("\"caller\":\"waits\",\"steps\":") == 0);
      CHECK(members.find(",\"pending\":1,\"longest\":") != std::string::npos);
      meeting.meet();
    });
    me.wait(me.irecv(me.plain(8), 1, 7));
    asker.join();
    const std::optional<Status> after = me.engine->ask(60'000, Engine::Metering::off);
    CHECK_EQ(after->metered.received, 8u);
    CHECK_EQ(after->metered.sent, 0u);
  });
}

TEST_MAIN(60)
