// Ranks for tests: an Engine with what the addon would add (slots, pinned buffers, a world group), as threads of this
// process.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <sched.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "engine/engine.h"
#include "engine/reduce.h"
#include "fabric/shm/shm_fabric.h"
#include "test/check.h"
#include "test/random.h"
#include "test/schedule.h"

namespace nbc::check {

struct RankOptions {
  bool progress_thread = true;
  bool cross_memory = true;
  uint32_t eager_limit = 255;
  bool test_on_init = true;
  uint32_t wait_on_send_us = 0;
  uint32_t startall_us = 0;
  uint32_t unexpected_window = 1024;
  int64_t revoke_limit = 3000;
  uint32_t trace_events = 0;
  Rank compact_from = shm::kCompactFrom;
};

inline RankOptions mode(bool progress_thread) {
  RankOptions options;
  options.progress_thread = progress_thread;
  return options;
}

constexpr size_t kTestArena = size_t{64} << 20;  // sparse; large enough for every test

inline std::shared_ptr<job::Segment> make_segment(Rank size) {
  const int fd = job::Segment::create(size, kTestArena);
  auto segment = job::Segment::map(fd);
  ::close(fd);
  return segment;
}

// Of ranks that know that they are threads of one process.
inline std::shared_ptr<job::Segment> make_shared_segment(Rank size) {
  const int fd = job::Segment::create(size, kTestArena);
  auto segment = job::Segment::share(fd);
  CHECK(job::Segment::share(fd) == segment);
  ::close(fd);
  return segment;
}

// The state of a request that was complete when it was started.
constexpr uint32_t kNoRequest = UINT32_MAX;

inline std::unique_ptr<Fabric> shm_fabric(std::shared_ptr<job::Segment> segment, Rank rank,
                                          const RankOptions& options) {
  return std::make_unique<shm::ShmFabric>(std::move(segment), shm::ShmOptions{.rank = rank,
                                                                              .eager_limit = options.eager_limit,
                                                                              .cross_memory = options.cross_memory,
                                                                              .compact_from = options.compact_from,
                                                                              .find_kernel = numbered_kernel});
}

class TestRank {
 public:
  TestRank(std::shared_ptr<job::Segment> segment, Rank rank, const RankOptions& options = {})
      : TestRank(shm_fabric(std::move(segment), rank, options), options) {}
  // Over any fabric; of the options only those that are the engine's matter.
  TestRank(std::unique_ptr<Fabric> fabric, const RankOptions& options)
      : rank(fabric->rank()), size(fabric->size()), slots(std::make_shared<SlotTable>()) {
    world = std::make_shared<Group>();
    for (Rank r = 0; r < size; ++r) world->members.push_back(r);
    world->rank = rank;
    world->context = 12;  // a communicator takes four numbers
    EngineOptions engine_options;
    engine_options.libof.eager_limit = options.eager_limit;
    engine_options.libof.test_on_init = options.test_on_init;
    engine_options.libof.unexpected_window = options.unexpected_window;
    engine_options.libof.revoke_limit = options.revoke_limit;
    engine_options.progress_thread = options.progress_thread;
    engine_options.wait_on_send_us = options.wait_on_send_us;
    engine_options.startall_us = options.startall_us;
    engine_options.trace_events = options.trace_events;
    engine = std::make_unique<Engine>(std::move(fabric), engine_options, slots, [this] { told(); });
    arena = engine->fabric().memory();
  }
  ~TestRank() { close(); }

  // Lets the end of the request notify, as before the event loop sleeps. A look that finds it ended notifies at once.
  void watch(uint32_t request) {
    engine->look(0, 0);  // takes what was notified of before: as the event loop does when it is told
    slots->exchange()[0] = request;
    size_t ended = engine->look(1, 0);
    while (!engine->rest()) ended += engine->look(0, 0);
    if (ended > 0) told();
  }

  void close() {
    engine.reset();
    arena.reset();
  }

  // Memory that ends where the message ends, so that AddressSanitizer sees every step outside.
  Pinned plain(size_t bytes) const {
    auto* data = static_cast<std::byte*>(std::malloc(bytes));
    return {data, bytes, std::shared_ptr<void>(data, std::free)};
  }
  Pinned exposed(size_t bytes) const {
    auto* data = static_cast<std::byte*>(arena->allocate(bytes));
    CHECK(data != nullptr);
    return {data, bytes, std::shared_ptr<void>(data, [arena = arena](void* block) { arena->release(block); })};
  }
  Pinned memory(size_t bytes, bool in_arena) const { return in_arena ? exposed(bytes) : plain(bytes); }
  Pinned filled(size_t bytes, bool in_arena, uint64_t seed) const {
    Pinned block = memory(bytes, in_arena);
    fill(block.data, bytes, seed);
    return block;
  }

  std::shared_ptr<LoadedPlan> load(const Schedule& schedule, const UserOperator& op = {}, bool messages = false) const {
    try {
      auto loaded = std::make_shared<LoadedPlan>();
      loaded->op = op;
      loaded->messages = messages;
      loaded->plan = compile_schedule(schedule.words.data(), schedule.words.size(), world->members, rank, messages,
                                      op.number != 0);
      loaded->group = world;
      return loaded;
    } catch (const ScheduleError& error) {
      throw Failure{"a schedule of this test is refused at word " + std::to_string(error.word) + ": " + error.reason};
    }
  }

  uint32_t start(const std::shared_ptr<LoadedPlan>& plan, Pinned send, Pinned receive) {
    const uint32_t slot = take_slot();
    return started(slot, engine->start(plan, slot, std::move(send), std::move(receive)));
  }
  uint32_t isend(Pinned buffer, Rank peer, uint32_t tag) {
    const uint32_t slot = take_slot();
    return started(slot, engine->isend(*world, slot, std::move(buffer), peer, tag));
  }
  uint32_t irecv(Pinned buffer, Rank peer, uint32_t tag) {
    const uint32_t slot = take_slot();
    return started(slot, engine->irecv(*world, slot, std::move(buffer), peer, tag));
  }

  uint32_t prepare_messages(const std::shared_ptr<LoadedPlan>& plan, Pinned send, Pinned receive, uint32_t send_tag,
                            uint32_t receive_tag) {
    const uint32_t slot = take_slot();
    engine->prepare_messages(plan, slot, std::move(send), std::move(receive), send_tag, receive_tag);
    return slot;
  }
  // One that was prepared and is not active. It keeps its slot.
  void run_prepared(uint32_t slot) {
    if (engine->restart(slot) == Engine::Restart::pending) CHECK(engine->wait(&slot, 1, true, -1));
    CHECK_EQ(state(slot), 1);
  }

  int32_t state(uint32_t request) const { return request == kNoRequest ? 1 : slots->get(request); }
  Error error(uint32_t request) const { return state(request) > 1 ? static_cast<Error>(state(request)) : Error::none; }
  bool done(uint32_t request) const { return state(request) != 0; }
  bool test(uint32_t request) {
    if (!done(request)) engine->test();
    return done(request);
  }
  // Waits, checks that it succeeded, and gives the slot back.
  void wait(uint32_t request) {
    if (request == kNoRequest) return;
    CHECK(engine->wait(&request, 1, true, -1));
    finish(request);
  }
  void finish(uint32_t request) {
    if (request == kNoRequest) return;
    if (error(request) != Error::none)
      throw Failure{"rank " + std::to_string(rank) + ": error " + std::to_string(state(request)) + " " +
                    engine->failure(request).detail};
    CHECK_EQ(state(request), 1);
    free_slots_.push_back(request);
  }
  // Waits for a request that is to fail; returns how it did.
  Error failure(uint32_t request) {
    CHECK(request != kNoRequest);
    CHECK(engine->wait(&request, 1, true, -1));
    CHECK(error(request) == Error::none || error(request) == Error::closed ||
          engine->failure(request).error == error(request));
    const Error why = error(request);
    free_slots_.push_back(request);
    return why;
  }
  // Bytes of the message that was received, as JavaScript reads them.
  size_t length(uint32_t request) const {
    return static_cast<size_t>(reinterpret_cast<const double*>(slots->exchange() + kExchange)[request]);
  }
  void send(Pinned buffer, Rank peer, uint32_t tag) { wait(isend(std::move(buffer), peer, tag)); }
  void receive(Pinned buffer, Rank peer, uint32_t tag) { wait(irecv(std::move(buffer), peer, tag)); }

  double counter(const std::string& wanted) {
    double found = -1;
    engine->visit_counters([&](Counter counter, double value) {
      if (wanted == name_of(counter)) found = value;
    });
    CHECK(found >= 0);
    return found;
  }

  const Rank rank;
  const Rank size;
  std::shared_ptr<SlotTable> slots;
  std::shared_ptr<Group> world;
  std::atomic<uint32_t> notifications{0};
  std::function<void()> on_notify;  // set before the first request is watched
  std::unique_ptr<Engine> engine;
  std::shared_ptr<ExposedMemory> arena;

 private:
  void told() {
    notifications.fetch_add(1, std::memory_order_acq_rel);
    if (on_notify) on_notify();
  }
  uint32_t take_slot() {
    if (free_slots_.empty()) return next_slot_++;
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  uint32_t started(uint32_t slot, bool complete) {
    if (!complete) return slot;
    free_slots_.push_back(slot);
    return kNoRequest;
  }

  std::vector<uint32_t> free_slots_;
  uint32_t next_slot_ = 0;
};

inline void check_data(const Pinned& block, uint64_t seed) {
  CHECK_EQ(first_difference(block.data, block.bytes, seed), block.bytes);
}

// What a rank says that fails only because another one has.
constexpr const char* kAnotherFailed = "another rank failed";

// Runs the body once per rank, each in a thread. The first failure is the test's; a rank that fails closes its world,
// which ends the others.
inline void run_threads(Rank count, const std::function<void(Rank)>& body) {
  std::mutex mutex;
  std::unique_ptr<Failure> first;
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Failure& failure) {
        const std::lock_guard<std::mutex> guard(mutex);
        if (first == nullptr || first->why == kAnotherFailed) first = std::make_unique<Failure>(failure);
      } catch (const FabricError& error) {
        const std::lock_guard<std::mutex> guard(mutex);
        if (first == nullptr) first = std::make_unique<Failure>(Failure{error.message});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first != nullptr) throw *first;
}

// The same, with a TestRank each. Ranks meet before they close: closing is a test of its own.
class Meeting {
 public:
  explicit Meeting(uint32_t count) : count_(count) {}
  // `meanwhile` is called again and again until all are there.
  void meet(const std::function<void()>& meanwhile = [] {}) {
    const uint32_t round = arrived_.fetch_add(1, std::memory_order_acq_rel) / count_;
    while (arrived_.load(std::memory_order_acquire) / count_ == round && !broken_.load(std::memory_order_acquire)) {
      meanwhile();
      sched_yield();
    }
    if (broken_.load(std::memory_order_acquire)) throw Failure{kAnotherFailed};
  }
  void give_up() { broken_.store(true, std::memory_order_release); }

 private:
  const uint32_t count_;
  std::atomic<uint32_t> arrived_{0};
  std::atomic<bool> broken_{false};
};

using OptionsOf = std::function<RankOptions(Rank)>;
using FabricOf = std::function<std::unique_ptr<Fabric>(Rank)>;
using RankBody = std::function<void(TestRank&, Meeting&)>;

inline void run_ranks_over(Rank count, const OptionsOf& options_of, const FabricOf& make, const RankBody& body) {
  Meeting meeting(count);
  run_threads(count, [&](Rank rank) {
    TestRank me(make(rank), options_of(rank));
    try {
      body(me, meeting);
      meeting.meet();
    } catch (const Failure&) {
      meeting.give_up();
      throw;
    }
  });
}

inline void run_ranks_over(Rank count, const RankOptions& options, const FabricOf& make, const RankBody& body) {
  run_ranks_over(count, OptionsOf([&](Rank) { return options; }), make, body);
}

// Over shared memory.
inline void run_ranks(Rank count, const RankOptions& options, const RankBody& body) {
  const auto segment = make_segment(count);
  const auto make = [&](Rank rank) { return shm_fabric(segment, rank, options); };
  run_ranks_over(count, options, make, body);
}

// Keeps this thread busy without a call into the library.
inline void compute(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// --- schedules -------------------------------------------------------------------------------------------------------

// Everybody sends a block to everybody, in one round.
inline Schedule alltoall(Rank rank, Rank size, uint64_t block) {
  Schedule schedule(block * size, block * size);
  schedule.round().copy(Role::send, rank * block, Role::receive, rank * block, block);
  for (Rank i = 1; i < size; ++i) {
    const Rank from = (rank + size - i) % size;
    const Rank to = (rank + i) % size;
    schedule.receive(from, Role::receive, from * block, block).send(to, Role::send, to * block, block);
  }
  return schedule;
}

// Everybody's block to everybody, passed on around a ring: as many rounds as ranks, through the temporary buffer.
inline Schedule ring_allgather(Rank rank, Rank size, uint64_t block) {
  Schedule schedule(block, block * size, block * size);
  schedule.round().copy(Role::send, 0, Role::temporary, rank * block, block);
  for (Rank i = 0; i + 1 < size; ++i) {
    const Rank mine = (rank + size - i) % size;
    const Rank theirs = (rank + size - i - 1) % size;
    schedule.round()
        .send((rank + 1) % size, Role::temporary, mine * block, block)
        .receive((rank + size - 1) % size, Role::temporary, theirs * block, block);
  }
  schedule.round().copy(Role::temporary, 0, Role::receive, 0, block * size);
  return schedule;
}

// Rank 0's buffer to everybody along a chain, cut into segments: while one is received, the one before is passed on.
inline Schedule chain_broadcast(Rank rank, Rank size, uint64_t bytes, uint64_t segment) {
  Schedule schedule(0, bytes);
  const uint64_t count = segment == 0 ? 0 : (bytes + segment - 1) / segment;
  const auto length = [&](uint64_t i) { return std::min(segment, bytes - i * segment); };
  for (uint64_t i = 0; i < count + 1; ++i) {
    schedule.round();
    if (rank > 0 && i < count) schedule.receive(rank - 1, Role::receive, i * segment, length(i));
    if (rank + 1 < size && i > 0) schedule.send(rank + 1, Role::receive, (i - 1) * segment, length(i - 1));
  }
  return schedule;
}

}  // namespace nbc::check
