// Ranks on two hosts: shared memory within a host, a network between them (thread_network.h), with ranks as threads.
// Nothing here has a time limit of its own, so a wake-up that is lost stops the program, which is what the watchdog is
// for.
#include <cstddef>
#include <cstdio>
#include <poll.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "fabric/mixed/mixed_fabric.h"
#include "test/mix.h"
#include "test/ranks.h"
#include "test/thread_network.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using job::Route;
using mixed::MixedFabric;
using shm::ShmFabric;
using shm::ShmOptions;
using Opening = ShmFabric::Opening;

// Two ranks on each host.
std::string host_of(Rank rank) { return rank / 2 == 0 ? "a" : "b"; }

std::unique_ptr<ShmFabric> make_near(const std::shared_ptr<job::Segment>& segment, Rank rank, Opening opening,
                                     const std::string& host, const RankOptions& options = {}) {
  return std::make_unique<ShmFabric>(segment, ShmOptions{rank, options.eager_limit, options.cross_memory, true, host},
                                     opening);
}

// A job of ranks of two hosts. Each is made by its own thread.
struct TwoHosts {
  explicit TwoHosts(Rank size) : segment(make_segment(size)), network(size) {}
  std::unique_ptr<MixedFabric> make(Rank rank, const RankOptions& options = {}) {
    auto near = make_near(segment, rank, Opening::later, host_of(rank), options);
    auto far = std::make_unique<ThreadFabric>(network, rank, near->memory());
    return std::make_unique<MixedFabric>(std::move(near), std::move(far));
  }
  // Somebody of this rank sleeps, or is about to and will look once more.
  void until_armed(Rank rank, Sleeper who) {
    while ((segment->line(rank).bell.armed.load(std::memory_order_acquire) & 3) != static_cast<uint32_t>(who) ||
           !network.is_armed(rank))
      sched_yield();
  }
  const std::shared_ptr<job::Segment> segment;
  ThreadNetwork network;
};

void run_mixed(TwoHosts& job, const RankOptions& options, const std::function<void(TestRank&, Meeting&)>& body) {
  const auto make = [&](Rank rank) { return job.make(rank, options); };
  run_ranks_over(job.network.size(), options, make, [&](TestRank& me, Meeting& meeting) {
    body(me, meeting);
    meeting.meet();
    // What was opened to the network is closed again.
    CHECK_EQ(me.counter("cacheMisses"), 0.0);
  });
}

bool readable(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

// --- routes
// ------------------------------------------------------------------------------------------------------------

TEST(messages_take_the_route_to_their_peer) {
  for (const bool progress_thread : {true, false}) {
    TwoHosts job(4);
    run_mixed(job, mode(progress_thread), [&](TestRank& me, Meeting& meeting) {
      for (Rank peer = 0; peer < 4; ++peer) {
        for (const size_t bytes : {size_t{1}, size_t{255}, size_t{256}, size_t{100'000}}) {
          for (const bool in_arena : {false, true}) {
            const Pinned in = me.memory(bytes, in_arena);
            const uint32_t receive = me.irecv(in, peer, 1);
            me.send(me.filled(bytes, in_arena, me.rank * 10 + peer), peer, 1);
            me.wait(receive);
            check_data(in, peer * 10 + me.rank);
          }
        }
      }
      meeting.meet();
      for (Rank peer = 0; peer < 4; ++peer) {
        const uint64_t sent = job.network.sent(me.rank, peer);
        if (host_of(peer) == host_of(me.rank)) {
          CHECK_EQ(sent, 0u);
        } else {
          CHECK(sent >= 8);
        }
      }
      CHECK(me.counter("mappedBytes") > 0);
    });
  }
}

TEST(both_sides_take_the_same_route) {
  struct Rank_ {
    uint32_t reach;
    const char* host;
  };
  using job::kByNetwork;
  using job::kBySharedMemory;
  constexpr uint32_t kByHost = kBySharedMemory | job::kOnSameHostOnly;
  const Rank_ shm{kBySharedMemory, "a"}, shm_b{kBySharedMemory, "b"}, verbs{kByNetwork, ""}, alone{kByHost, "a"},
      unnamed{kByHost, ""}, mixed_a{kByHost | kByNetwork, "a"}, mixed_b{kByHost | kByNetwork, "b"};
  constexpr Route kShared = Route::shared_memory, kNetwork = Route::network, kNone = Route::none;
  struct {
    Rank_ one, other;
    Route route;
  } const cases[] = {
      {shm, shm, kShared},         {shm, shm_b, kShared},        {shm, alone, kShared},       {shm, unnamed, kNone},
      {shm, mixed_a, kShared},     {shm, mixed_b, kNone},        {shm, verbs, kNone},         {verbs, verbs, kNetwork},
      {verbs, alone, kNone},       {verbs, mixed_a, kNetwork},   {alone, alone, kShared},     {alone, unnamed, kNone},
      {alone, mixed_a, kShared},   {alone, mixed_b, kNone},      {unnamed, unnamed, kShared}, {unnamed, mixed_a, kNone},
      {mixed_a, mixed_a, kShared}, {mixed_a, mixed_b, kNetwork},
  };
  for (const auto& c : cases) {
    const auto segment = make_segment(2);
    job::claim(*segment, 0, 1, c.one.reach, c.one.host);
    job::claim(*segment, 1, 1, c.other.reach, c.other.host);
    CHECK_EQ(job::route_between(*segment, 0, 1), c.route);
    CHECK_EQ(job::route_between(*segment, 1, 0), c.route);
  }
}

TEST(a_rank_that_is_elsewhere_is_refused_and_the_reason_is_told) {
  const auto segment = make_segment(2);
  const auto here = make_near(segment, 0, Opening::now, "");
  CHECK(here->connect(1) == Connect::later);
  job::RankCaller caller;
  job::announce_elsewhere(*segment, 1, caller);
  CHECK(here->connect(1) == Connect::refused);
  CHECK(here->why(1).find("rank 1 of the world runs with transport 'tcp'") != std::string::npos);
  // It has not been taken: it may come with shared memory after all.
  const auto there = make_near(segment, 1, Opening::now, "");
  CHECK(here->connect(1) == Connect::ready);
  job::announce_elsewhere(*segment, 1, caller);
  CHECK(here->connect(1) == Connect::ready);
}

// --- the names of sockets --------------------------------------------------------------------------------------------

std::string name_of(int descriptor) {
  sockaddr_un address{};
  socklen_t length = sizeof address;
  CHECK_EQ(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length), 0);
  return {address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1};
}

TEST(names_of_sockets_hold_128_random_bits_of_the_rank) {
  std::set<std::string> keys;
  for (uint32_t attempt = 0; attempt < 2; ++attempt) {
    const auto segment = make_segment(2);
    for (Rank rank = 0; rank < 2; ++rank) {
      const auto near = make_near(segment, rank, Opening::later, "a");
      near->open_sockets();
      const std::string caller = name_of(near->descriptor(Sleeper::caller));
      const std::string progress = name_of(near->descriptor(Sleeper::progress));
      const std::string prefix = "node-nbc-";
      CHECK_EQ(caller.size(), prefix.size() + 32 + 2);
      CHECK(caller.starts_with(prefix) && caller.ends_with("-c"));
      CHECK(progress.ends_with("-p"));
      const std::string key = caller.substr(prefix.size(), 32);
      CHECK_EQ(key, progress.substr(prefix.size(), 32));
      CHECK(key.find_first_not_of("0123456789abcdef") == std::string::npos);
      CHECK(keys.insert(key).second);
    }
  }
}

// As an earlier version named them: anybody who can count inodes can hold these.
TEST(names_that_can_be_guessed_are_not_needed) {
  const int fd = job::Segment::create(4, kTestArena);
  struct stat status;
  CHECK_EQ(fstat(fd, &status), 0);
  std::vector<Descriptor> held;
  for (const char what : {'b', 'c', 'p'}) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "node-nbc-%llx-0-%c",
                                     static_cast<unsigned long long>(status.st_ino), what);
    held.emplace_back(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    CHECK_EQ(::bind(held.back().get(), reinterpret_cast<sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length))),
             0);
  }
  const auto near = make_near(job::Segment::map(fd), 0, Opening::later, "a");
  near->open_sockets();
  close(fd);
}

TEST(without_a_network_other_hosts_are_not_reached_and_the_reason_is_told) {
  const auto segment = make_segment(4);
  TwoHosts job(4);
  auto here = make_near(job.segment, 0, Opening::later, "a");
  CHECK(here->connect(1) == Connect::later);
  here->open(false, "there is no card");
  const auto mate = make_near(job.segment, 1, Opening::now, "a");
  const auto other = job.make(2);
  CHECK(here->connect(1) == Connect::ready);
  CHECK(here->connect(2) == Connect::broken);
  CHECK(other->connect(0) == Connect::broken);
  CHECK(other->connect(3) == Connect::later);
  const std::string why = here->why(2);
  for (const char* part : {"rank 2", "'a'", "'b'", "this rank has none (there is no card)"})
    CHECK(why.find(part) != std::string::npos);
  CHECK(other->why(0).find("rank 0 has none") != std::string::npos);
  CHECK(other->why(0).find("this rank has none") == std::string::npos);
}

TEST(a_rank_is_opened_once_and_closed_once) {
  TwoHosts job(2);
  const auto state = [&] { return job.segment->line(0).state.load(); };
  auto near = make_near(job.segment, 0, Opening::later, "a");
  CHECK(!job::has_opened(*job.segment, 0));
  auto far = std::make_unique<ThreadFabric>(job.network, 0, near->memory());
  bool open_then = false;
  far->before_closing = [&] { open_then = state() == job::RankState::open; };
  {
    MixedFabric fabric(std::move(near), std::move(far));
    CHECK(state() == job::RankState::open);
    fabric.announce_closed();  // a process that ends comes no further
    CHECK(open_then);
    CHECK(state() == job::RankState::closed);
  }
  bool refused = false;
  try {
    job.make(0);
  } catch (const FabricError&) {
    refused = true;
  }
  CHECK(refused);
}

// --- everything at once ----------------------------------------------------------------------------------------------

TEST(everything_at_once) {
  TwoHosts job(4);
  run_mixed(job, {}, [](TestRank& me, Meeting&) { random_mix(me, 1, repetitions(600, 120)); });
}

// --- sleeping --------------------------------------------------------------------------------------------------------

// Rank 0 sleeps, as either sleeper; rank 1 on its host or rank 2 on the other wakes it when it does.
TEST(both_fabrics_wake_both_sleepers) {
  TwoHosts job(3);
  run_mixed(job, {}, [&](TestRank& me, Meeting& meeting) {
    constexpr uint32_t kRounds = 20;
    for (uint32_t round = 0; round < kRounds; ++round) {
      for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
        for (const Rank sender : {1u, 2u}) {
          meeting.meet();
          if (me.rank == 0) {
            const Pinned in = me.plain(4);
            const uint32_t request = me.irecv(in, sender, 1);
            if (who == Sleeper::progress) {
              const uint32_t told = me.notifications.load();
              me.watch(request);
              while (me.notifications.load() == told) sched_yield();  // without a call that would drive
              me.finish(request);
            } else {
              me.wait(request);
            }
          } else if (me.rank == sender) {
            job.until_armed(0, who);
            me.send(me.filled(4, false, 1), 0, 1);
          }
        }
      }
    }
    meeting.meet();
    if (me.rank == 1) CHECK(me.counter("doorbells") >= kRounds);
    if (me.rank == 0) CHECK(me.counter("events") >= kRounds);
  });
}

// What is missing comes from both sides, in any order: the count of the one must not hide the other.
TEST(a_sleeper_that_waits_for_several_messages_is_woken_by_the_last) {
  TwoHosts job(3);
  run_mixed(job, {}, [&](TestRank& me, Meeting& meeting) {
    for (uint32_t round = 0; round < repetitions(300, 60); ++round) {
      meeting.meet();
      if (me.rank == 0) {
        const Pinned in = me.memory(300, false);
        Schedule gather(0, 300);
        gather.round();
        for (uint32_t i = 0; i < 3; ++i) gather.receive(1, Role::receive, i * 50, 50);
        for (uint32_t i = 3; i < 6; ++i) gather.receive(2, Role::receive, i * 50, 50);
        me.wait(me.start(me.load(gather), {}, in));
        check_data(in, round);
      } else {
        const Pinned out = me.filled(300, false, round);
        const bool first = (me.rank == 1) == (round % 2 == 0);
        if (first) job.until_armed(0, Sleeper::caller);
        Schedule scatter(300, 0);
        scatter.round();
        for (uint32_t i = 0; i < 3; ++i) scatter.send(0, Role::send, ((me.rank - 1) * 3 + i) * 50, 50);
        me.wait(me.start(me.load(scatter), out, {}));
      }
    }
  });
}

// Steps of a random number of messages between all. Everybody waits for all of a step, and sleeps because now and then
// somebody is late. In each 32nd step rank 1 starts only when rank 0 is about to sleep, however busy the machine is.
TEST(no_wake_up_is_lost) {
  constexpr uint32_t kSteps = repetitions(3000, 1000);
  for (const bool progress_thread : {true, false}) {
    TwoHosts job(4);
    std::atomic<uint32_t> parks{0};
    run_mixed(job, mode(progress_thread), [&](TestRank& me, Meeting& meeting) {
      Random own(me.rank + 7);
      for (uint32_t step = 0; step < kSteps; ++step) {
        const bool late = step % 32 == 0;
        const auto count = [&](Rank from, Rank to) -> uint32_t {
          if (late && from == 1 && to == 0) return 1;
          return Random(step * 16 + from * 4 + to + 1).below(3);
        };
        std::vector<uint32_t> requests;
        if (late && me.rank == 1) job.until_armed(0, Sleeper::caller);
        for (Rank peer = 0; peer < 4; ++peer) {
          for (uint32_t i = count(peer, me.rank); i > 0; --i) requests.push_back(me.irecv(me.plain(8), peer, 1));
          for (uint32_t i = count(me.rank, peer); i > 0; --i)
            requests.push_back(me.isend(me.filled(8, false, i), peer, 1));
        }
        if (own.one_in(4)) std::this_thread::sleep_for(std::chrono::microseconds(own.below(300)));
        for (const uint32_t request : requests) me.wait(request);
      }
      meeting.meet();
      parks.fetch_add(static_cast<uint32_t>(me.counter("parks")));
    });
    CHECK(parks.load() > 0);  // otherwise nothing was tested; how often depends on what else runs
  }
}

TEST(neither_side_has_rung_or_it_is_not_armed) {
  TwoHosts job(3);
  const auto me = job.make(0);
  const auto mate = job.make(1);
  const auto other = job.make(2);
  for (const auto& [one, two] : {std::pair{&me, 1u}, {&me, 2u}}) CHECK((*one)->connect(two) == Connect::ready);
  CHECK(mate->connect(0) == Connect::ready && other->connect(0) == Connect::ready);
  CHECK(!me->is_armed());
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
    for (MixedFabric* sender : {mate.get(), other.get()}) {
      me->arm(who, 1);
      CHECK(me->is_armed());
      sender->commit(0, sender->outbox(0).slots, 8, 1, nullptr);
      sender->flush();
      CHECK(!me->is_armed());
      me->sleep(who, me->ticket(who), -1);  // has been rung: returns
      me->disarm();
    }
    me->arm(who, 1);
    me->disarm();
    CHECK(!me->is_armed());
  }
  Completion completions[16];
  CHECK_EQ(me->poll(completions, 16, Effort::look), 2u);  // of the network
}

// Unread datagrams count against what their sender may send.
TEST(a_ring_that_nobody_slept_for_does_not_stay) {
  TwoHosts job(2);
  auto near = make_near(job.segment, 0, Opening::later, "a");
  ShmFabric& doorbell = *near;
  auto far = std::make_unique<ThreadFabric>(job.network, 0, near->memory());
  MixedFabric me(std::move(near), std::move(far));
  const auto mate = job.make(1);
  CHECK(mate->connect(0) == Connect::ready);
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
    for (uint32_t i = 0; i < 1000; ++i) {
      me.arm(who, 1);
      mate->commit(0, mate->outbox(0).slots, 8, 1, nullptr);
      mate->flush();
      CHECK(readable(doorbell.descriptor(who)));
      me.disarm();
      CHECK(!readable(doorbell.descriptor(who)));
    }
  }
}

TEST(a_rank_that_appears_later_is_waited_for_asleep) {
  for (const Rank late : {1u, 2u}) {
    TwoHosts job(3);
    run_threads(3, [&](Rank rank) {
      if (rank != 0 && rank != late) return;
      if (rank == late) job.until_armed(0, Sleeper::caller);
      TestRank me(job.make(rank), {});
      if (rank == late) {
        me.send(me.filled(10, false, 3), 0, 1);
        me.receive(me.plain(1), 0, 2);
      } else {
        const Pinned in = me.plain(10);
        me.receive(in, late, 1);
        check_data(in, 3);
        me.send(me.plain(1), late, 2);
      }
    });
  }
}

// Whether it has opened is looked at once for each connect(): two looks may disagree.
TEST(a_rank_that_opens_meanwhile_is_connected_later) {
  for (uint32_t i = 0; i < repetitions(1500, 300); ++i) {
    TwoHosts job(3);
    std::atomic<bool> looks{false};
    run_threads(3, [&](Rank rank) {
      if (rank == 1) return;
      if (rank == 2) {
        while (!looks.load(std::memory_order_acquire)) sched_yield();
        const auto fabric = job.make(rank);
        return;
      }
      const auto fabric = job.make(rank);
      looks.store(true, std::memory_order_release);
      Connect answer;
      while ((answer = fabric->connect(2)) == Connect::later) {
      }
      CHECK(answer == Connect::ready);
    });
  }
}

TEST(a_rank_that_closes_wakes_its_waiters) {
  for (const Rank leaver : {1u, 2u}) {
    for (const bool progress_thread : {true, false}) {
      TwoHosts job(4);
      run_threads(4, [&](Rank rank) {
        TestRank me(job.make(rank, mode(progress_thread)), mode(progress_thread));
        // All are connected.
        me.wait(me.start(me.load(alltoall(rank, 4, 8)), me.filled(32, false, 1), me.plain(32)));
        if (rank == leaver) {
          job.until_armed(0, Sleeper::caller);
          return;
        }
        if (rank == 0) {
          CHECK_EQ(me.failure(me.irecv(me.plain(8), leaver, 1)), Error::peer_closed);
          for (const Rank other : {1u, 2u, 3u}) {
            if (other != leaver) me.send(me.plain(8), other, 2);
          }
        } else {
          me.receive(me.plain(8), 0, 2);
        }
      });
    }
  }
}

}  // namespace

TEST_MAIN(120)
