// What every fabric has to do, under an engine: one suite, which conformance_test.cc runs over shared memory, TCP and
// both sides of a mixed job, and verbs_test.cc over verbs. What only one fabric does is tested in that fabric's file.
//
// The tests are named FABRIC.TEST, so an argument of the program runs a fabric or a test.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/failing.h"
#include "test/mix.h"
#include "test/ranks.h"

namespace nbc::check::conformance {

// Makes the fabric of one rank, on that rank's thread.
using MakeRank = std::function<std::unique_ptr<Fabric>(Rank, const RankOptions&)>;

struct Subject {
  std::string name;
  std::function<MakeRank(Rank size)> job;  // makes what the ranks of one job share; may throw Skip
  std::vector<RankOptions> modes = {mode(true), mode(false)};
  uint32_t mix_steps = repetitions(300, 50);  // of a random mix
  // A subject that differs from another one only in how its ranks meet and part: without what costs most and does not
  // depend on that.
  bool meets_and_parts_only = false;
  // Under a sanitizer each test has one of the modes, in turns: the first test has this one. -1: each has all.
  int turn = -1;
};

inline void run(const Subject& subject, Rank size, const RankOptions& options,
                const std::function<void(TestRank&, Meeting&)>& body) {
  const MakeRank make = subject.job(size);
  run_ranks_over(
      size, options, [&](Rank rank) { return make(rank, options); }, body);
}

// --- messages --------------------------------------------------------------------------------------------------------

inline void messages_of_every_size_and_kind_of_buffer(const Subject& subject) {
  const size_t sizes[] = {0, 1, 254, 255, 256, 4095, 65'535, 65'536, 65'537, 300'001, 3u << 20};
  for (const RankOptions& options : subject.modes) {
    run(subject, 2, options, [&](TestRank& me, Meeting&) {
      uint64_t seed = 1;
      for (const size_t bytes : sizes) {
        for (const bool from_arena : {false, true}) {
          for (const bool to_arena : {false, true}) {
            const Rank other = 1 - me.rank;
            const Pinned in = me.memory(bytes, to_arena);
            const uint32_t receive = me.irecv(in, other, 5);
            me.wait(me.isend(me.filled(bytes, from_arena, ++seed * 100 + me.rank), other, 5));
            me.wait(receive);
            check_data(in, seed * 100 + other);
          }
        }
      }
    });
  }
}

inline void messages_to_oneself(const Subject& subject) {
  for (const RankOptions& options : subject.modes) {
    run(subject, 2, options, [&](TestRank& me, Meeting&) {
      for (const size_t bytes : {size_t{0}, size_t{8}, size_t{5000}, size_t{1} << 20}) {
        for (const bool in_arena : {false, true}) {
          const uint32_t send = me.isend(me.filled(bytes, in_arena, bytes), me.rank, 1);
          const Pinned in = me.memory(bytes, in_arena);
          me.receive(in, me.rank, 1);
          me.wait(send);
          check_data(in, bytes);
        }
      }
    });
  }
}

// Many more eager messages than there are slots, before their receives and after.
inline void more_messages_than_slots(const Subject& subject) {
  for (const bool receives_first : {true, false}) {
    run(subject, 2, mode(true), [&](TestRank& me, Meeting& meeting) {
      constexpr uint32_t kMany = 900;
      const Rank other = 1 - me.rank;
      std::vector<Pinned> in;
      std::vector<uint32_t> requests;
      const auto receive = [&] {
        for (uint32_t i = 0; i < kMany; ++i) {
          in.push_back(me.plain(200));
          requests.push_back(me.irecv(in.back(), other, i % 3));
        }
      };
      if (receives_first) receive();
      meeting.meet();
      for (uint32_t i = 0; i < kMany; ++i) requests.push_back(me.isend(me.filled(200, false, i), other, i % 3));
      if (!receives_first) {
        meeting.meet();
        receive();
      }
      for (const uint32_t request : requests) me.wait(request);
      for (uint32_t i = 0; i < kMany; ++i) check_data(in[i], i);
      CHECK(me.counter("acksExplicit") + me.counter("acksPiggybacked") > 0);
    });
  }
}

inline void random_mixes(const Subject& subject) {
  uint64_t seed = 1;
  for (const RankOptions& options : subject.modes) {
    for (const Rank size : {2u, 3u, 4u}) {
      run(subject, size, options, [&](TestRank& me, Meeting&) { random_mix(me, seed, subject.mix_steps); });
      ++seed;
    }
  }
}

// --- progress --------------------------------------------------------------------------------------------------------

// An exchange is complete at the first test after a computation of this length, on both ranks.
inline bool complete_at_first_test(const Subject& subject, std::chrono::milliseconds time) {
  std::atomic<bool> complete{true};
  run(subject, 2, mode(true), [&](TestRank& me, Meeting& meeting) {
    constexpr size_t kBlock = size_t{1} << 20;
    const Pinned out = me.plain(2 * kBlock);
    fill(out.data, kBlock, me.rank * 2);
    fill(out.data + kBlock, kBlock, me.rank * 2 + 1);
    const Pinned in = me.plain(2 * kBlock);
    const auto plan = me.load(alltoall(me.rank, 2, kBlock));
    meeting.meet();
    const uint32_t request = me.start(plan, out, in);
    compute(time);
    if (!me.test(request)) complete.store(false);
    meeting.meet();
    me.wait(request);
    for (const Rank from : {0u, 1u})
      CHECK_EQ(first_difference(in.data + from * kBlock, kBlock, from * 2 + me.rank), kBlock);
  });
  return complete.load();
}

// The progress threads do it while the callers compute. No time is known to be enough on a busy machine; if nothing
// moves by itself, none is.
inline void goes_on_by_itself(const Subject& subject) {
  bool complete = false;
  for (int time = 10; time < 20'000 && !complete; time *= 4)
    complete = complete_at_first_test(subject, std::chrono::milliseconds(time));
  CHECK(complete);
}

inline void a_sleeping_rank_is_called_by_one_that_connects(const Subject& subject) {
  run(subject, 2, mode(true), [](TestRank& me, Meeting& meeting) {
    meeting.meet();
    if (me.rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it has named no peer, and sleeps
      meeting.meet();
      const Pinned in = me.plain(8);
      me.receive(in, 1, 1);
      check_data(in, 3);
    } else {
      me.send(me.filled(8, false, 3), 0, 1);
      meeting.meet();
    }
  });
}

// --- ends ------------------------------------------------------------------------------------------------------------

inline void closing_ends_pending_requests(const Subject& subject) {
  for (const RankOptions& options : subject.modes) {
    run(subject, 2, options, [&](TestRank& me, Meeting& meeting) {
      const Rank peer = 1 - me.rank;
      const Pinned never = me.plain(1000);
      const uint32_t receive = me.irecv(never, peer, 0);
      const uint32_t small = me.irecv(me.plain(8), peer, 1);
      const uint32_t send = me.isend(me.filled(1000, true, 1), peer, 2);
      const auto plan = me.load(ring_allgather(me.rank, me.size, 5000));
      const uint32_t collective = me.rank == 0 ? me.start(plan, me.plain(5000), me.exposed(10'000)) : kNoRequest;
      meeting.meet();
      if (me.rank == 0) {
        me.close();
        for (const uint32_t request : {receive, small, send, collective}) CHECK_EQ(me.error(request), Error::closed);
      } else {
        // The peer's end is an error of what still depended on it.
        CHECK_EQ(me.failure(receive), Error::peer_closed);
        CHECK_EQ(me.failure(small), Error::peer_closed);
        CHECK_EQ(me.failure(send), Error::peer_closed);
        // And so is what is started later.
        CHECK_EQ(me.failure(me.irecv(never, peer, 9)), Error::peer_closed);
        CHECK_EQ(me.failure(me.isend(never, peer, 9)), Error::peer_closed);
      }
    });
  }
}

inline void what_was_sent_before_closing_arrives(const Subject& subject) {
  for (const RankOptions& options : subject.modes) {
    run(subject, 2, options, [&](TestRank& me, Meeting& meeting) {
      // Connects: without a progress thread a rank that does not call cannot answer.
      me.rank == 0 ? me.send(me.plain(1), 1, 99) : me.receive(me.plain(1), 0, 99);
      if (me.rank == 0) {
        for (uint32_t i = 0; i < 20; ++i) me.send(me.filled(100, false, i), 1, i);
        me.close();
        meeting.meet();
      } else {
        meeting.meet();
        for (uint32_t i = 20; i-- > 0;) {
          const Pinned in = me.plain(100);
          me.receive(in, 0, i);
          check_data(in, i);
        }
        CHECK_EQ(me.failure(me.irecv(me.plain(8), 0, 20)), Error::peer_closed);
      }
    });
  }
}

// Of three ranks one closes: what needs it fails, small and large; what the others do with each other does not.
inline void a_rank_that_closes_fails_what_needs_it(const Subject& subject) {
  run(subject, 3, mode(true), [](TestRank& me, Meeting& meeting) {
    if (me.rank == 0) {
      for (const Rank peer : {1u, 2u}) me.send(me.filled(8, false, 1), peer, 1);
      meeting.meet();
      me.close();
      return;
    }
    const Rank other = 3 - me.rank;
    const Pinned first = me.plain(8), second = me.plain(8);
    me.receive(first, 0, 1);
    const uint32_t large = me.irecv(me.plain(100'000), 0, 2);
    const uint32_t small = me.irecv(me.plain(8), 0, 3);
    const uint32_t unharmed = me.irecv(second, other, 3);
    meeting.meet();
    CHECK_EQ(me.failure(large), Error::peer_closed);
    CHECK_EQ(me.failure(small), Error::peer_closed);
    me.send(me.filled(8, false, me.rank), other, 3);
    me.wait(unharmed);
    check_data(second, other);
  });
}

// By a rank that only ever tests, as well.
inline void a_closed_peer_is_noticed_by_test_alone(const Subject& subject) {
  for (const RankOptions& options : subject.modes) {
    for (const size_t bytes : {size_t{8}, size_t{1000}}) {
      run(subject, 2, options, [&](TestRank& me, Meeting& meeting) {
        if (me.rank == 0) {
          const uint32_t request = me.irecv(me.plain(bytes), 1, 0);
          meeting.meet();
          while (!me.test(request)) sched_yield();
          CHECK_EQ(me.failure(request), Error::peer_closed);
        } else {
          meeting.meet();
          me.close();
        }
      });
    }
  }
}

inline void a_closed_peer_is_noticed_by_watchers(const Subject& subject) {
  run(subject, 3, mode(true), [](TestRank& me, Meeting& meeting) {
    if (me.rank == 0) {
      const uint32_t request = me.irecv(me.plain(8), 1, 0);
      const uint32_t other = me.irecv(me.plain(8), 2, 0);
      me.watch(request);
      meeting.meet();
      while (me.notifications.load(std::memory_order_acquire) == 0) sched_yield();
      CHECK_EQ(me.failure(request), Error::peer_closed);
      CHECK(!me.done(other));
      meeting.meet();
      me.wait(other);
    } else {
      meeting.meet();
      if (me.rank == 1) me.close();
      meeting.meet();
      if (me.rank == 2) me.send(me.filled(8, false, 0), 0, 0);
    }
  });
}

// Both sides are refused, and the text says why.
inline void other_eager_limits_are_refused(const Subject& subject) {
  const MakeRank make = subject.job(2);
  Meeting open(2), end(2);
  run_threads(2, [&](Rank rank) {
    RankOptions options;
    options.eager_limit = 255 + rank;
    TestRank me(make(rank, options), options);
    open.meet();
    for (const size_t bytes : {size_t{8}, size_t{5000}}) {
      CHECK_EQ(me.failure(me.isend(me.plain(bytes), 1 - rank, 0)), Error::mismatch);
      const uint32_t receive = me.irecv(me.plain(bytes), 1 - rank, 0);
      CHECK(me.engine->wait(&receive, 1, true, -1));
      CHECK_EQ(me.error(receive), Error::mismatch);
      CHECK(me.engine->failure(receive).detail.find("eagerLimit") != std::string::npos);
    }
    end.meet();
  });
}

// An operation fails while one of its receives is under way: its RTR is withdrawn before, while and after the sender
// begins.
inline void a_failed_operation_leaves_its_buffer_alone(const Subject& subject) {
  for (RankOptions options : subject.modes) {
    options.revoke_limit = 60'000;  // milliseconds: an emulated machine takes its time
    run(subject, 3, options, [&](TestRank& me, Meeting& meeting) {
      for (const Begins begins : {Begins::before, Begins::meanwhile, Begins::after}) {
        for (const Rank good : {1u, 2u}) {
          for (const size_t block : {200u, 20'000u, 600'000u})
            revoked_block(me, meeting, block, good == 1, begins, good);
        }
      }
    });
  }
}

// After the error a buffer is the user's again, whatever peers that know nothing of it do later. A sender that does not
// call the library answers a revoke all the same: its progress thread looks now and then. The connection stays. Without
// a progress thread only some fabrics can take a buffer back: those test it in their own files.
inline void a_buffer_is_left_alone_after_its_request_has_failed(const Subject& subject) {
  RankOptions options = mode(true);
  options.revoke_limit = 60'000;  // milliseconds: an emulated machine takes its time
  run(subject, 3, options, [&](TestRank& me, Meeting& meeting) {
    for (const size_t block : {8u, 5000u, 600'000u}) {
      for (const bool in_arena : {false, true}) late_block(me, meeting, block, in_arena, options.progress_thread);
    }
  });
}

// What an operation that has failed does not send any more fails those that need it.
inline void a_failure_travels_along_a_tree(const Subject& subject) {
  for (const RankOptions& options : subject.modes) {
    run(subject, 8, options, [&](TestRank& me, Meeting& meeting) {
      for (const size_t block : {size_t{8}, size_t{20'000}, size_t{600'000}}) {
        for (const bool to_root : {false, true}) failing_tree(me, meeting, block, to_root);
      }
    });
  }
}

// --- calls that differ -----------------------------------------------------------------------------------------------

// One rank of several is in another call than the others: all of them fail, whether messages of the two calls meet or
// not, and so does what they call later. Messages between two ranks still go.
struct TwoCalls {
  const char* name;
  Schedule (*most)(Rank, Rank, uint64_t block);
  Schedule (*odd)(Rank, Rank, uint64_t block);
  bool all_meet = false;  // no call can be complete: each one receives a message of the other call
};

inline Schedule from_root(Rank rank, Rank size, uint64_t block, Rank root) {
  Schedule schedule(block * size, block * size);
  schedule.round();
  for (Rank peer = 0; peer < size; ++peer) {
    if (peer == root || (rank != root && rank != peer)) continue;
    rank == root ? schedule.send(peer, Role::send, 0, block) : schedule.receive(root, Role::receive, 0, block);
  }
  return schedule;
}

inline Schedule to_root(Rank rank, Rank size, uint64_t block, Rank root) {
  Schedule schedule(block * size, block * size);
  schedule.round();
  for (Rank peer = 0; peer < size; ++peer) {
    if (peer == root || (rank != root && rank != peer)) continue;
    rank == root ? schedule.receive(peer, Role::receive, peer * block, block)
                 : schedule.send(root, Role::send, 0, block);
  }
  return schedule;
}

inline const TwoCalls kTwoCalls[] = {
    // Every message meets one of the other call.
    {"exchanges", alltoall, alltoall, true},
    // Two roots, each of which sends to the other one.
    {"roots", [](Rank rank, Rank size, uint64_t block) { return from_root(rank, size, block, 0); },
     [](Rank rank, Rank size, uint64_t block) { return from_root(rank, size, block, 1); }},
    // Nothing is sent between the rank that waits and the one that it waits for.
    {"circle", [](Rank rank, Rank size, uint64_t block) { return to_root(rank, size, block, 0); },
     [](Rank rank, Rank size, uint64_t block) { return from_root(rank, size, block, 2); }},
};

inline void calls_that_differ_fail_on_every_rank(const Subject& subject) {
  constexpr Signature kMost = 0x1234'5678, kOdd = 0x8765'4321;
  for (RankOptions options : subject.modes) {
    options.revoke_limit = 60'000;  // milliseconds: an emulated machine takes its time
    for (const TwoCalls& calls : kTwoCalls) {
      for (const size_t block : {size_t{8}, size_t{20'000}, size_t{600'000}}) {
        if (block == 20'000 && repetitions(1, 0) == 0) continue;
        run(subject, 4, options, [&](TestRank& me, Meeting& meeting) {
          const bool odd = me.rank == 1;
          const auto plan = me.load((odd ? calls.odd : calls.most)(me.rank, me.size, block));
          plan->call.signature = odd ? kOdd : kMost;
          const Pinned out = me.filled(block * me.size, false, 1);
          // A rank whose call was complete before the difference was known gets it from a later one.
          for (bool failed = false; !failed;) {
            const uint32_t request = me.start(plan, out, me.plain(block * me.size));
            if (request != kNoRequest) CHECK(me.engine->wait(&request, 1, true, -1));
            failed = me.error(request) != Error::none;
            if (!failed) {
              CHECK(!calls.all_meet);
              me.finish(request);
              continue;
            }
            CHECK_EQ(me.error(request), Error::calls_differ);
            const Mismatch found = me.engine->failure(request).mismatch;
            // Which of the other ranks has found it depends on who was first.
            const bool first_is_odd = found.ranks[0] == 1;
            CHECK_EQ(found.ranks[first_is_odd ? 0 : 1], 1u);
            CHECK_EQ(found.calls[0], first_is_odd ? kOdd : kMost);
            CHECK_EQ(found.calls[1], first_is_odd ? kMost : kOdd);
          }
          meeting.meet([&] { me.engine->test(); });
          const Pinned in = me.plain(block);
          const uint32_t receive = me.irecv(in, (me.rank + 3) % 4, 1);
          const uint32_t send = me.isend(me.filled(block, false, me.rank), (me.rank + 1) % 4, 1);
          me.wait(receive);
          me.wait(send);
          check_data(in, (me.rank + 3) % 4);
          meeting.meet([&] { me.engine->test(); });
        });
      }
    }
  }
}

// A rank has made many calls when another one makes its first: what it has called then is known. Rank 0 has to ask,
// since nothing is sent between the two; rank 2 has got a message of each call.
inline void calls_that_differ_are_found_long_after(const Subject& subject) {
  constexpr Signature kMost = 1, kOdd = 2;
  constexpr uint32_t kCalls = 150;  // they have room in the mailbox
  for (const Rank caller : {0u, 2u}) {
    run(subject, 3, mode(true), [&](TestRank& me, Meeting& meeting) {
      Schedule odd(8, 8);
      odd.round();
      odd.send(2, Role::send, 0, 8);
      const auto plan = me.load(me.rank == 1 ? odd : to_root(me.rank, 3, 8, 0));
      plan->call.signature = me.rank == 1 ? kOdd : kMost;
      const Pinned out = me.filled(24, false, 1);
      if (me.rank == 1) {
        for (uint32_t i = 0; i < kCalls; ++i) me.wait(me.start(plan, out, me.plain(24)));
        me.send(me.plain(1), 2, 1);
      }
      if (me.rank == 2) me.receive(me.plain(1), 1, 1);  // so the messages before are there
      meeting.meet();
      if (me.rank == caller) {
        const uint32_t request = me.start(plan, out, me.plain(24));
        CHECK(request != kNoRequest);
        CHECK(me.engine->wait(&request, 1, true, -1));
        CHECK_EQ(me.error(request), Error::calls_differ);
      }
      meeting.meet([&] { me.engine->test(); });
      if (me.rank == 1) CHECK_EQ(me.engine->last_look().error, Error::calls_differ);
    });
  }
}

// A rank that has nothing more to do learns it before it closes.
inline void calls_that_differ_are_told_at_the_end(const Subject& subject) {
  run(subject, 2, mode(true), [](TestRank& me, Meeting& meeting) {
    const Rank peer = 1 - me.rank;
    me.send(me.plain(1), peer, 1);
    me.receive(me.plain(1), peer, 1);
    meeting.meet();                                                // nothing more is received before both have called
    const auto plan = me.load(from_root(me.rank, 2, 8, me.rank));  // each thinks that it is the root
    plan->call.signature = 1 + me.rank;
    me.wait(me.start(plan, me.filled(16, false, 1), me.plain(16)));
    me.send(me.plain(1), peer, 1);
    meeting.meet();
    me.receive(me.plain(1), peer, 1);  // behind the message of the call
    CHECK_EQ(me.engine->last_look().error, Error::calls_differ);
  });
}

// --- the suite -------------------------------------------------------------------------------------------------------

// Adds the suite to the program, for this subject.
inline bool conforms(const Subject& subject) {
  static std::deque<std::string> names;  // tests() keeps pointers to them
  auto turn = static_cast<size_t>(subject.turn);
  const auto add = [&](const char* name, void (*test)(const Subject&)) {
    Subject own = subject;
    if (subject.turn >= 0 && repetitions(1, 0) == 0) own.modes = {subject.modes[turn++ % subject.modes.size()]};
    names.push_back(subject.name + "." + name);
    tests().push_back({names.back().c_str(), [own, test] { test(own); }});
  };
#define CONFORMANCE(test) add(#test, test)
  CONFORMANCE(messages_of_every_size_and_kind_of_buffer);
  CONFORMANCE(a_sleeping_rank_is_called_by_one_that_connects);
  CONFORMANCE(closing_ends_pending_requests);
  CONFORMANCE(what_was_sent_before_closing_arrives);
  CONFORMANCE(a_rank_that_closes_fails_what_needs_it);
  CONFORMANCE(a_closed_peer_is_noticed_by_test_alone);
  CONFORMANCE(a_closed_peer_is_noticed_by_watchers);
  CONFORMANCE(other_eager_limits_are_refused);
  if (subject.meets_and_parts_only) return true;
  CONFORMANCE(a_failure_travels_along_a_tree);
  CONFORMANCE(messages_to_oneself);
  CONFORMANCE(more_messages_than_slots);
  CONFORMANCE(random_mixes);
  CONFORMANCE(goes_on_by_itself);
  CONFORMANCE(a_failed_operation_leaves_its_buffer_alone);
  CONFORMANCE(a_buffer_is_left_alone_after_its_request_has_failed);
  CONFORMANCE(calls_that_differ_fail_on_every_rank);
  CONFORMANCE(calls_that_differ_are_found_long_after);
  CONFORMANCE(calls_that_differ_are_told_at_the_end);
#undef CONFORMANCE
  return true;
}

}  // namespace nbc::check::conformance
