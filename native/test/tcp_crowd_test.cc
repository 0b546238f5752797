// One rank and its peers over TCP: hundreds of them, and one that is stopped among others that are not.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

#include "test/check.h"
#include "test/fabrics.h"
#include "test/ranks.h"
#include "test/tcp_job.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{100};

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// Each rank has some for itself, and each connection one at both ends.
void allow_descriptors(rlim_t wanted) {
  rlimit limit{};
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  if (limit.rlim_max < wanted) SKIP("it needs " + std::to_string(wanted) + " descriptors (ulimit -Hn)");
  limit.rlim_cur = std::max(limit.rlim_cur, wanted);
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

// --- many ------------------------------------------------------------------------------------------------------------

// In both directions, with one tag; some go through the mailbox, some are asked for.
constexpr size_t kSizes[] = {8, 1000, 0, 20'000, 255};
constexpr uint32_t kTag = 1;

uint64_t seed_of(Rank from, Rank to, size_t index) { return from * 1'000'003ull + to * 1009ull + index; }

// All messages between a rank and one peer.
struct Exchange {
  Exchange(TestRank& me, Rank peer) : me(me), peer(peer) {
    for (const size_t bytes : kSizes) {
      incoming.push_back(me.plain(bytes));
      requests.push_back(me.irecv(incoming.back(), peer, kTag));
      requests.push_back(me.isend(me.filled(bytes, false, seed_of(me.rank, peer, requests.size())), peer, kTag));
    }
  }
  bool done() {
    return std::all_of(requests.begin(), requests.end(), [&](uint32_t request) { return me.done(request); });
  }
  void check() {
    for (const uint32_t request : requests) me.finish(request);
    for (size_t i = 0; i < incoming.size(); ++i) check_data(incoming[i], seed_of(peer, me.rank, 2 * i + 1));
  }
  TestRank& me;
  const Rank peer;
  std::vector<Pinned> incoming;
  std::vector<uint32_t> requests;
};

// Rank 0 with a progress thread; the others have none, and this thread drives all of them.
struct Star {
  explicit Star(Rank size) : job(size), hub(job.fabric(0), mode(true)) {
    for (Rank rank = 1; rank < size; ++rank)
      leaves.push_back(std::make_unique<TestRank>(job.fabric(rank), mode(false)));
  }
  // Rank 0 with each of these at once.
  void exchange(Rank first, Rank last) {
    std::vector<std::unique_ptr<Exchange>> all;
    for (Rank rank = first; rank <= last; ++rank) all.push_back(std::make_unique<Exchange>(leaf(rank), 0));
    for (Rank rank = first; rank <= last; ++rank) all.push_back(std::make_unique<Exchange>(hub, rank));
    finish(all, first, last);
  }
  void exchange_between_leaves(Rank a, Rank b) {
    std::vector<std::unique_ptr<Exchange>> all;
    all.push_back(std::make_unique<Exchange>(leaf(a), b));
    all.push_back(std::make_unique<Exchange>(leaf(b), a));
    finish(all, a, b);
  }
  void finish(const std::vector<std::unique_ptr<Exchange>>& all, Rank first, Rank last) {
    const auto end = Clock::now() + kLimit;
    const auto done = [](const auto& each) { return each->done(); };
    while (!std::all_of(all.begin(), all.end(), done)) {
      hub.engine->test();
      for (Rank rank = first; rank <= last; ++rank) leaf(rank).engine->test();
      CHECK(Clock::now() < end);
    }
    for (const auto& each : all) each->check();
  }
  TestRank& leaf(Rank rank) { return *leaves[rank - 1]; }

  TcpJob job;
  // Rank 0 closes first: it waits for all acknowledgements at once. Leaves that close before it, one after the other,
  // would wait 40 ms each: it has nothing to do and reads nothing, so the kernel's timer acknowledges what they sent.
  std::vector<std::unique_ptr<TestRank>> leaves;
  TestRank hub;
};

TEST(hundreds_of_peers_are_connected_when_they_talk_and_need_no_more_threads) {
  constexpr Rank kPeers = repetitions(400, 100);
  allow_descriptors(8192);
  size_t threads;
  {
    Star star(2);
    star.exchange(1, 1);
    threads = threads_of_this_process();
  }
  Star star(kPeers + 1);
  star.exchange(1, 10);
  CHECK_EQ(star.hub.counter("connections"), 10.0);
  star.exchange(1, kPeers);
  CHECK_EQ(star.hub.counter("connections"), double{kPeers});
  CHECK_EQ(threads_of_this_process(), threads);

  star.exchange_between_leaves(2, 3);
  for (Rank rank = 1; rank <= kPeers; ++rank)
    CHECK_EQ(star.leaf(rank).counter("connections"), rank == 2 || rank == 3 ? 2.0 : 1.0);
  CHECK_EQ(star.hub.counter("connectionsRefused"), 0.0);
}

// They have all called before rank 0 looks for the first time, and none of them answers before it has heard all.
TEST(hundreds_may_connect_at_once) {
  constexpr Rank kPeers = 400;
  allow_descriptors(8192);
  TcpJob job(kPeers + 1);
  std::vector<std::unique_ptr<TcpFabric>> fabrics;
  for (Rank rank = 0; rank <= kPeers; ++rank) fabrics.push_back(job.fabric(rank));
  for (Rank rank = 1; rank <= kPeers; ++rank) CHECK(fabrics[rank]->connect(0) == Connect::later);
  const auto end = Clock::now() + kLimit;
  Completion completions[16];
  const auto ready = [&](const auto& fabric) { return fabric == fabrics[0] || fabric->connect(0) == Connect::ready; };
  while (!std::all_of(fabrics.begin(), fabrics.end(), ready)) {
    for (const auto& fabric : fabrics) fabric->poll(completions, 16, Effort::pass);
    CHECK(Clock::now() < end);
  }
  CHECK_EQ(counter(*fabrics[0], "connectionsAccepted"), double{kPeers});
  CHECK_EQ(counter(*fabrics[0], "connectionsRefused"), 0.0);
}

// All ranks with all others, each with a progress thread.
TEST(all_to_all_on_many_ranks) {
  constexpr Rank kRanks = repetitions(64, 16);
  allow_descriptors(8192);
  TcpJob job(kRanks);
  const auto make = [&](Rank rank) { return job.fabric(rank); };
  run_ranks_over(kRanks, mode(true), make, [](TestRank& me, Meeting&) {
    for (const size_t block : {size_t{64}, size_t{4096}}) {
      const Pinned out = me.plain(block * me.size);
      for (Rank to = 0; to < me.size; ++to) fill(out.data + to * block, block, seed_of(me.rank, to, block));
      const Pinned in = me.plain(block * me.size);
      me.wait(me.start(me.load(alltoall(me.rank, me.size, block)), out, in));
      for (Rank from = 0; from < me.size; ++from)
        CHECK_EQ(first_difference(in.data + from * block, block, seed_of(from, me.rank, block)), block);
    }
    CHECK_EQ(me.counter("connections"), static_cast<double>(me.size - 1));
  });
}

// --- a stopped one ---------------------------------------------------------------------------------------------------

constexpr Rank kStopped = 1;
constexpr Rank kOther = 2;
constexpr size_t kLarge = size_t{64} << 20;
constexpr uint32_t kSmallMessages = 10'000;

// Rank 1, a process: asks for everything, says so, and looks when it may run again.
void be_the_stopped_rank(TcpJob& job, int ready) {
  TestRank me(job.fabric(kStopped), mode(true));
  const Pinned large = me.plain(kLarge);
  std::vector<uint32_t> requests{me.irecv(large, 0, 1)};
  std::vector<Pinned> small;
  for (uint32_t i = 0; i < kSmallMessages; ++i) {
    small.push_back(me.plain(200));
    requests.push_back(me.irecv(small.back(), 0, 2));
  }
  me.send(me.filled(8, false, 1), 0, 3);
  const char byte = 1;
  CHECK(::write(ready, &byte, 1) == 1);
  for (const uint32_t request : requests) me.wait(request);
  check_data(large, 1);
  for (uint32_t i = 0; i < kSmallMessages; ++i) check_data(small[i], i);
  me.send(me.filled(8, false, 2), 0, 3);
}

size_t resident_bytes() {
  size_t pages = 0;
  size_t resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%zu %zu", &pages, &resident) == 2);
  std::fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(what_goes_to_a_stopped_rank_is_bounded_and_others_are_served) {
  TcpJob job(3);
  int ready[2];
  CHECK(pipe(ready) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (const Rank rank : {0u, kOther}) job.listeners[rank].reset();
    try {
      be_the_stopped_rank(job, ready[1]);
    } catch (const Failure& failure) {
      std::fprintf(stderr, "rank 1: %s\n", failure.why.c_str());
      _exit(1);
    }
    _exit(0);
  }
  job.listeners[kStopped].reset();
  constexpr size_t kBlock = size_t{1} << 20;
  constexpr uint32_t kRounds = 100;
  std::thread other([&] {
    TestRank me(job.fabric(kOther), mode(true));
    const Pinned block = me.plain(kBlock);
    for (uint32_t i = 0; i < 2 * kRounds; ++i) {
      me.receive(block, 0, 1);
      me.send(block, 0, 1);
    }
  });
  std::unique_ptr<Failure> failure;
  try {
    TestRank me(job.fabric(0), mode(true));
    char byte;
    CHECK(::read(ready[0], &byte, 1) == 1);
    me.receive(me.plain(8), kStopped, 3);
    CHECK(::kill(child, SIGSTOP) == 0);
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));

    const Pinned large = me.filled(kLarge, false, 1);
    const Pinned block = me.filled(kBlock, false, 3);
    const Pinned in = me.plain(kBlock);
    const auto serve_other = [&] {
      const auto start = Clock::now();
      for (uint32_t i = 0; i < kRounds; ++i) {
        const uint32_t receive = me.irecv(in, kOther, 1);
        me.send(block, kOther, 1);
        me.wait(receive);
        check_data(in, 3);
      }
      return Clock::now() - start;
    };
    const auto alone = serve_other();
    std::vector<Pinned> small;
    for (uint32_t i = 0; i < kSmallMessages; ++i) small.push_back(me.filled(200, false, i));
    const size_t resident = resident_bytes();
    const double sent_before = me.counter("bytesSent");
    const double eager_before = me.counter("eagerSent");

    std::vector<uint32_t> requests{me.isend(large, kStopped, 1)};
    for (uint32_t i = 0; i < kSmallMessages; ++i) requests.push_back(me.isend(small[i], kStopped, 2));
    const auto beside = serve_other();
    if (repetitions(1, 0) == 1) CHECK(beside < 3 * alone);
    // All of that while nothing has been read by the stopped one: it has what its socket and ours hold, and no more
    // messages than its mailbox has slots.
    CHECK(!me.done(requests.front()) && !me.done(requests.back()));
    const double to_other = 1.01 * kRounds * kBlock;
    CHECK(me.counter("bytesSent") - sent_before - to_other < kLarge / 2);
    CHECK(me.counter("eagerSent") - eager_before < 1024);
    // Requests are remembered; what they send is not copied. What earlier tests have freed may go back meanwhile.
    if (repetitions(1, 0) == 1) CHECK(resident_bytes() < resident + (size_t{16} << 20));

    CHECK(::kill(child, SIGCONT) == 0);
    for (const uint32_t request : requests) me.wait(request);
    me.receive(me.plain(8), kStopped, 3);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  } catch (const Failure& caught) {
    failure = std::make_unique<Failure>(caught);
    ::kill(child, SIGKILL);
  }
  // Rank 0 has closed: if it failed, so does what the other one waits for.
  other.join();
  ::close(ready[0]);
  ::close(ready[1]);
  if (failure != nullptr) throw *failure;
}

}  // namespace

TEST_MAIN(300)
