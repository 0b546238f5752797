// Who drives: what must go on while the calling thread computes, over a network of threads (thread_network.h). Nothing
// here has a time limit of its own: what does not go on stops the program, which is what the watchdog is for.
#include "test/fake_fabric.h"
#include "test/ranks.h"
#include "test/thread_network.h"

namespace {

using namespace nbc;
using namespace nbc::check;

// Exposed memory that nobody needs to reach.
class Heap final : public ExposedMemory {
 public:
  void* allocate(size_t bytes) override { return std::calloc(1, bytes); }
  void release(void* block) override { std::free(block); }
  size_t used() const override { return 0; }
  std::string why() const override { return "no memory"; }
};

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
      if (watched) me.engine->watch(receive);
      meeting.meet();
      const uint32_t send = me.isend(me.filled(kBytes, false, i + me.rank), 1 - me.rank, i);
      if (watched && send != kNoRequest) me.engine->watch(send);
      until_done(me, send);
      me.finish(send);
      // What only lands is noticed by whoever looks, or is to be told.
      if (watched) until_done(me, receive);
      me.wait(receive);
      check_data(in, i + 1 - me.rank);
      meeting.meet();
    }
  });
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
  me.engine->watch(kSlots - 1);
  CHECK(me.failure(last) == Error::peer_closed);
}

}  // namespace

TEST_MAIN(60)
