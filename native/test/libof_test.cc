// The LibOF protocol over a network whose every step the test decides (fake_fabric.h): states, events in either order,
// exhaustion and recovery, wrap-around, disagreement, closed peers, floods.
#include <algorithm>
#include <deque>
#include <initializer_list>
#include <malloc.h>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fabric/clock.h"
#include "libof/libof.h"
#include "test/check.h"
#include "test/fake_fabric.h"
#include "test/random.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using libof::MessageKey;
using libof::Options;
using libof::State;

constexpr uint32_t kLimit = 255;
constexpr uint32_t kSlots = libof::eager_slots(kLimit);
constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

struct Traced {
  MessageKey key;
  State state;
};

// One rank: its LibOF and the states that its requests went through.
struct Node : libof::Observer {
  Node(FakeNetwork& network, Rank rank, const Options& options) : fabric(network.rank(rank)), of(fabric, options) {}

  void trace() { of.observe(this); }
  void moved(libof::Request& request, State state) override { traced.push_back({request.key, state}); }
  void at_once(const libof::RequestOwner& /*owner*/, const libof::MessageInfo& message, State first) override {
    traced.push_back({message.key, first});
    if (first == State::eager_send_init) traced.push_back({message.key, State::eager_sending});
    traced.push_back({message.key, State::done});
  }
  std::vector<State> states_of(const MessageKey& key) const {
    std::vector<State> states;
    for (const Traced& entry : traced) {
      if (entry.key == key) states.push_back(entry.state);
    }
    return states;
  }
  bool progress() {
    const bool moved = of.progress(Effort::pass);
    while (libof::RequestOwner* waiter = of.take_ready())
      CHECK(waiter->outstanding == 0 || waiter->error != Error::none);
    return moved;
  }
  // Nothing is left anywhere: every request, slot and expectation was given back.
  void check_idle() {
    CHECK(of.idle());
    CHECK(!of.needs_driving());
    CHECK_EQ(of.active_peers(), 0u);
    CHECK(fabric.quiet());
  }

  FakeFabric& fabric;
  libof::LibOF of;
  std::vector<Traced> traced;
};

// A buffer with guards around it: what lies outside must never be written.
struct Memory {
  explicit Memory(size_t bytes) : bytes(bytes), all(bytes + 2 * kGuard, kGuardByte) {}
  std::byte* data() { return all.data() + kGuard; }
  void check_guards() {
    for (size_t i = 0; i < kGuard; ++i) CHECK(all[i] == kGuardByte && all[all.size() - 1 - i] == kGuardByte);
  }
  bool untouched() const {
    return std::all_of(all.begin(), all.end(), [](std::byte b) { return b == kGuardByte; });
  }
  size_t bytes;
  std::vector<std::byte> all;
};

struct Send : libof::RequestOwner {
  Send(Node& node, Rank to, const MessageKey& key, size_t bytes, uint64_t seed) : memory(bytes) {
    fill(memory.data(), bytes, seed);
    immediately = node.of.isend(*this, to, key, memory.data(), bytes);
    CHECK_EQ(outstanding, immediately || error != Error::none ? 0 : 1);
  }
  bool done() const { return outstanding == 0; }
  Memory memory;
  bool immediately = false;
};

struct Receive : libof::RequestOwner {
  Receive(Node& node, Rank from, const MessageKey& key, size_t bytes, uint64_t seed,
          libof::Length length = libof::Length::exact)
      : memory(bytes), seed(seed) {
    immediately = node.of.irecv(*this, from, key, memory.data(), bytes, length);
    CHECK_EQ(outstanding, immediately ? 0 : (error == Error::none ? 1 : 0));
  }
  bool done() const { return outstanding == 0; }
  void check_data() { check_data(memory.bytes); }
  // Of a message of so many bytes: what lies behind them in the buffer is as it was.
  void check_data(size_t bytes) {
    CHECK(done());
    CHECK_EQ(error, Error::none);
    CHECK_EQ(received, bytes);
    CHECK_EQ(first_difference(memory.data(), bytes, seed), bytes);
    for (size_t i = bytes; i < memory.bytes; ++i) CHECK(memory.data()[i] == kGuardByte);
    memory.check_guards();
  }
  Memory memory;
  uint64_t seed;
  bool immediately = false;
};

// A job of some ranks. pump() lets everything happen that can happen.
struct PumpedJob {
  explicit PumpedJob(Rank size, bool asynchronous = false, Options options = {.eager_limit = kLimit},
                     uint32_t first_message = 0, Rank host_size = 0)
      : network(size, asynchronous, first_message, host_size) {
    for (Rank rank = 0; rank < size; ++rank) nodes.push_back(std::make_unique<Node>(network, rank, options));
  }
  Node& operator[](Rank rank) { return *nodes[rank]; }
  void pump() {
    bool moved = true;
    while (moved) {
      network.run();
      moved = false;
      for (auto& node : nodes) moved |= node->progress();
    }
  }
  void check_idle() {
    pump();
    for (auto& node : nodes) node->check_idle();
  }
  FakeNetwork network;
  std::vector<std::unique_ptr<Node>> nodes;
};

Options options_with(bool test_on_init, uint32_t window = 1024) {
  Options options;
  options.eager_limit = kLimit;
  options.test_on_init = test_on_init;
  options.unexpected_window = window;
  return options;
}

const char* name_of(State state) {
  constexpr const char* names[] = {"EAGER_SEND_INIT",  "EAGER_SENDING",    "RECV_WAITING_EAGER", "RNDV_RECV_INIT",
                                   "RECV_SENDING_RTR", "SEND_WAITING_RTR", "SEND_SENDING_DATA",  "DONE"};
  return names[static_cast<size_t>(state)];
}

std::string text(const std::vector<State>& states) {
  std::string text;
  for (const State state : states) text += std::string(text.empty() ? "" : " ") + name_of(state);
  return text;
}

constexpr MessageKey kKey{5, 7, 0};

// --- the state table -------------------------------------------------------------------------------------------------

TEST(states_of_an_eager_send) {
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(2, asynchronous);
    job[0].trace();
    Send send(job[0], 1, kKey, 100, 1);
    if (asynchronous) {
      CHECK_EQ(text(job[0].states_of(kKey)), "EAGER_SEND_INIT EAGER_SENDING");
      job[0].progress();
      CHECK(!send.done());  // not before its local completion
      CHECK(job.network.complete_write(0));
      CHECK(!send.done());
      job[0].progress();
    } else {
      CHECK(send.immediately);
    }
    CHECK(send.done());
    CHECK_EQ(text(job[0].states_of(kKey)), "EAGER_SEND_INIT EAGER_SENDING DONE");
    Receive receive(job[1], 0, kKey, 100, 1);
    job.pump();
    receive.check_data();
    job.check_idle();
  }
}

TEST(states_of_an_eager_send_without_test_on_init) {
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(2, asynchronous, options_with(false));
    job[0].trace();
    Send send(job[0], 1, kKey, 100, 1);
    CHECK_EQ(text(job[0].states_of(kKey)), "EAGER_SEND_INIT");
    CHECK_EQ(job[0].of.counters().eager_sent, 0u);
    job[0].progress();
    CHECK_EQ(text(job[0].states_of(kKey)),
             asynchronous ? "EAGER_SEND_INIT EAGER_SENDING" : "EAGER_SEND_INIT EAGER_SENDING DONE");
    job.pump();
    CHECK_EQ(text(job[0].states_of(kKey)), "EAGER_SEND_INIT EAGER_SENDING DONE");
    Receive receive(job[1], 0, kKey, 100, 1);
    job.pump();
    receive.check_data();
    job.check_idle();
  }
}

TEST(states_of_an_eager_receive) {
  for (const bool asynchronous : {false, true}) {
    for (const bool expected : {false, true}) {
      PumpedJob job(2, asynchronous);
      job[1].trace();
      std::unique_ptr<Receive> receive;
      if (expected) {
        receive = std::make_unique<Receive>(job[1], 0, kKey, 255, 1);
        job.pump();
        CHECK(!receive->done());
        CHECK_EQ(text(job[1].states_of(kKey)), "RECV_WAITING_EAGER");
      }
      Send send(job[0], 1, kKey, 255, 1);
      Receive other(job[1], 0, {5, 8, 0}, 1, 1);  // makes rank 1 look into its mailbox
      job.pump();
      CHECK_EQ(job[1].of.counters().eager_unexpected, expected ? 0u : 1u);
      if (!expected) {
        receive = std::make_unique<Receive>(job[1], 0, kKey, 255, 1);
        CHECK(receive->immediately);
      }
      receive->check_data();
      CHECK_EQ(text(job[1].states_of(kKey)), "RECV_WAITING_EAGER DONE");
      Send last(job[0], 1, {5, 8, 0}, 1, 1);
      job.check_idle();
      CHECK_EQ(job[1].of.counters().rtr_sent, 0u);
    }
  }
}

TEST(states_of_a_rendezvous_receive_and_send) {
  for (const bool test_on_init : {false, true}) {
    for (const bool receive_first : {false, true}) {
      PumpedJob job(2, true, options_with(test_on_init));
      job[0].trace();
      job[1].trace();
      std::unique_ptr<Send> send;
      std::unique_ptr<Receive> receive;
      const auto start_send = [&] { send = std::make_unique<Send>(job[0], 1, kKey, 256, 1); };
      if (!receive_first) start_send();
      receive = std::make_unique<Receive>(job[1], 0, kKey, 256, 1);
      // The first test is what writes the RTR.
      CHECK_EQ(text(job[1].states_of(kKey)), test_on_init ? "RNDV_RECV_INIT RECV_SENDING_RTR" : "RNDV_RECV_INIT");
      job[1].progress();
      CHECK_EQ(text(job[1].states_of(kKey)), "RNDV_RECV_INIT RECV_SENDING_RTR");
      job.network.run();
      job[0].progress();
      if (receive_first) start_send();
      CHECK_EQ(text(job[0].states_of(kKey)), receive_first ? "SEND_WAITING_RTR" : "SEND_WAITING_RTR SEND_SENDING_DATA");
      job[0].progress();
      CHECK_EQ(text(job[0].states_of(kKey)), "SEND_WAITING_RTR SEND_SENDING_DATA");
      CHECK_EQ(send->waiting_rtr, 0u);
      CHECK(!send->done());
      job.network.run();
      job[0].progress();
      CHECK(send->done());
      CHECK_EQ(text(job[0].states_of(kKey)), "SEND_WAITING_RTR SEND_SENDING_DATA DONE");
      job[1].progress();
      receive->check_data();
      CHECK_EQ(text(job[1].states_of(kKey)), "RNDV_RECV_INIT RECV_SENDING_RTR DONE");
      job.check_idle();
    }
  }
}

TEST(the_eager_limit_decides) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{kLimit - 1}, size_t{kLimit}, size_t{kLimit + 1}, size_t{100'000}}) {
    PumpedJob job(2);
    job[0].trace();
    job[1].trace();
    Receive receive(job[1], 0, kKey, bytes, 3);
    Send send(job[0], 1, kKey, bytes, 3);
    job.pump();
    receive.check_data();
    CHECK(send.done());
    const bool eager = bytes <= kLimit;
    CHECK_EQ(text(job[0].states_of(kKey)),
             eager ? "EAGER_SEND_INIT EAGER_SENDING DONE" : "SEND_WAITING_RTR SEND_SENDING_DATA DONE");
    CHECK_EQ(text(job[1].states_of(kKey)), eager ? "RECV_WAITING_EAGER DONE" : "RNDV_RECV_INIT RECV_SENDING_RTR DONE");
    job.check_idle();
  }
}

TEST(largest_and_smallest_eager_limits_work) {
  for (const uint32_t limit : {0u, 1u, 24u, 25u, kLargestEagerLimit}) {
    Options options;
    options.eager_limit = limit;
    for (const bool asynchronous : {false, true}) {
      PumpedJob job(2, asynchronous, options);
      for (uint32_t i = 0; i < 50; ++i) {
        Send eager(job[0], 1, {1, 0, i}, limit, i);
        Receive in(job[1], 0, {1, 0, i}, limit, i);
        Receive big_in(job[1], 0, {1, 1, i}, limit + 1, i);
        Send big(job[0], 1, {1, 1, i}, limit + 1, i);
        job.pump();
        in.check_data();
        big_in.check_data();
      }
      job.check_idle();
      CHECK_EQ(job[0].of.counters().eager_sent, 50u);
      CHECK_EQ(job[0].of.counters().data_sent, 50u);
    }
  }
}

// --- two events in either order --------------------------------------------------------------------------------------

TEST(rtr_completes_locally_before_the_data_arrives) {
  PumpedJob job(2, true);
  job[1].trace();
  Send send(job[0], 1, kKey, 5000, 1);
  Receive receive(job[1], 0, kKey, 5000, 1);
  CHECK(job.network.complete_write(1));
  job[1].progress();
  CHECK(!receive.done());
  CHECK(job.network.deliver_write(1, 0));
  job[0].progress();
  job[1].progress();
  CHECK(!receive.done());
  CHECK(job.network.deliver_put(0, 1));
  CHECK(!receive.done());
  job[1].progress();
  receive.check_data();
  CHECK(!send.done());
  CHECK_EQ(text(job[1].states_of(kKey)), "RNDV_RECV_INIT RECV_SENDING_RTR DONE");
  job.check_idle();
  CHECK(send.done());
}

TEST(data_arrives_before_the_rtr_completes_locally) {
  PumpedJob job(2, true);
  job[1].trace();
  Send send(job[0], 1, kKey, 5000, 1);
  Receive receive(job[1], 0, kKey, 5000, 1);
  CHECK(job.network.deliver_write(1, 0));
  job[0].progress();
  CHECK(job.network.deliver_put(0, 1));
  job[1].progress();
  CHECK(!receive.done());  // the RTR may still be read from our memory
  CHECK_EQ(text(job[1].states_of(kKey)), "RNDV_RECV_INIT RECV_SENDING_RTR");
  CHECK(job.network.complete_write(1));
  job[1].progress();
  receive.check_data();
  CHECK_EQ(text(job[1].states_of(kKey)), "RNDV_RECV_INIT RECV_SENDING_RTR DONE");
  job.check_idle();
}

TEST(send_completes_locally_before_and_after_delivery) {
  for (const bool early : {false, true}) {
    PumpedJob job(2, true);
    Send send(job[0], 1, kKey, 5000, 1);
    Receive receive(job[1], 0, kKey, 5000, 1);
    CHECK(job.network.deliver_write(1, 0));
    job[0].progress();
    CHECK(early ? job.network.complete_put(0) : job.network.deliver_put(0, 1));
    job[0].progress();
    job[1].progress();
    CHECK_EQ(send.done(), early);
    job.pump();
    CHECK(send.done());
    receive.check_data();
    job.check_idle();
  }
}

// --- acknowledgements, exhaustion, recovery --------------------------------------------------------------------------

TEST(one_way_traffic_is_acknowledged_explicitly) {
  PumpedJob job(2);
  for (uint32_t i = 0; i < 10 * kSlots; ++i) {
    Send send(job[0], 1, {1, 0, i}, 8, i);
    CHECK(send.immediately);
    Receive receive(job[1], 0, {1, 0, i}, 8, i);
    job[1].progress();
    receive.check_data();
  }
  CHECK_EQ(job[0].of.counters().eager_stalled, 0u);
  CHECK_EQ(job[1].of.counters().acks_piggybacked, 0u);
  const uint64_t acks = job[1].of.counters().acks_explicit;
  CHECK(acks >= 10 && acks <= 2 * 10 + 1);  // half of the slots each
  job.check_idle();
}

TEST(two_way_traffic_is_acknowledged_by_piggyback) {
  PumpedJob job(2);
  for (uint32_t i = 0; i < 10 * kSlots; ++i) {
    for (const Rank sender : {0u, 1u}) {
      Send send(job[sender], 1 - sender, {1, 0, i}, 8, i);
      CHECK(send.immediately);
      Receive receive(job[1 - sender], sender, {1, 0, i}, 8, i);
      job[1 - sender].progress();
      receive.check_data();
    }
  }
  for (const Rank rank : {0u, 1u}) {
    CHECK_EQ(job[rank].of.counters().eager_stalled, 0u);
    CHECK_EQ(job[rank].of.counters().acks_explicit, 0u);
    CHECK(job[rank].of.counters().acks_piggybacked >= 10 * kSlots - 1);
  }
  job.check_idle();
}

TEST(slot_exhaustion_recovers) {
  for (const bool asynchronous : {false, true}) {
    for (const bool test_on_init : {false, true}) {
      PumpedJob job(2, asynchronous, options_with(test_on_init));
      std::vector<std::unique_ptr<Send>> sends;
      const uint32_t total = 5 * kSlots + 3;
      for (uint32_t i = 0; i < total; ++i)
        sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 9, i}, i % 256, i));
      job.pump();
      CHECK_EQ(job[0].of.counters().eager_sent, kSlots);
      CHECK(sends[kSlots - 1]->done() && !sends[kSlots]->done());
      if (test_on_init) CHECK_EQ(job[0].of.counters().eager_stalled, total - kSlots);
      for (uint32_t i = 0; i < total; ++i) {
        Receive receive(job[1], 0, {1, 9, i}, i % 256, i);
        job.pump();
        receive.check_data();
      }
      for (const auto& send : sends) CHECK(send->done());
      job.check_idle();
      // All slots are usable again.
      sends.clear();
      for (uint32_t i = 0; i < kSlots; ++i) {
        sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 10, i}, 1, i));
        Receive receive(job[1], 0, {1, 10, i}, 1, i);
        job.pump();
        receive.check_data();
      }
      job.check_idle();
    }
  }
}

// A stalled sender reads acknowledgements that ride on messages it does not await yet.
TEST(piggybacked_acks_reach_a_sender_that_receives_nothing) {
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(2, asynchronous);
    std::vector<std::unique_ptr<Send>> sends, replies;
    for (uint32_t i = 0; i < kSlots; ++i) {
      sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 0, i}, 8, i));
      Receive receive(job[1], 0, {1, 0, i}, 8, i);
      job.network.run();
      job[1].progress();
      receive.check_data();
      replies.push_back(std::make_unique<Send>(job[1], 0, MessageKey{1, 1, i}, 8, i));
    }
    sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 0, kSlots}, 8, kSlots));
    CHECK_EQ(job[1].of.counters().acks_explicit, 0u);  // all of them rode along
    job.pump();
    CHECK(sends.back()->done());
    Receive last(job[1], 0, {1, 0, kSlots}, 8, kSlots);
    job.pump();
    last.check_data();
    for (uint32_t i = 0; i < kSlots; ++i) {
      Receive receive(job[0], 1, {1, 1, i}, 8, i);
      job.pump();
      receive.check_data();
    }
    job.check_idle();
  }
}

TEST(rtr_exhaustion_recovers) {
  for (const bool asynchronous : {false, true}) {
    for (const bool test_on_init : {false, true}) {
      PumpedJob job(2, asynchronous, options_with(test_on_init));
      constexpr uint32_t kTotal = 5 * libof::kRtrSlots + 3;
      std::vector<std::unique_ptr<Receive>> receives;
      for (uint32_t i = 0; i < kTotal; ++i)
        receives.push_back(std::make_unique<Receive>(job[1], 0, MessageKey{1, 9, i}, 300 + i, i));
      job.pump();
      // A sender that is told of RTRs reads a full array even before its sends start.
      CHECK_EQ(job[1].of.counters().rtr_sent, asynchronous ? kTotal : libof::kRtrSlots);
      if (test_on_init) CHECK_EQ(job[1].of.counters().rtr_stalled, kTotal - libof::kRtrSlots);
      CHECK_EQ(job[1].of.needs_driving(), !asynchronous);
      std::vector<std::unique_ptr<Send>> sends;
      for (uint32_t i = kTotal; i-- > 0;) {  // in the other order: RTRs are found wherever they are
        sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 9, i}, 300 + i, i));
        job.pump();
      }
      for (auto& receive : receives) receive->check_data();
      for (const auto& send : sends) CHECK(send->done());
      job.check_idle();
    }
  }
}

TEST(early_rtrs_wait_for_their_sends) {
  PumpedJob job(3);
  Send dummy(job[0], 1, {1, 99, 0}, 1000, 0);  // makes rank 0 read RTRs
  std::vector<std::unique_ptr<Receive>> receives;
  for (uint32_t i = 0; i < 20; ++i)
    receives.push_back(std::make_unique<Receive>(job[1], 0, MessageKey{1, i, 0}, 1000, i));
  job.pump();
  CHECK_EQ(job[0].of.counters().rtr_early, 20u);
  CHECK_EQ(job[0].of.counters().data_sent, 0u);
  for (uint32_t i = 20; i-- > 0;) {
    Send send(job[0], 1, {1, i, 0}, 1000, i);
    CHECK_EQ(send.waiting_rtr, 0u);
    job.pump();
    receives[i]->check_data();
    CHECK(send.done());
  }
  Receive last(job[1], 0, {1, 99, 0}, 1000, 0);
  job.check_idle();
  last.check_data();
}

TEST(ranks_may_send_to_themselves) {
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(1, asynchronous);
    for (uint32_t i = 0; i < 3 * kSlots; ++i) {
      const size_t bytes = i % 3 == 0 ? 1000 + i : i % 200;
      Send send(job[0], 0, {1, 0, i}, bytes, i);
      Receive receive(job[0], 0, {1, 0, i}, bytes, i);
      job.pump();
      receive.check_data();
      CHECK(send.done());
    }
    job.check_idle();
  }
}

// --- wrap-around -----------------------------------------------------------------------------------------------------

TEST(tags_sequences_and_contexts_wrap) {
  PumpedJob job(2);
  for (int32_t i = -40; i < 40; ++i) {
    const auto number = static_cast<uint32_t>(i);
    const uint64_t context = UINT64_MAX - 3 + static_cast<uint64_t>(i + 40) / 20;
    for (const size_t bytes : {size_t{8}, size_t{800}}) {
      const auto variant = static_cast<uint32_t>(bytes);
      const MessageKey key{context, number * 1, number + variant};
      Receive receive(job[1], 0, key, bytes, number);
      Send send(job[0], 1, key, bytes, number);
      job.pump();
      receive.check_data();
      CHECK(send.done());
    }
  }
  job.check_idle();
}

TEST(keys_that_differ_in_one_part_do_not_match) {
  for (const size_t bytes : {size_t{8}, size_t{800}}) {
    PumpedJob job(2);
    const MessageKey keys[] = {
        {1, 1, 1}, {1, 1, 2}, {1, 2, 1}, {2, 1, 1}, {1ull << 32 | 1, 1, 1}, {1, 1u << 31 | 1, 1}, {1, 1, 1u << 31 | 1}};
    std::vector<std::unique_ptr<Send>> sends;
    for (uint32_t i = 0; i < std::size(keys); ++i)
      sends.push_back(std::make_unique<Send>(job[0], 1, keys[i], bytes, i));
    for (uint32_t i = std::size(keys); i-- > 0;) {
      Receive receive(job[1], 0, keys[i], bytes, i);
      job.pump();
      receive.check_data();
    }
    job.check_idle();
  }
}

// Numbers of messages and RTRs are 32 bits wide: a long job passes 2^32.
TEST(message_numbers_wrap) {
  for (const bool asynchronous : {false, true}) {
    Options options = options_with(true, 256);
    options.first_message = static_cast<uint32_t>(-100);
    PumpedJob job(2, asynchronous, options, options.first_message);
    std::vector<std::unique_ptr<Send>> sends;
    for (uint32_t round = 0; round < 6; ++round) {
      const uint32_t tag = round;
      // More than fit: stalls, then recovers, across the wrap.
      for (uint32_t i = 0; i < kSlots + 20; ++i)
        sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, tag, i}, 16, i));
      for (uint32_t i = 0; i < kSlots + 20; ++i) {
        Receive receive(job[1], 0, {1, tag, i}, 16, i);
        job.pump();
        receive.check_data();
      }
      std::vector<std::unique_ptr<Receive>> receives;
      for (uint32_t i = 0; i < libof::kRtrSlots + 5; ++i)
        receives.push_back(std::make_unique<Receive>(job[1], 0, MessageKey{2, tag, i}, 999, i));
      for (uint32_t i = 0; i < libof::kRtrSlots + 5; ++i) {
        sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{2, tag, i}, 999, i));
        job.pump();
        receives[i]->check_data();
      }
    }
    for (const auto& send : sends) CHECK(send->done());
    job.check_idle();
  }
}

// --- disagreement about sizes ----------------------------------------------------------------------------------------

TEST(rendezvous_sizes_that_differ_fail_on_both_sides) {
  for (const bool asynchronous : {false, true}) {
    for (const bool receive_first : {false, true}) {
      for (const auto& [sent, awaited] :
           {std::pair<size_t, size_t>{1000, 999}, {999, 1000}, {70'000, 256}, {256, 70'000}}) {
        PumpedJob job(2, asynchronous);
        std::unique_ptr<Receive> receive;
        if (receive_first) receive = std::make_unique<Receive>(job[1], 0, kKey, awaited, 1);
        job.pump();
        Send send(job[0], 1, kKey, sent, 1);
        if (!receive_first) receive = std::make_unique<Receive>(job[1], 0, kKey, awaited, 1);
        job.pump();
        CHECK(send.done() && receive->done());
        CHECK_EQ(send.error, Error::truncated);
        CHECK_EQ(receive->error, Error::truncated);
        CHECK_EQ(send.error_peer, 1u);
        CHECK_EQ(send.error_expected, sent);
        CHECK_EQ(send.error_got, awaited);
        CHECK_EQ(receive->error_expected, awaited);
        CHECK(receive->memory.untouched());
        job.check_idle();
      }
    }
  }
}

TEST(eager_sizes_that_differ_fail_at_the_receiver) {
  for (const bool expected : {false, true}) {
    // Also a receive above the limit, which has sent an RTR by then, for a message below it.
    for (const auto& [sent, awaited] :
         {std::pair<size_t, size_t>{100, 99}, {99, 100}, {0, 1}, {1, 0}, {10, 1000}, {255, 256}}) {
      for (const bool asynchronous : {false, true}) {
        PumpedJob job(2, asynchronous);
        std::unique_ptr<Receive> receive;
        if (expected) receive = std::make_unique<Receive>(job[1], 0, kKey, awaited, 1);
        Send send(job[0], 1, kKey, sent, 1);
        Receive other(job[1], 0, {1, 1, 1}, 1, 1);
        Send for_other(job[0], 1, {1, 1, 1}, 1, 1);
        job.pump();
        if (!expected) receive = std::make_unique<Receive>(job[1], 0, kKey, awaited, 1);
        job.pump();
        other.check_data();
        CHECK(send.done() && receive->done());
        CHECK_EQ(send.error, Error::none);  // it was done before anybody could know
        CHECK_EQ(receive->error, Error::truncated);
        CHECK_EQ(receive->error_expected, awaited);
        CHECK_EQ(receive->error_got, sent);
        CHECK(receive->memory.untouched());
        // The RTR that found no send was cancelled: it does not answer a later message of another size class.
        Send big(job[0], 1, {1, 1, 2}, 1000, 1);
        Receive for_big(job[1], 0, {1, 1, 2}, 1000, 1);
        job.check_idle();
        for_big.check_data();
      }
    }
  }
}

// An early RTR makes the send answer by rendezvous, whatever its size: it learns of the disagreement.
TEST(eager_send_that_meets_an_rtr_of_another_size_fails_on_both_sides) {
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(2, asynchronous);
    Send dummy(job[0], 1, {1, 99, 0}, 1000, 0);
    Receive receive(job[1], 0, kKey, 1000, 1);
    job.pump();
    CHECK_EQ(job[0].of.counters().rtr_early, 1u);
    Send send(job[0], 1, kKey, 10, 1);
    job.pump();
    CHECK(send.done() && receive.done());
    CHECK_EQ(send.error, Error::truncated);
    CHECK_EQ(receive.error, Error::truncated);
    CHECK(receive.memory.untouched());
    Receive last(job[1], 0, {1, 99, 0}, 1000, 0);
    job.check_idle();
  }
}

// --- receives that take shorter messages -----------------------------------------------------------------------------

// All ways that a message can take, by the sizes of both sides: eager limit 255.
TEST(a_receive_takes_a_shorter_message_and_tells_its_size) {
  for (const bool asynchronous : {false, true}) {
    for (const bool receive_first : {false, true}) {
      for (const auto& [sent, room] : {std::pair<size_t, size_t>{0, 0},
                                       {0, 1},
                                       {10, 200},
                                       {200, 200},
                                       {0, 1000},
                                       {10, 1000},
                                       {255, 256},
                                       {256, 1000},
                                       {999, 1000},
                                       {70'000, 70'000}}) {
        PumpedJob job(2, asynchronous);
        std::unique_ptr<Receive> receive;
        const auto post = [&, room = room] {
          receive = std::make_unique<Receive>(job[1], 0, kKey, room, 1, libof::Length::at_most);
        };
        if (receive_first) post();
        job.pump();
        Send send(job[0], 1, kKey, sent, 1);
        job.pump();
        if (!receive_first) post();
        job.pump();
        CHECK(send.done());
        CHECK_EQ(send.error, Error::none);
        receive->check_data(sent);
        // What the receive wrote into the sender's RTR array does not meet the next messages of either class.
        for (const size_t bytes : {size_t{10}, size_t{1000}}) {
          const MessageKey next{1, 1, static_cast<uint32_t>(bytes)};
          Send later(job[0], 1, next, bytes, 2);
          Receive for_later(job[1], 0, next, 1000, 2, libof::Length::at_most);
          job.pump();
          CHECK(later.done());
          for_later.check_data(bytes);
        }
        job.check_idle();
      }
    }
  }
}

// The sender meets the RTR of a larger receive, so that a small message goes by rendezvous.
TEST(an_eager_send_answers_the_rtr_of_a_larger_receive) {
  for (const bool asynchronous : {false, true}) {
    for (const size_t sent : {0, 10, 255}) {
      PumpedJob job(2, asynchronous);
      Send dummy(job[0], 1, {1, 99, 0}, 1000, 0);
      Receive receive(job[1], 0, kKey, 1000, 1, libof::Length::at_most);
      job.pump();
      CHECK_EQ(job[0].of.counters().rtr_early, 1u);
      Send send(job[0], 1, kKey, sent, 1);
      job.pump();
      CHECK(send.done());
      CHECK_EQ(send.error, Error::none);
      receive.check_data(sent);
      Receive last(job[1], 0, {1, 99, 0}, 1000, 0);
      job.check_idle();
    }
  }
}

TEST(a_receive_does_not_take_a_longer_message) {
  for (const bool asynchronous : {false, true}) {
    for (const bool receive_first : {false, true}) {
      for (const auto& [sent, room] :
           {std::pair<size_t, size_t>{1, 0}, {100, 99}, {256, 255}, {1000, 999}, {70'000, 256}}) {
        PumpedJob job(2, asynchronous);
        std::unique_ptr<Receive> receive;
        const auto post = [&, room = room] {
          receive = std::make_unique<Receive>(job[1], 0, kKey, room, 1, libof::Length::at_most);
        };
        if (receive_first) post();
        Send send(job[0], 1, kKey, sent, 1);
        job.pump();
        job[0].of.announce_sends();
        Receive other(job[1], 0, {1, 1, 1}, 1, 1);
        Send for_other(job[0], 1, {1, 1, 1}, 1, 1);
        job.pump();
        if (!receive_first) post();
        job.pump();
        CHECK(send.done() && receive->done());
        CHECK_EQ(receive->error, Error::truncated);
        CHECK_EQ(receive->error_expected, room);
        CHECK_EQ(receive->error_got, sent);
        CHECK_EQ(send.error, sent > kLimit ? Error::truncated : Error::none);
        if (sent > kLimit) CHECK_EQ(send.error_got, room);
        CHECK(receive->memory.untouched());
        job.check_idle();
      }
    }
  }
}

// More of them than the RTR array has entries, all for small messages; then one large message.
TEST(small_messages_to_large_receives_leave_the_rtr_array_usable) {
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(2, asynchronous);
    constexpr uint32_t kMany = 3 * libof::kRtrSlots;
    std::vector<std::unique_ptr<Receive>> receives;
    for (uint32_t i = 0; i < kMany; ++i) {
      receives.push_back(std::make_unique<Receive>(job[1], 0, MessageKey{1, 1, i}, 1000, i, libof::Length::at_most));
      job.pump();
      Send send(job[0], 1, {1, 1, i}, 8, i);
      job.pump();
      CHECK(send.done());
      receives.back()->check_data(8);
    }
    Receive large(job[1], 0, {1, 1, kMany}, 2000, 7, libof::Length::at_most);
    job.pump();
    Send send(job[0], 1, {1, 1, kMany}, 1999, 7);
    job.pump();
    CHECK(send.done());
    large.check_data(1999);
    job.check_idle();
  }
}

// --- peers that are not there, not alike, or gone --------------------------------------------------------------------

// The sender waits for an RTR, the receiver for an eager message: the sender's RTS makes both learn of it.
TEST(large_send_that_meets_a_small_receive_fails_on_both_sides) {
  for (const bool asynchronous : {false, true}) {
    for (const bool receive_first : {false, true}) {
      for (const auto& [sent, awaited] : {std::pair<size_t, size_t>{256, 255}, {70'000, 8}, {70'000, 0}}) {
        PumpedJob job(2, asynchronous);
        std::unique_ptr<Receive> receive;
        if (receive_first) receive = std::make_unique<Receive>(job[1], 0, kKey, awaited, 1);
        Send send(job[0], 1, kKey, sent, 1);
        job.pump();
        CHECK(!send.done());
        job[0].of.announce_sends();
        job[0].of.announce_sends();
        CHECK_EQ(job[0].of.counters().rts_sent, 1u);  // once each
        // Something else of that peer makes rank 1 look, so that the RTS is known before its receive.
        Receive other(job[1], 0, {1, 1, 1}, 1, 1);
        Send for_other(job[0], 1, {1, 1, 1}, 1, 1);
        job.pump();
        other.check_data();
        if (!receive_first) receive = std::make_unique<Receive>(job[1], 0, kKey, awaited, 1);
        job.pump();
        CHECK(send.done() && receive->done());
        CHECK_EQ(send.error, Error::truncated);
        CHECK_EQ(send.error_expected, sent);
        CHECK_EQ(send.error_got, awaited);
        CHECK_EQ(receive->error, Error::truncated);
        CHECK_EQ(receive->error_expected, awaited);
        CHECK_EQ(receive->error_got, sent);
        CHECK(receive->memory.untouched());
        CHECK_EQ(job[0].of.counters().eager_unexpected + job[1].of.counters().eager_unexpected, 0u);
        job.check_idle();
      }
    }
  }
}

// Sides that agree: the RTS meets its receive wherever that has got to, and nothing of it stays.
TEST(an_rts_that_nobody_needed_leaves_nothing_behind) {
  enum class Meets { with_the_rtr_on_its_way, known_before_the_receive, after_the_receive, between_mailbox_and_data };
  for (const bool asynchronous : {false, true}) {
    for (const Meets meets : {Meets::with_the_rtr_on_its_way, Meets::known_before_the_receive, Meets::after_the_receive,
                              Meets::between_mailbox_and_data}) {
      PumpedJob job(2, asynchronous);
      std::unique_ptr<Receive> receive;
      const auto post = [&] { receive = std::make_unique<Receive>(job[1], 0, kKey, 5000, 1); };
      if (meets == Meets::with_the_rtr_on_its_way) post();
      Send send(job[0], 1, kKey, 5000, 1);
      if (meets == Meets::between_mailbox_and_data) {
        post();
        job.network.run();
        job[1].fabric.before_poll = [&] {
          job[0].of.announce_sends();
          job[0].progress();
          job.network.run();
        };
        job[1].progress();
      }
      job[0].of.announce_sends();
      CHECK_EQ(job[0].of.counters().rts_sent, 1u);
      if (meets == Meets::known_before_the_receive) {
        Receive other(job[1], 0, {1, 1, 1}, 1, 1);
        Send for_other(job[0], 1, {1, 1, 1}, 1, 1);
        job.pump();
        other.check_data();
      }
      if (receive == nullptr) post();
      job.pump();
      receive->check_data();
      CHECK(send.done());
      CHECK_EQ(job[1].of.counters().eager_unexpected, 0u);
      job.check_idle();
      // Whatever were still in the mailbox would be found now, and kept.
      Receive next(job[1], 0, {2, 2, 2}, 8, 2);
      Send for_next(job[0], 1, {2, 2, 2}, 8, 2);
      job.check_idle();
      next.check_data();
      // The same key again: nothing old answers.
      Receive again(job[1], 0, kKey, 8, 2);
      job.pump();
      CHECK(!again.done());
      Send small(job[0], 1, kKey, 8, 2);
      job.pump();
      again.check_data();
      job.check_idle();
    }
  }
}

TEST(a_peer_that_comes_later_gets_everything_in_order) {
  for (const bool asynchronous : {false, true}) {
    for (const bool test_on_init : {false, true}) {
      PumpedJob job(2, asynchronous, options_with(test_on_init));
      job.network.presence[1] = FakeNetwork::Presence::absent;
      std::vector<std::unique_ptr<Send>> sends;
      std::vector<std::unique_ptr<Receive>> receives;
      for (uint32_t i = 0; i < 60; ++i) {
        const size_t bytes = i % 2 == 0 ? 8 : 800;
        sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 0, i}, bytes, i));
        receives.push_back(std::make_unique<Receive>(job[0], 1, MessageKey{1, 1, i}, bytes, i));
      }
      job[0].progress();
      CHECK(job[0].of.needs_driving());
      CHECK_EQ(job[0].of.counters().connections, 0u);
      job.network.presence[1] = FakeNetwork::Presence::open;
      job.pump();
      CHECK_EQ(job[0].of.counters().connections, 1u);
      for (uint32_t i = 0; i < 60; ++i) {
        const size_t bytes = i % 2 == 0 ? 8 : 800;
        receives.push_back(std::make_unique<Receive>(job[1], 0, MessageKey{1, 0, i}, bytes, i));
        sends.push_back(std::make_unique<Send>(job[1], 0, MessageKey{1, 1, i}, bytes, i));
        job.pump();
      }
      for (auto& receive : receives) receive->check_data();
      for (const auto& send : sends) CHECK(send->done());
      job.check_idle();
    }
  }
}

// What needs the peer fails, at once and later; what had arrived is still delivered.
TEST(a_broken_connection_fails_everything_that_needs_it) {
  PumpedJob job(3, true);
  Send arrived(job[1], 0, {1, 1, 0}, 50, 1);
  job.pump();
  Receive small(job[0], 1, {1, 2, 0}, 50, 1);
  Receive large(job[0], 1, {1, 3, 0}, 1000, 1);
  Send waiting(job[0], 1, {1, 4, 0}, 1000, 1);
  Receive other(job[0], 2, {1, 5, 0}, 1000, 1);
  job[0].progress();
  job.network.rank(0).break_off(1, Error::unreachable);
  job[0].progress();
  for (const libof::RequestOwner* failed : std::initializer_list<libof::RequestOwner*>{&small, &large, &waiting}) {
    CHECK_EQ(failed->outstanding, 0);
    CHECK_EQ(failed->error, Error::unreachable);
    CHECK_EQ(failed->error_peer, 1u);
  }
  CHECK(!other.done());
  Receive later(job[0], 1, {1, 6, 0}, 50, 1);
  Send eager(job[0], 1, {1, 7, 0}, 50, 1);
  Receive unexpected(job[0], 1, {1, 1, 0}, 50, 1);
  job[0].progress();
  CHECK_EQ(later.error, Error::unreachable);
  CHECK_EQ(eager.error, Error::unreachable);
  unexpected.check_data();
  Send answer(job[2], 0, {1, 5, 0}, 1000, 1);
  job.pump();
  other.check_data();
  job[0].check_idle();
}

TEST(a_connection_that_breaks_before_it_is_made_fails_what_waits_for_it) {
  PumpedJob job(2, true);
  job.network.presence[1] = FakeNetwork::Presence::absent;
  Receive receive(job[0], 1, kKey, 1000, 1);
  Send send(job[0], 1, kKey, 50, 1);
  job[0].progress();
  CHECK(!receive.done() && !send.done());
  job.network.rank(0).break_off(1, Error::peer_closed);
  job[0].progress();
  CHECK_EQ(receive.error, Error::peer_closed);
  CHECK_EQ(send.error, Error::peer_closed);
  job[0].check_idle();
}

// An RTS is in the mailbox when the connection ends, so an RTR leaves that nobody will read. The fabric tells later
// that it has: the receive that it names ends then, and not before.
TEST(an_rtr_that_leaves_at_the_end_of_a_connection_keeps_its_receive_until_the_fabric_has_told) {
  PumpedJob job(2, true);
  Receive small(job[0], 1, kKey, 50, 1);
  Send large(job[1], 0, kKey, 1000, 1);
  job[1].of.announce_sends();
  CHECK(job.network.deliver_write(1, 0));
  job.network.rank(0).break_off(1, Error::unreachable);
  job[0].progress();
  CHECK(job.network.complete_write(0));
  job[0].progress();
  CHECK_EQ(small.outstanding, 0);
  CHECK_EQ(small.error, Error::unreachable);
  job[0].check_idle();
}

// --- a peer that does not keep to the protocol -----------------------------------------------------------------------

libof::EagerHeader& header_in(PumpedJob& job, Rank owner, Rank writer, uint32_t slot) {
  std::byte* slots = job.network.rank(owner).inbox(writer).slots;
  return *reinterpret_cast<libof::EagerHeader*>(slots + slot * libof::eager_slot_bytes(kLimit));
}

// Of a message or of an RTR: there is no way to such a peer any more.
TEST(a_kind_that_there_is_not_is_rejected) {
  for (const bool asynchronous : {false, true}) {
    for (const bool eager : {false, true}) {
      PumpedJob job(2, asynchronous);
      Receive small(job[0], 1, kKey, 50, 1);
      Send large(job[0], 1, kKey, 1000, 1);
      Send message(job[1], 0, kKey, 50, 1);
      Receive asks(job[1], 0, kKey, 1000, 1);
      while (job.network.deliver_write(1, 0)) {
      }
      auto& rtr = *reinterpret_cast<libof::RtrSlot*>(job.network.rank(0).inbox(1).control + libof::kRtrOffset);
      if (eager) header_in(job, 0, 1, 0).kind = static_cast<libof::EagerKind>(5);
      if (!eager) rtr.kind = static_cast<libof::RtrKind>(7);
      job[0].progress();
      CHECK_EQ(large.error, Error::unreachable);
      CHECK(!eager || small.error == Error::unreachable);
      CHECK_EQ(small.outstanding + large.outstanding, 0);
    }
  }
}

// A peer that names a rank or an error that there is not has said nothing.
TEST(what_a_peer_tells_of_a_failure_is_not_believed) {
  constexpr Rank kRanks = 2;
  CHECK_EQ(libof::poison_from(libof::poison_of(1, Error::memory), kRanks), libof::poison_of(1, Error::memory));
  CHECK_EQ(libof::poison_from(libof::poison_of(2, Error::memory), kRanks), 0u);
  CHECK_EQ(libof::poison_from(libof::poison_of(1, Error::none), kRanks), 0u);
  CHECK_EQ(libof::poison_from(libof::poison_of(1, static_cast<Error>(kLastError + 1)), kRanks), 0u);
  CHECK_EQ(libof::poison_from(uint64_t{1} << 32 | libof::poison_of(1, Error::memory), kRanks), 0u);
}

// A length that reaches beyond the mailbox, in its last slot: nothing of it is read, awaited or not, and there is no
// way to such a peer any more.
TEST(the_length_of_an_eager_message_is_not_believed) {
  for (const bool asynchronous : {false, true}) {
    for (const bool awaited : {false, true}) {
      for (const uint32_t bytes : {uint32_t{UINT16_MAX}, kLimit + 1}) {
        PumpedJob job(3, asynchronous);
        for (uint32_t i = 0; i + 1 < kSlots; ++i) {
          Receive receive(job[0], 1, {1, i, 0}, 8, i);
          Send send(job[1], 0, {1, i, 0}, 8, i);
          job.pump();
          receive.check_data();
        }
        Receive receive(job[0], 1, kKey, awaited ? 100 : 50, 1);
        Send send(job[1], 0, awaited ? kKey : MessageKey{9, 9, 9}, 100, 1);
        Receive other(job[0], 2, kKey, 1000, 1);
        while (job.network.deliver_write(1, 0)) {
        }
        header_in(job, 0, 1, kSlots - 1).bytes = static_cast<uint16_t>(bytes);
        job[0].progress();
        CHECK_EQ(receive.error, Error::unreachable);
        CHECK_EQ(receive.outstanding, 0);
        CHECK(receive.memory.untouched());
        Send later(job[0], 1, kKey, 8, 1);
        job[0].progress();
        CHECK_EQ(later.error, Error::unreachable);
        CHECK(!other.done());
        Send to_other(job[2], 0, kKey, 1000, 1);
        job.pump();
        other.check_data();
        job[0].check_idle();
      }
    }
  }
}

// A peer that writes on, whatever it was told: what it makes this rank keep stays within the window.
TEST(a_peer_that_ignores_its_window_is_rejected) {
  constexpr uint32_t kWindow = 200;
  PumpedJob job(2, true, options_with(true, kWindow));
  Options rule_breaker = options_with(true, 100 * kWindow);
  libof::LibOF breaker(job.network.rank(0), rule_breaker);
  Receive never(job[1], 0, {1, 99, 0}, 8, 0);
  std::vector<libof::RequestOwner> sends(3 * kWindow);
  uint32_t sent = 0;
  for (; sent < sends.size() && !never.done(); ++sent) {
    const std::byte byte{};
    breaker.isend(sends[sent], 1, {1, 1, sent}, &byte, 1);
    job.network.run();
    breaker.progress(Effort::pass);
    job[1].progress();
  }
  CHECK_EQ(sent, kWindow + 1);
  CHECK_EQ(never.error, Error::unreachable);
}

// A peer that asks for ever more messages: what it makes this rank keep is bounded, and other peers are not harmed.
TEST(a_peer_that_writes_more_rtrs_than_it_can_have_receives_is_rejected) {
  constexpr uint32_t kMost = 50;
  for (const auto& [asynchronous, refuses] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    Options options = options_with(true);
    options.rtr_window = kMost / 2;
    PumpedJob job(3, asynchronous, options);
    libof::LibOF breaker(job.network.rank(0), options_with(true));
    job.network.rank(0).refuse_to_expose = refuses;  // what says so is kept, too
    Send never(job[1], 0, {1, 9999, 0}, 1000, 0);    // rank 1 reads RTRs
    std::vector<std::byte> memory(1000);
    std::vector<libof::RequestOwner> receives(3 * kMost);
    uint32_t asked = 0;
    for (; asked < receives.size() && !never.done(); ++asked) {
      breaker.irecv(receives[asked], 1, {1, asked, 0}, memory.data(), memory.size());
      for (int pass = 0; pass < 2; ++pass) {
        breaker.progress(Effort::pass);
        job.network.run();
        job[1].progress();
      }
    }
    CHECK_EQ(asked, kMost + 1);
    CHECK_EQ(never.error, Error::unreachable);
    Receive to_other(job[2], 1, kKey, 1000, 4);
    Send other(job[1], 2, kKey, 1000, 4);
    for (int pass = 0; pass < 100 && !to_other.done(); ++pass) {
      job.network.run();
      job[1].progress();
      job[2].progress();
    }
    to_other.check_data();
  }
}

// A receiver writes no more RTRs than the window, whatever it expects. The sends of the others come first, and their
// sender waits for each: its RTS gets it the RTR past the window.
TEST(receives_beyond_the_rtr_window_are_asked_for_when_their_send_says_so) {
  constexpr uint32_t kWindow = 4;
  constexpr uint32_t kReceives = 3 * kWindow;
  for (const bool asynchronous : {false, true}) {
    Options options = options_with(true);
    options.rtr_window = kWindow;
    PumpedJob job(2, asynchronous, options);
    std::deque<Receive> receives;
    for (uint32_t i = 0; i < kReceives; ++i) receives.emplace_back(job[1], 0, MessageKey{1, i, 0}, 1000, i);
    Send first(job[0], 1, {1, kReceives, 0}, 1000, 0);  // rank 0 looks at RTRs
    job.pump();
    CHECK_EQ(job[1].of.counters().rtr_sent, kWindow);
    CHECK_EQ(job[0].of.counters().rtr_early, kWindow);
    for (uint32_t i = kReceives; i-- > 0;) {
      Send send(job[0], 1, {1, i, 0}, 1000, i);
      job.pump();
      job[0].of.announce_sends();
      job.pump();
      CHECK(send.done());
      receives[i].check_data();
    }
    Receive last(job[1], 0, {1, kReceives, 0}, 1000, 0);
    job.check_idle();
    last.check_data();
  }
}

// The data's immediate value says that there is an RTS, and what is in the mailbox instead ends their receive: it is
// completed once.
TEST(what_stands_in_the_place_of_an_rts_completes_a_receive_once) {
  for (const bool too_long : {false, true}) {
    PumpedJob job(2);
    Receive receive(job[0], 1, kKey, 1000, 1);
    std::unique_ptr<Send> send;
    job[0].fabric.before_poll = [&] {
      send = std::make_unique<Send>(job[1], 0, kKey, 1000, 1);
      job[1].of.announce_sends();
      libof::EagerHeader& header = header_in(job, 0, 1, 0);
      CHECK(header.kind == libof::EagerKind::rts);
      header.kind = libof::EagerKind::message;
      header.bytes = too_long ? UINT16_MAX : 8;
      job[1].progress();
    };
    job[0].progress();
    job[0].progress();
    CHECK_EQ(receive.outstanding, 0);
    CHECK_EQ(receive.error, too_long ? Error::unreachable : Error::truncated);
    job.pump();
    CHECK_EQ(job[0].of.active_peers(), 0u);
    CHECK(job[0].of.idle());
  }
}

// Neither side waits for ever for the RTR of a buffer that could not be exposed, whichever comes first.
TEST(memory_that_cannot_be_exposed_fails_both_sides) {
  for (const bool receive_first : {false, true}) {
    PumpedJob job(2, true);
    job.network.rank(1).refuse_to_expose = true;
    std::unique_ptr<Send> send;
    if (!receive_first) send = std::make_unique<Send>(job[0], 1, kKey, 1000, 1);
    Receive receive(job[1], 0, kKey, 1000, 1);
    job.pump();
    if (receive_first) {
      Send dummy(job[0], 1, {1, 99, 0}, 1000, 0);
      job.pump();
      send = std::make_unique<Send>(job[0], 1, kKey, 1000, 1);
      job.pump();
      job.network.rank(1).refuse_to_expose = false;
      Receive for_dummy(job[1], 0, {1, 99, 0}, 1000, 0);
      job.pump();
      for_dummy.check_data();
    }
    CHECK_EQ(receive.error, Error::memory);
    CHECK_EQ(send->error, Error::abandoned);
    CHECK_EQ(send->poison, libof::poison_of(1, Error::memory));
    CHECK(receive.memory.untouched());
    job.check_idle();
  }
}

TEST(memory_that_cannot_be_read_fails_both_sides) {
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(2, asynchronous);
    job[0].fabric.refuse_to_read = true;
    Receive receive(job[1], 0, kKey, 1000, 1);
    const Send send(job[0], 1, kKey, 1000, 1);
    job.pump();
    CHECK_EQ(send.error, Error::memory);
    CHECK_EQ(receive.error, Error::abandoned);
    CHECK_EQ(receive.poison, libof::poison_of(0, Error::memory));
    CHECK(receive.memory.untouched());
    job.check_idle();
  }
}

// Registering memory takes a network card's driver some time; nothing else waits for it.
TEST(a_receive_whose_buffer_is_being_prepared_holds_up_no_other) {
  for (const bool receive_first : {false, true}) {
    PumpedJob job(2, true);
    job.network.rank(1).prepares_from = 2000;
    const MessageKey other{kKey.context, kKey.tag + 1, 0};
    std::unique_ptr<Send> send;
    if (!receive_first) send = std::make_unique<Send>(job[0], 1, kKey, 3000, 1);
    Receive receive(job[1], 0, kKey, 3000, 1);
    job.pump();
    if (receive_first) send = std::make_unique<Send>(job[0], 1, kKey, 3000, 1);
    Send second(job[0], 1, other, 1000, 2);
    Receive second_receive(job[1], 0, other, 1000, 2);
    job.pump();
    second_receive.check_data();
    CHECK(second.done() && !send->done() && !receive.done() && receive.memory.untouched());
    job.network.rank(1).prepares_from = SIZE_MAX;
    job.pump();
    receive.check_data();
    CHECK(send->done());
    job.check_idle();
  }
}

TEST(a_receive_can_be_given_up_while_its_buffer_is_being_prepared) {
  PumpedJob job(2, true);
  job.network.rank(1).prepares_from = 2000;
  Receive receive(job[1], 0, kKey, 3000, 1);
  job.pump();
  receive.error = Error::truncated;
  job[1].of.cancel(receive);
  job[1].of.give_up_cancelled();
  CHECK(receive.done());
  Send send(job[0], 1, kKey, 3000, 1);
  job.pump();
  CHECK(send.done() && receive.memory.untouched());
  job.network.rank(1).prepares_from = SIZE_MAX;
  job.pump();
  job.check_idle();
}

TEST(a_peer_with_other_settings_is_refused) {
  PumpedJob job(2);
  job.network.refuse = true;
  Send eager(job[0], 1, {1, 0, 0}, 8, 1);
  Send big(job[0], 1, {1, 0, 1}, 800, 1);
  Receive in(job[0], 1, {1, 0, 0}, 8, 1);
  Receive big_in(job[0], 1, {1, 0, 1}, 800, 1);
  job.pump();
  for (const libof::RequestOwner* waiter : std::initializer_list<libof::RequestOwner*>{&eager, &big, &in, &big_in}) {
    CHECK_EQ(waiter->outstanding, 0);
    CHECK_EQ(waiter->error, Error::mismatch);
    CHECK_EQ(waiter->error_peer, 1u);
  }
  CHECK_EQ(big.waiting_rtr, 0u);
  job[0].check_idle();
  // And so is every later request.
  Send again(job[0], 1, {1, 0, 2}, 8, 1);
  job[0].progress();
  CHECK_EQ(again.error, Error::mismatch);
  job[0].check_idle();
}

TEST(what_a_closed_peer_wrote_arrives_and_the_rest_fails) {
  PumpedJob job(3);
  std::vector<std::unique_ptr<Send>> written;
  for (uint32_t i = 0; i < 10; ++i) written.push_back(std::make_unique<Send>(job[1], 0, MessageKey{1, 0, i}, 8, i));
  std::vector<std::unique_ptr<Receive>> arrive;
  for (uint32_t i = 0; i < 10; ++i) arrive.push_back(std::make_unique<Receive>(job[0], 1, MessageKey{1, 0, i}, 8, i));
  Receive never(job[0], 1, {1, 0, 10}, 8, 0);
  Receive never_big(job[0], 1, {1, 0, 11}, 800, 0);
  Send unanswered(job[0], 1, {1, 1, 0}, 800, 0);
  std::vector<std::unique_ptr<Send>> flood;  // more than the mailbox holds
  for (uint32_t i = 0; i < kSlots + 5; ++i)
    flood.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 2, i}, 8, i));
  Receive from_other(job[0], 2, {1, 0, 0}, 8, 7);
  CHECK(!job[0].of.fail_closed_peers());
  job.network.presence[1] = FakeNetwork::Presence::closed;
  CHECK(job[0].of.fail_closed_peers());
  job[0].progress();
  CHECK_EQ(job[0].fabric.abandoned.size(), 1u);
  for (auto& receive : arrive) receive->check_data();
  for (const libof::RequestOwner* waiter :
       std::initializer_list<libof::RequestOwner*>{&never, &never_big, &unanswered, flood.back().get()}) {
    CHECK_EQ(waiter->outstanding, 0);
    CHECK_EQ(waiter->error, Error::peer_closed);
  }
  CHECK_EQ(unanswered.waiting_rtr, 0u);
  CHECK_EQ(flood.front()->error, Error::none);
  CHECK(never.memory.untouched() && never_big.memory.untouched());
  // Other peers are not affected.
  CHECK(!from_other.done());
  CHECK(!job[0].of.fail_closed_peers());
  Send late(job[2], 0, {1, 0, 0}, 8, 7);
  job[0].progress();
  from_other.check_data();
  job[0].check_idle();
  // Later requests to the closed peer end as well, without anything from the peer.
  Receive later(job[0], 1, {1, 5, 0}, 8, 0);
  job[0].progress();
  CHECK(job[0].of.fail_closed_peers());
  job[0].progress();
  CHECK_EQ(later.error, Error::peer_closed);
  job[0].check_idle();
}

TEST(unexpected_messages_of_a_closed_peer_can_still_be_received) {
  PumpedJob job(2);
  Send send(job[1], 0, {1, 0, 0}, 8, 3);
  Receive other(job[0], 1, {1, 1, 0}, 8, 3);
  job[0].progress();
  job.network.presence[1] = FakeNetwork::Presence::closed;
  CHECK(job[0].of.fail_closed_peers());
  job[0].progress();
  CHECK_EQ(other.error, Error::peer_closed);
  Receive receive(job[0], 1, {1, 0, 0}, 8, 3);
  CHECK(receive.immediately);
  receive.check_data();
}

// --- floods ----------------------------------------------------------------------------------------------------------

TEST(a_flood_stays_in_its_window_and_harms_nobody) {
  for (const bool asynchronous : {false, true}) {
    constexpr uint32_t kWindow = 400;
    constexpr uint32_t kFlood = 3000;
    PumpedJob job(3, asynchronous, options_with(true, kWindow));
    std::vector<std::unique_ptr<Send>> flood;
    for (uint32_t i = 0; i < kFlood; ++i)
      flood.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 1, i}, i % 256, i));
    // Rank 1 looks into rank 0's mailbox, because it awaits something else from it.
    Receive awaited(job[1], 0, {1, 2, 0}, 20, 77);
    job.pump();
    CHECK(!awaited.done());
    CHECK(job[1].of.counters().eager_unexpected <= kWindow);
    CHECK(job[0].of.counters().eager_sent <= kWindow);
    // Others go on as if nothing had happened.
    for (uint32_t i = 0; i < 2 * kSlots; ++i) {
      const size_t bytes = i % 4 == 0 ? 1000 : 100;
      Send send(job[2], 1, {1, 1, i}, bytes, i);
      Receive receive(job[1], 2, {1, 1, i}, bytes, i);
      Send back(job[1], 2, {1, 1, i}, bytes, i);
      Receive back_in(job[2], 1, {1, 1, i}, bytes, i);
      job.pump();
      receive.check_data();
      back_in.check_data();
    }
    CHECK_EQ(job[2].of.counters().eager_stalled, 0u);
    // And what is behind the flood arrives, because its receiver asks for it.
    Send behind(job[0], 1, {1, 2, 0}, 20, 77);
    job.pump();
    awaited.check_data();
    CHECK(behind.done());
    // A later one, where the receive comes after the send.
    Send behind2(job[0], 1, {1, 2, 1}, 20, 78);
    job.pump();
    Receive awaited2(job[1], 0, {1, 2, 1}, 20, 78);
    job.pump();
    awaited2.check_data();
    CHECK(job[1].of.counters().eager_unexpected <= kWindow);
    // The flood itself can be received, in any order.
    for (uint32_t i = kFlood; i-- > 0;) {
      const uint32_t n = i ^ 1;
      Receive receive(job[1], 0, {1, 1, n}, n % 256, n);
      job.pump();
      receive.check_data();
    }
    for (const auto& send : flood) CHECK(send->done());
    job.check_idle();
  }
}

// Under backpressure RTRs are written for receives that are then satisfied eagerly. Neither these nor queued ones pile
// up, and an RTR must not be written for a later use of the same request.
TEST(rtrs_that_were_not_needed_leave_nothing_behind) {
  for (const bool asynchronous : {false, true}) {
    constexpr uint32_t kWindow = 400;
    PumpedJob job(2, asynchronous, options_with(true, kWindow));
    std::vector<std::unique_ptr<Send>> held;
    for (uint32_t i = 0; i < kWindow / 2; ++i)
      held.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 1, i}, 8, i));
    {
      Receive first(job[1], 0, {1, 4, 0}, 8, 1);
      Send send(job[0], 1, {1, 4, 0}, 8, 1);
      job.pump();
      first.check_data();
    }
    // One RTR of its own, so that the last free slot goes to an RTR and its cancellation has to wait.
    Receive early(job[1], 0, {1, 5, 0}, 1000, 6);
    const uint32_t rounds = 3 * 256 + 17;  // more than a request has generations
    for (uint32_t i = 0; i < rounds; ++i) {
      Receive receive(job[1], 0, {1, 2, i}, 8, i);
      held.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 2, i}, 8, i));
      for (int pass = 0; pass < 4; ++pass) {
        job.network.run();
        job[1].progress();  // rank 0 does not look: it has nothing to wait for
      }
      receive.check_data();
    }
    CHECK(job[1].of.counters().rtr_sent <= libof::kRtrSlots);
    // Now rank 0 reads its RTRs: none of them may be answered.
    Send big(job[0], 1, {1, 3, 0}, 1000, 5);
    Receive big_in(job[1], 0, {1, 3, 0}, 1000, 5);
    job.pump();
    big_in.check_data();
    Send for_early(job[0], 1, {1, 5, 0}, 1000, 6);
    job.pump();
    early.check_data();
    for (uint32_t i = 0; i < kWindow / 2; ++i) {
      Receive receive(job[1], 0, {1, 1, i}, 8, i);
      job.pump();
      receive.check_data();
    }
    CHECK_EQ(job[0].of.counters().data_sent, 2u);
    // The RTRs that were not needed are forgotten: when sequence numbers have wrapped, the same keys come again.
    for (uint32_t i = 0; i < 20; ++i) {
      Receive receive(job[1], 0, {1, 2, i}, 8, i);
      Send send(job[0], 1, {1, 2, i}, 8, i);
      job.pump();
      receive.check_data();
    }
    job.check_idle();
  }
}

// --- giving up -------------------------------------------------------------------------------------------------------

// An operation of two messages: one fails, the other one is given up.
struct Pair : libof::RequestOwner {
  explicit Pair(size_t bytes) : memory(bytes) { fill(memory.data(), bytes, 3); }
  // As the engine does it.
  void fail(Node& node) {
    error = Error::truncated;
    node.of.cancel(*this);
    node.of.give_up_cancelled();
    while (node.of.take_ready() != nullptr) {
    }
  }
  Memory memory;
};

// A receive is given up in each state that it can be in, and its message comes afterwards: nothing of it is written.
// The sender of a large one hears of it, that of a small one has long finished.
TEST(what_comes_for_a_receive_that_was_given_up_is_dropped) {
  for (const bool asynchronous : {false, true}) {
    for (const bool written : {false, true}) {      // the RTR
      for (const bool delivered : {false, true}) {  // before the receive is given up
        for (const size_t bytes : {size_t{0}, size_t{100}, size_t{5000}}) {
          PumpedJob job(2, asynchronous, options_with(written));
          Send dummy(job[0], 1, {1, 99, 0}, 1000, 0);  // rank 0 looks at RTRs
          Pair pair(bytes);
          CHECK(!job[1].of.irecv(pair, 0, kKey, pair.memory.data(), bytes));
          if (written) job[1].progress();
          if (delivered) job.pump();
          pair.fail(job[1]);
          CHECK_EQ(pair.outstanding, 0);
          fill(pair.memory.data(), bytes, 4);
          job.pump();  // rank 0 hears of it
          Send send(job[0], 1, kKey, bytes, 5);
          job.pump();
          CHECK(send.done());
          CHECK_EQ(send.error, bytes > kLimit ? Error::abandoned : Error::none);
          CHECK_EQ(first_difference(pair.memory.data(), bytes, 4), bytes);
          pair.memory.check_guards();
          Receive last(job[1], 0, {1, 99, 0}, 1000, 0);
          job.check_idle();
          last.check_data();
        }
      }
    }
  }
}

// Data that are on their way when the receive is given up.
TEST(data_that_are_under_way_are_not_written_or_are_waited_for) {
  for (const bool revokes : {true, false}) {
    PumpedJob job(2, true);
    Send send(job[0], 1, kKey, 5000, 5);
    Pair pair(5000);
    job[1].of.irecv(pair, 0, kKey, pair.memory.data(), 5000);
    job[1].progress();
    CHECK(job.network.deliver_write(1, 0));
    job[0].progress();  // the put is on its way
    job[1].fabric.revokes = revokes;
    pair.fail(job[1]);
    CHECK_EQ(pair.outstanding, revokes ? 0 : 1);
    CHECK_EQ(job[1].of.needs_driving(), !revokes);
    if (revokes) fill(pair.memory.data(), 5000, 4);
    job.pump();
    CHECK_EQ(pair.outstanding, 0);
    CHECK(send.done());
    CHECK_EQ(first_difference(pair.memory.data(), 5000, revokes ? 4 : 5), 5000u);
    job.check_idle();
  }
}

// The peer has taken the RTR and does nothing: no card can be stopped, so the connection ends, in a bounded time.
TEST(a_peer_that_does_not_answer_is_rejected_when_the_time_is_up) {
  Options options = options_with(true);
  options.revoke_limit = 0;
  PumpedJob job(2, true, options);
  Pair pair(5000);
  job[1].of.irecv(pair, 0, kKey, pair.memory.data(), 5000);
  job.network.run();
  job[1].fabric.revokes = false;
  pair.fail(job[1]);
  CHECK_EQ(pair.outstanding, 1);
  job[1].progress();
  job[1].progress();
  CHECK_EQ(pair.outstanding, 0);
  CHECK_EQ(job[1].of.active_peers(), 0u);
}

// Its answer comes behind the messages that its device has begun, however long they take.
TEST(a_peer_has_time_for_what_is_on_its_way) {
  constexpr size_t kBytes = 100'000'000;
  Options options = options_with(true);
  options.revoke_limit = 0;
  PumpedJob job(2, true, options);
  Pair pair(kBytes);
  job[1].of.irecv(pair, 0, kKey, pair.memory.data(), kBytes);
  job.network.run();
  job[1].fabric.revokes = false;
  pair.fail(job[1]);
  job[1].progress();
  job[1].progress();
  CHECK_EQ(pair.outstanding, 1);
  CHECK(job[1].of.is_revoking());
  job[1].fabric.revokes = true;
  job[1].progress();
  CHECK_EQ(pair.outstanding, 0);
  CHECK(!job[1].of.is_revoking());
  CHECK(job[1].of.active_peers() > 0);
}

// A peer that writes is there, and its data is on its way.
TEST(a_peer_that_writes_is_not_rejected) {
  Options options = options_with(true);
  options.revoke_limit = 300;
  for (bool paused = true; paused;) {
    PumpedJob job(2, true, options);
    Pair pair(5000);
    job[1].of.irecv(pair, 0, kKey, pair.memory.data(), 5000);
    Send send(job[0], 1, kKey, 5000, 5);
    while (job.network.deliver_write(1, 0) || job[0].progress()) continue;
    job[1].fabric.revokes = false;
    pair.fail(job[1]);
    paused = false;
    int64_t last = now_milliseconds();
    const int64_t end = last + 2 * options.revoke_limit;
    for (uint32_t i = 0; last < end && !paused; ++i) {
      const MessageKey key{1, 1, i};
      Receive in(job[1], 0, key, 8, i);
      Send out(job[0], 1, key, 8, i);
      while (!in.done() || !out.done()) {
        for (const Rank rank : {0, 1}) {
          job.network.deliver_write(rank, 1 - rank);
          job.network.complete_write(rank);
          job[rank].progress();
        }
      }
      const int64_t before = std::exchange(last, now_milliseconds());
      // The machine gave this test no time: again.
      paused = last - before >= options.revoke_limit / 2;
      if (!paused) CHECK_EQ(pair.outstanding, 1);
    }
    job[1].fabric.revokes = true;
    job.pump();
    CHECK_EQ(pair.outstanding, 0);
    CHECK(send.done());
    job.check_idle();
  }
}

// What this rank gives up later gives the peer no more time for what it has given up before.
TEST(a_peer_has_no_more_time_when_more_is_given_up) {
  Options options = options_with(true);
  options.revoke_limit = 300;
  PumpedJob job(2, true, options);
  Pair first(5000), second(5000);
  job[1].of.irecv(first, 0, kKey, first.memory.data(), 5000);
  job[1].of.irecv(second, 0, {1, 1, 7}, second.memory.data(), 5000);
  job.network.run();
  job[1].fabric.revokes = false;
  first.fail(job[1]);
  const int64_t end = now_milliseconds() + options.revoke_limit;  // its limit, or a little later
  while (now_milliseconds() < end - 20) job[1].progress();
  second.fail(job[1]);
  while (now_milliseconds() <= end) job[1].progress();
  job[1].progress();
  job[1].progress();
  CHECK_EQ(first.outstanding, 0);
}

// The same over shared memory: nobody can keep the peer from its copy. The operation ends in a bounded time all the
// same, and says that its buffer is in use.
TEST(a_peer_that_stops_amid_a_copy_keeps_the_buffer) {
  Options options = options_with(true);
  options.revoke_limit = 0;
  PumpedJob job(2, false, options);
  Pair pair(5000);
  job[1].of.irecv(pair, 0, kKey, pair.memory.data(), 5000);
  job[1].fabric.revokes = false;
  pair.fail(job[1]);
  CHECK_EQ(pair.outstanding, 1);
  CHECK(job[1].of.is_revoking());
  job[1].progress();
  CHECK_EQ(pair.outstanding, 0);
  CHECK(pair.buffers_in_use);
  CHECK(!job[1].of.is_revoking());
  // The peer goes on: the two can still talk.
  Send send(job[0], 1, kKey, 5000, 5);
  job.pump();
  CHECK_EQ(send.error, Error::abandoned);
  Receive receive(job[1], 0, {1, 1, 0}, 1000, 6);
  Send other(job[0], 1, {1, 1, 0}, 1000, 6);
  job.pump();
  receive.check_data();
  job.check_idle();
}

Options patient_options() {
  Options options = options_with(true);
  options.revoke_limit = 60'000;
  return options;
}

// The peer has nothing to do with this rank yet, and answers for the sends that it will start. There are more of them
// than RTR slots, and its own receives from this rank fill the slots of the other direction.
TEST(a_revoke_is_answered_before_the_send_starts) {
  constexpr uint32_t kMany = libof::kRtrSlots + 8;
  for (const uint32_t count : {1u, kMany}) {
    for (const uint32_t others : {0u, kMany}) {
      PumpedJob job(2, true, patient_options());
      std::deque<Receive> in;
      for (uint32_t i = 0; i < others; ++i) in.emplace_back(job[0], 1, MessageKey{1, 3, i}, 1000, i);
      std::deque<Pair> pairs;
      for (uint32_t i = 0; i < count; ++i) {
        pairs.emplace_back(5000);
        job[1].of.irecv(pairs[i], 0, {1, 2, i}, pairs[i].memory.data(), 5000);
      }
      job.pump();
      CHECK_EQ(job[1].fabric.exposed(), count);
      job[1].fabric.revokes = false;
      for (Pair& pair : pairs) pair.fail(job[1]);
      CHECK_EQ(pairs[0].outstanding, 1);
      job.pump();
      for (Pair& pair : pairs) CHECK_EQ(pair.outstanding, 0);
      CHECK_EQ(job[1].fabric.exposed(), 0u);
      CHECK(!job[1].of.is_revoking());
      // The messages meet, without data.
      for (uint32_t i = 0; i < count; ++i) {
        Send send(job[0], 1, {1, 2, i}, 5000, 5);
        job.pump();
        CHECK(send.done());
        CHECK_EQ(send.error, Error::abandoned);
        CHECK_EQ(first_difference(pairs[i].memory.data(), 5000, 3), 5000u);
      }
      for (uint32_t i = 0; i < others; ++i) {
        Send send(job[1], 0, {1, 3, i}, 1000, i);
        job.pump();
        in[i].check_data();
      }
      job.check_idle();
    }
  }
}

// The answer has to wait for a slot, and nothing else is pending with that peer.
TEST(the_answer_to_a_revoke_waits_for_an_rtr_slot) {
  PumpedJob job(2, true, patient_options());
  job[0].fabric.refuse_to_expose = true;
  std::deque<Receive> refused;
  for (uint32_t i = 0; i < libof::kRtrSlots; ++i)
    CHECK_EQ(refused.emplace_back(job[0], 1, MessageKey{1, 3, i}, 1000, i).error, Error::memory);
  Pair pair(5000);
  job[1].of.irecv(pair, 0, kKey, pair.memory.data(), 5000);
  job[1].fabric.revokes = false;
  pair.fail(job[1]);
  while (job.network.deliver_write(1, 0)) {
  }
  job[0].progress();
  CHECK_EQ(job[0].of.active_peers(), 1u);  // for the answer
  job.pump();
  CHECK_EQ(pair.outstanding, 0);
  CHECK_EQ(job[0].of.active_peers(), 0u);
  for (uint32_t i = 0; i < libof::kRtrSlots; ++i) {
    const Send send(job[1], 0, {1, 3, i}, 1000, i);
    job.pump();
    CHECK_EQ(send.error, Error::abandoned);
  }
  Send send(job[0], 1, kKey, 5000, 5);
  job.pump();
  CHECK_EQ(send.error, Error::abandoned);
  job.check_idle();
}

// A revoke that comes when the send has been answered is not answered again: the data, or the error, are the answer.
TEST(a_revoke_after_the_answer_changes_nothing) {
  PumpedJob job(2, true, patient_options());
  Send send(job[0], 1, kKey, 5000, 5);
  Pair pair(5000);
  job[1].of.irecv(pair, 0, kKey, pair.memory.data(), 5000);
  CHECK(job.network.deliver_write(1, 0));
  job[0].progress();  // the put is on its way
  job[1].fabric.revokes = false;
  pair.fail(job[1]);
  while (job.network.deliver_write(1, 0)) {
  }
  job[0].progress();
  while (job.network.deliver_write(0, 1)) {
  }
  job[1].progress();
  CHECK_EQ(pair.outstanding, 1);  // the put may still write
  job.pump();
  CHECK_EQ(pair.outstanding, 0);
  CHECK_EQ(job[0].of.counters().rtr_early, 0u);
  job.check_idle();
}

// The sender finds the RTR together with what withdraws it: no data leave.
TEST(an_rtr_that_is_withdrawn_before_its_sender_looks_gets_no_data) {
  PumpedJob job(2);
  Send send(job[0], 1, kKey, 5000, 5);
  Pair pair(5000);
  job[1].of.irecv(pair, 0, kKey, pair.memory.data(), 5000);
  job[1].fabric.revokes = false;
  pair.fail(job[1]);
  CHECK_EQ(pair.outstanding, 1);
  job.pump();
  CHECK_EQ(pair.outstanding, 0);
  CHECK_EQ(send.error, Error::abandoned);
  CHECK_EQ(first_difference(pair.memory.data(), 5000, 3), 5000u);
  job.check_idle();
}

// --- failures that travel --------------------------------------------------------------------------------------------

constexpr libof::Poison kPoison = libof::poison_of(1, Error::memory);

// Rank 0 sends rank 1 a message. To receive it, rank 1 empties its mailbox.
void pass_message(PumpedJob& job, uint32_t tag, size_t bytes) {
  Receive receive(job[1], 0, {1, tag, 0}, bytes, 4);
  Send send(job[0], 1, {1, tag, 0}, bytes, 4);
  job.pump();
  receive.check_data();
}

void check_poisoned(const Receive& receive) {
  CHECK(receive.done());
  CHECK_EQ(receive.error, Error::abandoned);
  CHECK_EQ(receive.poison, kPoison);
  CHECK(receive.memory.untouched());
}

TEST(a_poison_fails_the_receive_of_a_message_of_any_size) {
  for (const bool asynchronous : {false, true}) {
    for (const size_t bytes : {size_t{0}, size_t{100}, size_t{5000}}) {
      for (const bool posted_first : {true, false}) {
        PumpedJob job(2, asynchronous);
        std::unique_ptr<Receive> receive;
        const auto post = [&] { receive = std::make_unique<Receive>(job[1], 0, kKey, bytes, 3); };
        if (posted_first) post();
        job.pump();
        job[0].of.poison(1, kKey, kPoison);
        job.pump();
        if (!posted_first) {
          pass_message(job, 8, 8);
          post();
          job.pump();
        }
        check_poisoned(*receive);
        // The RTR that was taken back meets nothing any more.
        pass_message(job, 9, 5000);
        job.check_idle();
      }
    }
  }
}

// A send that failed while it waited: with and without an RTS, and with an RTR that its sender has not seen.
TEST(a_send_that_fails_is_replaced_by_its_poison) {
  for (const bool asynchronous : {false, true}) {
    for (const bool announced : {false, true}) {
      for (const bool posted : {false, true}) {
        PumpedJob job(2, asynchronous);
        Pair pair(5000);
        job[0].of.isend(pair, 1, kKey, pair.memory.data(), 5000);
        if (announced) job[0].of.announce_sends();
        std::unique_ptr<Receive> receive;
        if (posted) receive = std::make_unique<Receive>(job[1], 0, kKey, 5000, 3);
        pair.poison = kPoison;
        pair.fail(job[0]);
        CHECK_EQ(pair.outstanding, 0);
        job.pump();
        if (!posted) {
          pass_message(job, 8, 8);
          receive = std::make_unique<Receive>(job[1], 0, kKey, 5000, 3);
        }
        job.pump();
        check_poisoned(*receive);
        pass_message(job, 9, 5000);
        job.check_idle();
      }
    }
  }
}

// The receiver of a poison holds as many messages without a receive as it may, and waits for this one.
TEST(a_poison_that_is_asked_for_passes_a_full_window) {
  for (const bool asynchronous : {false, true}) {
    Options options = options_with(true);
    options.unexpected_window = kSlots;
    PumpedJob job(2, asynchronous, options);
    std::vector<std::unique_ptr<Send>> flood;
    for (uint32_t i = 0; i < kSlots; ++i) flood.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 2, i}, 8, i));
    job[0].of.poison(1, kKey, kPoison);
    job.pump();
    Receive receive(job[1], 0, kKey, 100, 3);
    job.pump();
    check_poisoned(receive);
    for (uint32_t i = 0; i < kSlots; ++i) {
      Receive late(job[1], 0, {1, 2, i}, 8, i);
      job.pump();
      late.check_data();
    }
    job.check_idle();
  }
}

// The mailbox was full when the mismatch was found. When there is room again, the RTR of a call that has ended is
// answered behind the word of that.
TEST(a_mismatch_is_told_before_the_poisons_that_follow_from_it) {
  struct Calls : libof::Calls {
    bool differs(const MessageKey&, Rank, const KnownCall&, Mismatch&) override { return false; }
    bool knows(uint64_t) const override { return true; }
    void mismatch(Mismatch&, bool told) override {
      ++count;
      CHECK(told && receive != nullptr && !receive->done());
    }
    const Receive* receive = nullptr;
    int count = 0;
  };
  PumpedJob job(2);
  Calls calls;
  job[1].of.set_calls(&calls);
  constexpr MessageKey kCall{12, 0, 0};
  std::deque<Send> sends;
  for (uint32_t i = 0; i < kSlots; ++i) sends.emplace_back(job[0], 1, MessageKey{13, 0, i}, 8, i);
  const Mismatch found{kCall.context, kCall.tag, {0, 1}, {5, 6}};
  job[0].of.end_communicator(found);
  job[0].of.tell(1, found);
  CHECK(job[0].of.has_notices());
  Receive receive(job[1], 0, kCall, 5000, 1);
  calls.receive = &receive;
  job[1].progress();  // makes room
  job[0].progress();
  CHECK(!job[0].of.has_notices());
  job[1].progress();
  CHECK_EQ(calls.count, 1);
  job.pump();
  CHECK(receive.done());
  CHECK_EQ(receive.error, Error::abandoned);
  std::deque<Receive> receives;
  for (uint32_t i = 0; i < kSlots; ++i) receives.emplace_back(job[1], 0, MessageKey{13, 0, i}, 8, i).check_data();
  job.check_idle();
}

// A program may revoke communicators for as long as it runs, and a peer may tell of any number that nobody knows.
TEST(any_number_of_communicators_can_be_revoked) {
  struct Calls : libof::Calls {
    bool differs(const MessageKey&, Rank, const KnownCall&, Mismatch&) override { return false; }
    bool knows(uint64_t context) const override { return open == context; }
    void mismatch(Mismatch&, bool) override { ++count; }
    uint64_t open = 0;
    uint32_t count = 0;
  };
  constexpr uint32_t kCommunicators = 100'000;
  PumpedJob job(2);
  Calls calls[2];
  for (int rank : {0, 1}) job[rank].of.set_calls(&calls[rank]);
  Receive receive(job[1], 0, {4, 0, 0}, 8, 1);  // so it looks into this mailbox
  const size_t before = mallinfo2().uordblks;
  size_t after_some = 0;
  for (uint32_t i = 1; i <= kCommunicators; ++i) {
    const uint64_t communicator = uint64_t{16} * i;
    const Mismatch revoked{communicator, 0, {0, 0}, {0, 0}};
    calls[0].open = communicator;
    calls[1].open = i % 2 == 0 ? communicator : 4;
    job[0].of.end_communicator(revoked);
    job[0].of.tell(1, revoked);
    job.pump();
    CHECK_EQ(calls[1].count, i);
    CHECK(job[1].of.mismatch_of(communicator) != nullptr);
    job[0].of.close_communicator(communicator);
    if (i % 2 == 0) job[1].of.close_communicator(communicator);
    if (i == kCommunicators / 10) after_some = mallinfo2().uordblks;
  }
  // ASan's allocator does not count.
  if (after_some > before) CHECK(mallinfo2().uordblks < after_some + (after_some - before) / 2);
  Send send(job[0], 1, {4, 0, 0}, 8, 1);
  job.pump();
  receive.check_data();
  job.check_idle();
}

// Who asks does so once, and may do it before the peer has made the communicator.
TEST(an_inquiry_waits_until_its_communicator_is_known) {
  struct Calls : libof::Calls {
    bool differs(const MessageKey& key, Rank peer, const KnownCall& theirs, Mismatch& out) override {
      hash = theirs.size_hash;
      if (known) out = {key.context, key.tag, {1, peer}, {5, theirs.signature}};
      return known;
    }
    bool knows(uint64_t) const override { return known; }
    void mismatch(Mismatch& what, bool) override { found.push_back(what); }
    bool known = false;
    uint32_t hash = 0;
    std::vector<Mismatch> found;
  };
  for (const bool asynchronous : {false, true}) {
    PumpedJob job(2, asynchronous);
    Calls calls;
    job[1].of.set_calls(&calls);
    Receive receive(job[1], 0, {13, 0, 0}, 8, 1);  // so it looks into this mailbox
    CHECK(job[0].of.inquire(1, 12, 7, {6, 99}));
    Send send(job[0], 1, {13, 0, 0}, 8, 1);
    job.pump();
    receive.check_data();
    calls.known = true;
    job[1].of.compare_kept(28);
    CHECK(calls.found.empty());
    for (int i = 0; i < 2; ++i) job[1].of.compare_kept(12);
    CHECK_EQ(calls.found.size(), 1u);
    CHECK_EQ(calls.found.front().tag, 7u);
    CHECK_EQ(calls.found.front().calls[1], 6u);
    CHECK_EQ(calls.hash, 99u);
    job.check_idle();
  }
}

// What a failed operation does not receive any more: small messages vanish, the sender of a large one learns why.
TEST(a_message_that_is_dropped_tells_its_sender_if_it_is_large) {
  for (const bool asynchronous : {false, true}) {
    for (const size_t bytes : {size_t{100}, size_t{5000}}) {
      for (const bool sent_first : {false, true}) {
        PumpedJob job(2, asynchronous);
        std::unique_ptr<Send> send;
        const auto begin = [&] { send = std::make_unique<Send>(job[0], 1, kKey, bytes, 3); };
        if (sent_first) {
          begin();
          job[0].of.announce_sends();
          pass_message(job, 8, 8);
        }
        job[1].of.drop(0, kKey, bytes, kPoison);
        job.pump();
        if (!sent_first) begin();
        job.pump();
        CHECK(send->done());
        CHECK_EQ(send->error, bytes > kLimit ? Error::abandoned : Error::none);
        if (bytes > kLimit) CHECK_EQ(send->poison, kPoison);
        job.check_idle();
      }
    }
  }
}

// A send that was given up: its receiver gets the message from a copy, or the error; the buffer is free at once.
TEST(a_send_that_was_given_up_leaves_its_buffer_alone) {
  for (const bool asynchronous : {false, true}) {
    for (const size_t bytes : {size_t{100}, size_t{5000}}) {
      PumpedJob job(2, asynchronous, options_with(false));
      Pair pair(bytes);
      CHECK(!job[0].of.isend(pair, 1, kKey, pair.memory.data(), bytes));
      pair.fail(job[0]);
      CHECK_EQ(pair.outstanding, 0);
      fill(pair.memory.data(), bytes, 4);
      Receive receive(job[1], 0, kKey, bytes, 3);
      job.pump();
      if (bytes > kLimit) {
        CHECK_EQ(receive.error, Error::abandoned);
        CHECK(receive.memory.untouched());
      } else {
        receive.check_data();
      }
      job.check_idle();
    }
  }
}

TEST(a_put_that_was_given_up_is_retracted_and_waited_for) {
  PumpedJob job(2, true);
  Pair pair(5000);
  CHECK(!job[0].of.isend(pair, 1, kKey, pair.memory.data(), 5000));
  Receive receive(job[1], 0, kKey, 5000, 3);
  CHECK(job.network.deliver_write(1, 0));
  job[0].progress();
  pair.fail(job[0]);
  CHECK_EQ(job[0].fabric.retractions, 1u);
  CHECK_EQ(pair.outstanding, 1);
  job.pump();
  CHECK_EQ(pair.outstanding, 0);
  receive.check_data();
  job.check_idle();
}

// --- many ------------------------------------------------------------------------------------------------------------

TEST(more_requests_than_can_be_told_apart_are_an_error) {
  Options options = options_with(true);
  options.most_requests = 100;
  PumpedJob job(2, false, options);
  std::vector<std::unique_ptr<Receive>> receives;
  for (uint32_t i = 0; i < 100; ++i)
    receives.push_back(std::make_unique<Receive>(job[1], 0, MessageKey{1, 1, i}, 8, i));
  for (const size_t bytes : {8, 5000}) {
    libof::RequestOwner owner;
    std::vector<std::byte> memory(bytes);
    CHECK(job[1].of.irecv(owner, 0, {1, 1, 100}, memory.data(), bytes));
    CHECK_EQ(owner.error, Error::too_many_requests);
    CHECK_EQ(owner.outstanding, 0);
    job[1].of.remove_ready(owner);
  }
  libof::RequestOwner owner;
  std::vector<std::byte> memory(5000);
  CHECK(job[1].of.isend(owner, 0, {1, 2, 0}, memory.data(), 5000));
  CHECK_EQ(owner.error, Error::too_many_requests);
  job[1].of.remove_ready(owner);
  // Those that are pending complete, and make room.
  std::vector<std::unique_ptr<Send>> sends;
  for (uint32_t i = 0; i < 100; ++i) sends.push_back(std::make_unique<Send>(job[0], 1, MessageKey{1, 1, i}, 8, i));
  job.pump();
  for (auto& receive : receives) receive->check_data();
  Receive again(job[1], 0, {1, 3, 0}, 5000, 9);
  Send send(job[0], 1, {1, 3, 0}, 5000, 9);
  job.check_idle();
  again.check_data();
}

// Receives in the reverse order of their messages, as tags or as sequence numbers.
TEST(the_search_for_a_receive_does_not_grow_with_their_number) {
  for (const bool tags : {false, true}) {
    const auto comparisons = [&](uint32_t count) {
      PumpedJob job(2);
      libof::RequestOwner receives, sends;
      std::byte byte{};
      const auto key = [&](uint32_t i) { return tags ? MessageKey{1, i, 0} : MessageKey{1, 0, i}; };
      for (uint32_t i = count; i-- > 0;) job[1].of.irecv(receives, 0, key(i), &byte, 1);
      for (uint32_t i = 0; i < count; ++i) {
        job[0].of.isend(sends, 1, key(i), &byte, 1);
        if (i % 50 == 49) job.pump();
      }
      job.check_idle();
      return job[1].of.comparisons();
    };
    const uint64_t few = comparisons(1000);
    const uint64_t many = comparisons(32'000);
    CHECK(many < 64 * few);
    CHECK(many < 8 * 32'000);
  }
}

// --- many ------------------------------------------------------------------------------------------------------------

TEST(a_million_messages_leak_nothing) {
  const uint32_t total = repetitions(1'000'000, 80'000);
  PumpedJob job(2);
  std::vector<std::byte> out(600), in(600);
  constexpr uint32_t kBatch = 50;
  for (uint32_t i = 0; i < total; i += kBatch) {
    // Both directions, a tenth of them rendezvous, half of the receives late.
    libof::RequestOwner sends[2], receives[2];
    for (const Rank rank : {0u, 1u}) {
      const bool late = (i / kBatch + rank) % 2 == 1;
      const auto post = [&](Rank receiver) {
        for (uint32_t n = 0; n < kBatch / 2; ++n)
          job[receiver].of.irecv(receives[receiver], 1 - receiver, {1, i, n}, in.data(), n % 10 == 0 ? 600 : n);
      };
      if (!late) post(rank);
      for (uint32_t n = 0; n < kBatch / 2; ++n)
        job[1 - rank].of.isend(sends[1 - rank], rank, {1, i, n}, out.data(), n % 10 == 0 ? 600 : n);
      if (late) post(rank);
    }
    job.pump();
    for (const Rank rank : {0u, 1u}) {
      CHECK_EQ(sends[rank].outstanding, 0);
      CHECK_EQ(receives[rank].outstanding, 0);
      CHECK(job[rank].of.idle());
    }
  }
  job.check_idle();
  for (const Rank rank : {0u, 1u}) {
    const libof::Counters& counters = job[rank].of.counters();
    CHECK_EQ(counters.eager_stalled, 0u);
    CHECK_EQ(counters.eager_sent + counters.data_sent, total / 2);
    CHECK_EQ(counters.rtr_sent, counters.data_sent);
    CHECK_EQ(counters.connections, 1u);
  }
}

// One rank with a peer on its host and one that is reached asynchronously: each message goes by its peer, whatever the
// other does.
TEST(each_peer_is_served_in_its_own_way) {
  for (const bool test_on_init : {true, false}) {
    PumpedJob job(3, true, options_with(test_on_init), 0, 2);
    constexpr size_t kLarge = 5000;
    Receive near_large(job[0], 1, MessageKey{1, 1, 0}, kLarge, 1);
    Receive far_large(job[0], 2, MessageKey{1, 1, 0}, kLarge, 2);
    Send near_small(job[0], 1, MessageKey{1, 2, 0}, 100, 3);
    Send far_small(job[0], 2, MessageKey{1, 2, 0}, 100, 4);
    Receive at_near(job[1], 0, MessageKey{1, 2, 0}, 100, 3);
    Receive at_far(job[2], 0, MessageKey{1, 2, 0}, 100, 4);
    Send from_near(job[1], 0, MessageKey{1, 1, 0}, kLarge, 1);
    Send from_far(job[2], 0, MessageKey{1, 1, 0}, kLarge, 2);
    // Nothing of the network happens: what is on the host is complete all the same, and nothing else is.
    for (int i = 0; i < 4; ++i) {
      for (auto& node : job.nodes) node->progress();
    }
    near_large.check_data();
    at_near.check_data();
    CHECK(near_small.done() && from_near.done());
    CHECK(!far_large.done() && !at_far.done() && !far_small.done() && !from_far.done());
    job.pump();
    far_large.check_data();
    at_far.check_data();
    CHECK(far_small.done() && from_far.done());
    job.check_idle();
  }
}

// Sends and receives of several tags, started in random order on both sides, with everything that can be delayed
// delayed at random: the n-th send of a tag meets the n-th receive of the tag.
void random_messages(bool asynchronous, bool test_on_init, uint32_t total, uint64_t seed) {
  constexpr uint32_t kTags = 8;
  constexpr uint32_t kAhead = 150;  // requests outstanding on each side
  Random random(seed);
  PumpedJob job(2, asynchronous, options_with(test_on_init, 200));
  const auto size_of = [&](uint32_t tag, uint32_t n) -> size_t {
    const uint64_t z = (uint64_t{tag} << 32 | n) * 0x9e3779b97f4a7c15u >> 40;
    return z % 3 == 0 ? 256 + z % 2000 : z % 256;
  };
  struct Side {
    std::vector<uint32_t> tags;  // of the messages, in the order in which this side starts them
    size_t next = 0;
    uint32_t numbers[kTags] = {};
    std::deque<std::unique_ptr<Send>> sends;
    std::deque<std::unique_ptr<Receive>> receives;
  };
  Side sender, receiver;
  for (uint32_t i = 0; i < total; ++i) sender.tags.push_back(random.below(kTags));
  // The receiver's order: the sender's, shuffled within a distance, so that what is outstanding stays bounded.
  receiver.tags = sender.tags;
  for (uint32_t i = 0; i + 1 < total; ++i)
    std::swap(receiver.tags[i], receiver.tags[i + random.below(std::min(60u, total - i))]);
  uint32_t received = 0;
  uint32_t stuck = 0;
  while (received < total) {
    CHECK(++stuck < 1'000'000);
    switch (random.below(6)) {
      case 0:
        if (sender.next < total && sender.sends.size() < kAhead) {
          const uint32_t tag = sender.tags[sender.next++];
          const uint32_t n = sender.numbers[tag]++;
          sender.sends.push_back(
              std::make_unique<Send>(job[0], 1, MessageKey{1, tag, n}, size_of(tag, n), uint64_t{tag} << 40 | n));
        }
        break;
      case 1:
        if (receiver.next < total && receiver.receives.size() < kAhead) {
          const uint32_t tag = receiver.tags[receiver.next++];
          const uint32_t n = receiver.numbers[tag]++;
          receiver.receives.push_back(
              std::make_unique<Receive>(job[1], 0, MessageKey{1, tag, n}, size_of(tag, n), uint64_t{tag} << 40 | n));
        }
        break;
      case 2:
        job[0].progress();
        if (random.below(8) == 0) job[0].of.announce_sends();
        break;
      case 3:
        job[1].progress();
        break;
      default:
        if (asynchronous) job.network.step(random);
    }
    while (!sender.sends.empty() && sender.sends.front()->done()) sender.sends.pop_front();
    while (!receiver.receives.empty() && receiver.receives.front()->done()) {
      receiver.receives.front()->check_data();
      receiver.receives.pop_front();
      ++received;
      stuck = 0;
    }
  }
  job.pump();
  while (!sender.sends.empty() && sender.sends.front()->done()) sender.sends.pop_front();
  CHECK(sender.sends.empty());
  job.check_idle();
}

TEST(random_messages_keep_order_per_tag) { random_messages(false, true, repetitions(100'000, 10'000), 1); }
TEST(random_messages_keep_order_per_tag_without_test_on_init) {
  random_messages(false, false, repetitions(100'000, 10'000), 2);
}
TEST(random_messages_keep_order_per_tag_asynchronous) { random_messages(true, true, repetitions(30'000, 4'000), 3); }
TEST(random_messages_keep_order_per_tag_asynchronous_without_test_on_init) {
  random_messages(true, false, repetitions(30'000, 4'000), 4);
}

}  // namespace

TEST_MAIN(120)
