// The verbs fabric over a real device: everything here is skipped where there is none. scripts/rdma-guest runs it on a
// kernel with a software device. Ranks are threads, or processes where one of them has to die.
//
//   NBC_TEST_DEVICES=a,b   rank 0 uses device a, rank 1 b, rank 2 a, …; otherwise all use the default
//   NBC_TEST_LINK=command  interrupts the link between two devices: scripts/guest/link
//   NBC_TEST_EVENT=command makes the device report an event (a new address of its interface does)
#include "fabric/verbs/available.h"
#include "test/check.h"
#include "test/fabrics.h"

#if NBC_HAS_VERBS
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <linux/capability.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include "fabric/mixed/mixed_fabric.h"
#include "fabric/cards/host_bootstrap.h"
#include "fabric/cards/socket_bootstrap.h"
#include "fabric/verbs/verbs_fabric.h"
#include "test/conformance.h"
#include "test/mix.h"
#include "test/ranks.h"
#include "test/two_networks.h"
#include "test/tcp_job.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using std::chrono::milliseconds;
using verbs::Eager;
using verbs::VerbsFabric;
using verbs::VerbsOptions;
using Clock = std::chrono::steady_clock;

std::vector<std::string> test_devices() {
  const char* list = std::getenv("NBC_TEST_DEVICES");
  std::vector<std::string> names;
  std::istringstream text(list != nullptr ? list : "");
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  return names;
}

constexpr const char* kRefused = "refused a write into memory that it does not expose";

// A job of its own for each test of the fabric without an engine: two fabrics, driven by hand.
std::unique_ptr<VerbsFabric> make_fabric(const std::shared_ptr<job::Segment>& segment, Rank rank,
                                         VerbsOptions options = {}, uint32_t eager_limit = 255) {
  options.eager_limit = eager_limit;
  if (const std::vector<std::string> names = test_devices(); !names.empty())
    options.device.name = names[rank % names.size()];
  return std::make_unique<VerbsFabric>(std::make_unique<cards::HostBootstrap>(segment, rank, eager_limit), options);
}

void need_device() {
  try {
    const verbs::Device device{verbs::DeviceOptions{}};
  } catch (const FabricError& error) {
    throw Skip{error.message};
  }
}

void interrupt_link(const char* how) {
  CHECK_EQ(std::system((std::getenv("NBC_TEST_LINK") + std::string(" ") + how).c_str()), 0);
}
// Whatever became of the test before.
void need_link() {
  if (std::getenv("NBC_TEST_LINK") == nullptr) throw Skip{"NBC_TEST_LINK interrupts no link"};
  interrupt_link("up");
  interrupt_link("free");
}

void run_verbs(Rank count, const RankOptions& options, const VerbsOptions& verbs,
               const std::function<void(TestRank&, Meeting&)>& body) {
  need_device();
  const auto segment = make_segment(count);
  const auto make = [&](Rank rank) { return make_fabric(segment, rank, verbs, options.eager_limit); };
  run_ranks_over(count, options, make, body);
}

// SENDs find a receive each time: a card that finds none does not try again here, and the connection breaks.
VerbsOptions by(Eager eager) {
  VerbsOptions options;
  options.eager = eager;
  if (eager == Eager::send) options.receiver_retries = 0;
  return options;
}

// With queues that are full all the time.
VerbsOptions narrow(VerbsOptions options) {
  options.send_depth = options.receive_depth = options.share = 16;
  return options;
}

// A test of both ways in which what is committed can travel.
#define TEST_BOTH_WAYS(name)                                  \
  static void both_ways_##name(const VerbsOptions& verbs);    \
  TEST(name) { both_ways_##name(by(Eager::write)); }          \
  TEST(name##_by_send) { both_ways_##name(by(Eager::send)); } \
  static void both_ways_##name(const VerbsOptions& verbs)

// A rank that exchanges its cards over sockets, as on several machines.
std::unique_ptr<VerbsFabric> make_apart(TcpJob& job, Rank rank, VerbsOptions options, uint32_t eager_limit) {
  options.eager_limit = eager_limit;
  TcpOptions tcp;
  tcp.eager_limit = eager_limit;
  return std::make_unique<VerbsFabric>(std::make_unique<cards::SocketBootstrap>(job.description(rank), tcp, "verbs"),
                                       options);
}

// The suite for every fabric (conformance.h), for both ways in which what is committed can travel. Emulated and under
// ASan it takes minutes: so by SENDs and beside TCP each test has one mode, but never the same.
bool conforms(const std::string& name, Eager eager, int turn = -1) {
  const auto job = [eager](Rank size) -> conformance::MakeRank {
    need_device();
    return [segment = make_segment(size), eager](Rank rank, const RankOptions& options) {
      return make_fabric(segment, rank, by(eager), options.eager_limit);
    };
  };
  return conformance::conforms({name, job, {mode(true), mode(false)}, 60, false, turn});
}
bool conforms_apart() {
  const auto job = [](Rank size) -> conformance::MakeRank {
    need_device();
    return [job = std::make_shared<TcpJob>(size)](Rank rank, const RankOptions& options) {
      return make_apart(*job, rank, by(Eager::write), options.eager_limit);
    };
  };
  return conformance::conforms({"verbs_over_sockets", job, {mode(true), mode(false)}, 60, true});
}
// Verbs to half of the others, TCP to the rest.
bool conforms_beside_tcp() {
  struct Shared {
    explicit Shared(Rank size) : cards(size), tcp(size) {}
    TcpJob cards, tcp;
  };
  const auto job = [](Rank size) -> conformance::MakeRank {
    need_device();
    return [shared = std::make_shared<Shared>(size)](Rank rank, const RankOptions& options) {
      return beside_tcp(make_apart(shared->cards, rank, by(Eager::write), options.eager_limit), shared->tcp, rank,
                        options.eager_limit);
    };
  };
  return conformance::conforms({"verbs_beside_tcp", job, {mode(true), mode(false)}, 60, false, 1});
}
const bool registered = conforms("verbs", Eager::write) && conforms("verbs_by_send", Eager::send, 0) &&
                        conforms_apart() && conforms_beside_tcp();

// --- the fabric alone ------------------------------------------------------------------------------------------------

// Fabrics that this thread drives.
struct VerbsFabrics : Fabrics<VerbsFabric> {
  VerbsFabrics(Rank size, const VerbsOptions& options, uint32_t eager_limit)
      : Fabrics(all(size, options, eager_limit)) {}
  static std::vector<std::unique_ptr<VerbsFabric>> all(Rank size, const VerbsOptions& options, uint32_t eager_limit) {
    need_device();
    const auto segment = make_segment(size);
    std::vector<std::unique_ptr<VerbsFabric>> made;
    for (Rank rank = 0; rank < size; ++rank) made.push_back(make_fabric(segment, rank, options, eager_limit));
    return made;
  }
};

struct Pair : VerbsFabrics {
  explicit Pair(const VerbsOptions& options = {}, uint32_t eager_limit = 255) : VerbsFabrics(2, options, eager_limit) {}
};

TEST_BOTH_WAYS(a_commit_arrives_whole_and_announced) {
  Pair pair(verbs, 15'000);
  pair.connect();
  const Mailbox out = pair.fabric[0]->outbox(1);
  for (const size_t bytes : {size_t{4}, size_t{64}, size_t{220}, size_t{4096}, size_t{15'000}}) {
    fill(out.slots, bytes, bytes);
    pair.fabric[0]->commit(1, out.slots, bytes, 7, nullptr);
    pair.seen[1].clear();
    pair.until([&] { return pair.find(1, Completion::Kind::message) != nullptr; });
    CHECK_EQ(pair.find(1, Completion::Kind::message)->immediate, 7u);
    CHECK_EQ(first_difference(pair.fabric[1]->inbox(0).slots, bytes, bytes), bytes);
  }
  CHECK(pair.counter(0, "inlinedWrites") >= 2);
  CHECK_EQ(pair.counter(0, "workRequests"), 5.0);
  CHECK_EQ(pair.counter(0, "sends"), verbs.eager == Eager::send ? 5.0 : 0.0);
}

// What a program needs to start another may share a page with what is registered.
TEST(children_have_what_is_registered) {
  Pair pair;
  pair.connect();
  const auto memory = std::make_unique<std::byte[]>(16'384);
  fill(memory.get(), 16'384, 1);
  ExposedBuffer exposed;
  CHECK(pair.fabric[0]->expose(1, {memory.get() + 6000, 100, nullptr}, exposed));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(first_difference(memory.get(), 16'384, 1) == 16'384 ? 0 : 1);
  CHECK(child > 0);
  int status = -1;
  CHECK_EQ(::waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_BOTH_WAYS(a_put_into_the_wrong_memory_writes_nothing_and_ends_the_connection) {
  Pair pair(verbs);
  pair.connect();
  std::vector<std::byte> from(8192, std::byte{1});
  std::vector<std::byte> to(8192, std::byte{2});
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to.data(), to.size(), nullptr}, exposed));
  ExposedBuffer wrong = exposed;
  wrong.key ^= 0x5a00;
  int cookie = 0;
  pair.fabric[0]->put(1, wrong, {from.data(), from.size(), nullptr}, 5, Error::none, &cookie);
  pair.until([&] { return pair.find(0, Completion::Kind::broken) != nullptr; });
  CHECK_EQ(pair.find(0, Completion::Kind::put_done)->error, Error::unreachable);
  CHECK(pair.find(0, Completion::Kind::put_done)->cookie == &cookie);
  CHECK(!pair.fabric[0]->why(1).empty());
  for (const std::byte b : to) CHECK(b == std::byte{2});
  CHECK(pair.find(1, Completion::Kind::immediate) == nullptr);
  CHECK(pair.fabric[0]->connect(1) == Connect::broken);
  // A later put says so at once.
  pair.seen[0].clear();
  pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, 5, Error::none, &cookie);
  pair.pass(0);
  CHECK_EQ(pair.find(0, Completion::Kind::put_done)->error, Error::unreachable);
}

// The key of its own mailbox is good for that mailbox only.
TEST(a_peer_cannot_write_the_mailbox_of_another_peer) {
  need_device();
  const auto segment = make_segment(3);
  std::vector<std::unique_ptr<VerbsFabric>> made;
  for (Rank rank = 0; rank < 3; ++rank) made.push_back(make_fabric(segment, rank));
  Fabrics<VerbsFabric> job(std::move(made));
  job.connect();
  cards::HostBootstrap others(segment, 1, 255, cards::HostBootstrap::Line::of_others);
  std::string_view bytes;
  CHECK(others.look(0, bytes) == cards::CardState::ready);
  verbs::Card card;
  CHECK(verbs::read_card(bytes, card));
  const Mailbox other = job.fabric[0]->inbox(2);
  fill(other.slots, 64, 9);
  std::vector<std::byte> from(64, std::byte{1});
  const ExposedBuffer wrong{reinterpret_cast<uintptr_t>(other.slots), card.inbox_key, nullptr};
  int cookie = 0;
  job.fabric[1]->put(0, wrong, {from.data(), from.size(), nullptr}, 5, Error::none, &cookie);
  job.until([&] { return job.find(1, Completion::Kind::put_done) != nullptr; });
  CHECK_EQ(first_difference(other.slots, 64, 9), 64u);
  CHECK_EQ(job.find(1, Completion::Kind::put_done)->error, Error::unreachable);
}

TEST(a_key_is_dead_once_its_memory_is_concealed_and_gone) {
  Pair pair;
  pair.connect();
  std::vector<std::byte> from(8192, std::byte{1});
  ExposedBuffer exposed;
  std::byte* address;
  {
    auto keeper = std::make_shared<std::vector<std::byte>>(8192, std::byte{2});
    address = keeper->data();
    const Pinned home{address, 8192, keeper};
    CHECK(pair.fabric[1]->expose(0, {address, 8192, &home}, exposed));
    pair.fabric[1]->conceal(0, exposed);
  }
  // A miss drops what nobody keeps.
  auto other = std::make_shared<std::vector<std::byte>>(4096);
  const Pinned home{other->data(), 4096, other};
  ExposedBuffer another;
  CHECK(pair.fabric[1]->expose(0, {other->data(), 4096, &home}, another));
  CHECK_EQ(pair.counter(1, "cacheExpired"), 1.0);
  pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, 5, Error::none, nullptr);
  pair.until([&] { return pair.find(0, Completion::Kind::broken) != nullptr; });
}

// The memory is still there and the buffer still lives: only its registration had to make room.
TEST(a_key_is_dead_once_its_registration_was_evicted) {
  VerbsOptions options;
  options.cache_entries = 1;
  Pair pair(options);
  pair.connect();
  const auto make = [](std::byte value) { return std::make_shared<std::vector<std::byte>>(8192, value); };
  const auto from = make(std::byte{1});
  const auto to = make(std::byte{2});
  const auto other = make(std::byte{3});
  const auto expose = [&](const std::shared_ptr<std::vector<std::byte>>& keeper) {
    const Pinned home{keeper->data(), keeper->size(), keeper};
    ExposedBuffer exposed;
    CHECK(pair.fabric[1]->expose(0, {keeper->data(), keeper->size(), &home}, exposed));
    return exposed;
  };
  const ExposedBuffer exposed = expose(to);
  const auto put = [&](uint32_t immediate) {
    pair.fabric[0]->put(1, exposed, {from->data(), from->size(), nullptr}, immediate, Error::none, from.get());
  };
  put(5);
  pair.until([&] { return pair.find(1, Completion::Kind::immediate) != nullptr; });
  for (const std::byte b : *to) CHECK(b == std::byte{1});
  pair.until([&] { return pair.find(0, Completion::Kind::put_done) != nullptr; });
  pair.fabric[1]->conceal(0, exposed);
  pair.fabric[1]->conceal(0, expose(other));
  CHECK_EQ(pair.counter(1, "cacheEvictions"), 1.0);
  std::fill(to->begin(), to->end(), std::byte{2});
  for (std::vector<Completion>& seen : pair.seen) seen.clear();

  put(6);
  pair.until([&] { return pair.find(0, Completion::Kind::broken) && pair.find(1, Completion::Kind::broken); });
  CHECK_EQ(pair.find(0, Completion::Kind::put_done)->error, Error::unreachable);
  CHECK(pair.fabric[0]->why(1).find(kRefused) != std::string::npos);
  CHECK(pair.find(1, Completion::Kind::immediate) == nullptr);
  for (const std::byte b : *to) CHECK(b == std::byte{2});
}

// A driver that takes its time to register memory, if another thread than the test's asks.
struct SlowDriver {
  static inline std::mutex mutex;
  static inline std::condition_variable changed;
  static inline bool busy;
  static inline std::thread::id test;
  static inline decltype(verbs::Library::reg_mr_iova2) real;

  SlowDriver() {
    auto& lib = const_cast<verbs::Library&>(verbs::library());
    if (lib.reg_mr_iova2 == nullptr) throw Skip{"this libibverbs has no ibv_reg_mr_iova2()"};
    busy = true;
    test = std::this_thread::get_id();
    real = std::exchange(lib.reg_mr_iova2,
                         [](ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) -> ibv_mr* {
                           std::unique_lock lock(mutex);
                           if (std::this_thread::get_id() != test) changed.wait(lock, [] { return !busy; });
                           return real(pd, address, bytes, iova, access);
                         });
  }
  ~SlowDriver() {
    finish();
    const_cast<verbs::Library&>(verbs::library()).reg_mr_iova2 = real;
  }
  void finish() {
    const std::lock_guard lock(mutex);
    busy = false;
    changed.notify_all();
  }
};

// From rank 0 to rank 1, while the driver is busy.
struct LargePut {
  static constexpr size_t kBytes = 3 << 20;
  explicit LargePut(const VerbsOptions& verbs) : pair(verbs) {
    pair.connect();
    fill(from->data(), kBytes, 1);
    CHECK(pair.fabric[1]->expose(0, {to.data(), kBytes, nullptr}, exposed));
    const Pinned home{from->data(), kBytes, from};  // goes at once
    pair.fabric[0]->put(1, exposed, {from->data(), kBytes, &home}, 5, Error::none, this);
  }
  void check() {
    pair.until([&] {
      return pair.find(0, Completion::Kind::put_done) != nullptr &&
             pair.find(1, Completion::Kind::immediate) != nullptr;
    });
    CHECK_EQ(pair.find(0, Completion::Kind::put_done)->error, Error::none);
    CHECK_EQ(pair.find(1, Completion::Kind::immediate)->bytes, kBytes);
    CHECK_EQ(first_difference(to.data(), kBytes, 1), kBytes);
    CHECK_EQ(pair.counter(0, "cacheBeside"), 1.0);
  }

  Pair pair;
  SlowDriver driver;
  std::shared_ptr<std::vector<std::byte>> from = std::make_shared<std::vector<std::byte>>(kBytes);
  std::vector<std::byte> to = std::vector<std::byte>(kBytes);
  ExposedBuffer exposed;
};

TEST_BOTH_WAYS(what_is_behind_a_large_put_does_not_wait_for_its_registration) {
  LargePut put(verbs);
  Pair& pair = put.pair;
  const Mailbox out = pair.fabric[0]->outbox(1);
  fill(out.slots, 64, 3);
  pair.fabric[0]->commit(1, out.slots, 64, 7, nullptr);
  pair.until([&] { return pair.find(1, Completion::Kind::message) != nullptr; });
  CHECK(pair.find(0, Completion::Kind::put_done) == nullptr && pair.find(1, Completion::Kind::immediate) == nullptr);
  put.driver.finish();
  put.check();
}

TEST(a_put_whose_buffer_is_being_registered_fails_with_its_peer) {
  LargePut put({});
  put.pair.fabric[0]->abandon(1);
  put.pair.until([&] { return put.pair.find(0, Completion::Kind::put_done) != nullptr; });
  CHECK_EQ(put.pair.find(0, Completion::Kind::put_done)->error, Error::peer_closed);
  put.driver.finish();
  for (const std::byte b : put.to) CHECK(b == std::byte{0});
}

TEST_BOTH_WAYS(puts_that_fail_tell_the_receiver_how_much_there_was) {
  Pair pair(narrow(verbs));
  pair.connect();
  std::byte byte{};
  for (uint32_t i = 0; i < 100; ++i) {
    pair.seen[1].clear();
    pair.fabric[0]->put(1, {}, {&byte, 1000 + i, nullptr}, i, Error::truncated, &byte);
    pair.until([&] { return pair.find(1, Completion::Kind::immediate) != nullptr; });
    const Completion& got = *pair.find(1, Completion::Kind::immediate);
    CHECK_EQ(got.error, Error::truncated);
    CHECK_EQ(got.immediate, i);
    CHECK_EQ(got.bytes, 1000u + i);
  }
}

// Far more than fits: nothing may be lost, overtaken, or fill a queue.
TEST_BOTH_WAYS(queues_never_overflow) {
  Pair pair(narrow(verbs));
  pair.connect();
  constexpr uint32_t kMany = 5000;
  auto from = std::make_shared<std::vector<std::byte>>(512, std::byte{3});
  auto to = std::make_shared<std::vector<std::byte>>(512);
  const Pinned from_home{from->data(), 512, from};
  const Pinned to_home{to->data(), 512, to};
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to->data(), 512, &to_home}, exposed));
  const Mailbox out = pair.fabric[0]->outbox(1);
  uint32_t next = 0;
  size_t checked = 0;
  for (uint32_t i = 0; i < kMany; ++i) {
    if (i % 3 == 0) {
      pair.fabric[0]->put(1, exposed, {from->data(), 512, &from_home}, i, Error::none, nullptr);
    } else {
      pair.fabric[0]->commit(1, out.slots, 40, i, nullptr);
    }
    if (i % 100 == 99) pair.pass(0);
  }
  pair.until([&] {
    for (; checked < pair.seen[1].size(); ++checked) CHECK_EQ(pair.seen[1][checked].immediate, next++);
    return next == kMany;
  });
  CHECK_EQ(pair.counter(0, "workRequests") - pair.counter(0, "creditMessages"), static_cast<double>(kMany));
  CHECK(pair.counter(0, "chains") < kMany / 2);
  CHECK(pair.counter(1, "receivesRefilled") >= kMany);
  CHECK_EQ(pair.counter(0, "cacheMisses"), 1.0);
}

TEST(counters_tell_what_was_posted) {
  VerbsOptions options;
  options.send_depth = 128;
  options.receive_depth = 256;
  Pair pair(options);
  pair.connect();
  double before[2] = {};
  const auto gained = [&](Rank rank, const char* name) { return pair.counter(rank, name) - before[rank]; };
  const auto note = [&](const char* name) {
    for (const Rank rank : {0u, 1u}) before[rank] = pair.counter(rank, name);
  };
  // Each of them alone, so that nothing else counts in between.
  const auto all_of = [&](const char* name, const std::function<void()>& act) {
    note(name);
    act();
    return gained(0, name);
  };
  const Mailbox out = pair.fabric[0]->outbox(1);
  uint32_t expected = 0;
  const auto commits = [&](uint32_t count, size_t bytes, bool each_alone) {
    return [&, count, bytes, each_alone] {
      pair.seen[1].clear();
      for (uint32_t i = 0; i < count; ++i) {
        pair.fabric[0]->commit(1, out.slots, bytes, 1, nullptr);
        if (each_alone) pair.fabric[0]->flush();
      }
      expected += count;
      pair.until([&] { return pair.seen[1].size() == count; });
    };
  };
  CHECK_EQ(all_of("workRequests", commits(64, 64, false)), 64.0);
  // As many as are built at a time go in one call; one after the other, each has its own.
  CHECK_EQ(all_of("chains", commits(64, 64, false)), 2.0);
  CHECK_EQ(all_of("chains", commits(64, 64, true)), 64.0);
  CHECK_EQ(all_of("inlinedWrites", commits(64, 64, false)), 64.0);
  CHECK_EQ(all_of("inlinedWrites", commits(64, 4096, false)), 0.0);
  // One in depth / 4, however they are posted.
  CHECK_EQ(all_of("signalledWrites", commits(64, 64, false)), 2.0);
  CHECK_EQ(all_of("signalledWrites", commits(96, 4096, true)), 3.0);
  // A put is awaited, so every one is signalled; and large.
  std::vector<std::byte> from(4096);
  std::vector<std::byte> to(4096);
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to.data(), to.size(), nullptr}, exposed));
  const auto puts = [&] {
    pair.seen[0].clear();
    for (uint32_t i = 0; i < 10; ++i)
      pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, i, Error::none, &from);
    expected += 10;
    pair.until([&] { return pair.seen[0].size() == 10; });
  };
  CHECK_EQ(all_of("signalledWrites", puts), 10.0);
  CHECK_EQ(all_of("inlinedWrites", puts), 0.0);
  // Every receive that was used is replaced, an eighth of the queue at a time.
  pair.until([&] { return pair.find(1, Completion::Kind::immediate) != nullptr; });
  const double replaced = pair.counter(1, "receivesRefilled") - options.receive_depth;
  CHECK(replaced <= expected);
  CHECK(replaced > expected - options.receive_depth / 8);
}

TEST(only_a_sleeper_is_interrupted_and_only_by_what_peers_send) {
  Pair pair;
  pair.connect();
  const Mailbox out = pair.fabric[0]->outbox(1);
  const auto send = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) pair.fabric[0]->commit(1, out.slots, 64, 1, nullptr);
    pair.fabric[0]->flush();
  };
  const auto receive = [&](uint32_t count) {
    pair.seen[1].clear();
    pair.until([&] { return pair.seen[1].size() == count; });
  };
  send(1);
  receive(1);
  // A busy one pays nothing, whatever comes.
  const double before = pair.counter(1, "events");
  for (int i = 0; i < 10; ++i) {
    send(50);
    receive(50);
  }
  CHECK_EQ(pair.counter(1, "events"), before);
  // A sleeper is woken once, by the first of many.
  for (double round = 1; round <= 5; ++round) {
    pair.fabric[1]->arm(Sleeper::caller, 1);
    send(20);
    pair.fabric[1]->sleep(Sleeper::caller, 0, -1);
    CHECK(!pair.fabric[1]->is_armed());
    receive(20);
    CHECK_EQ(pair.counter(1, "events"), before + round);
  }
  // The end of its own writes is no news to a rank that does not wait for them, not even of those that ask for a
  // completion.
  const double signalled = pair.counter(0, "signalledWrites");
  const double own = pair.counter(0, "events");
  pair.fabric[0]->arm(Sleeper::caller, 1);
  send(100);
  CHECK(pair.counter(0, "signalledWrites") > signalled);
  pair.fabric[0]->sleep(Sleeper::caller, 0, 300'000'000);
  CHECK_EQ(pair.counter(0, "events"), own);
  CHECK(pair.fabric[0]->is_armed());
  receive(100);
}

TEST(the_cache_is_bounded_and_knows_buffers_by_their_keeper) {
  VerbsOptions options;
  options.cache_entries = 4;
  Pair pair(options);
  VerbsFabric& fabric = *pair.fabric[0];
  std::vector<std::shared_ptr<std::vector<std::byte>>> keepers;
  const auto touch = [&](const std::shared_ptr<std::vector<std::byte>>& keeper) {
    const Pinned home{keeper->data(), keeper->size(), keeper};
    ExposedBuffer exposed;
    CHECK(fabric.expose(1, {keeper->data() + 100, 50, &home}, exposed));
    fabric.conceal(1, exposed);
    return exposed.key;
  };
  for (int i = 0; i < 6; ++i) keepers.push_back(std::make_shared<std::vector<std::byte>>(4096));
  const uint32_t key = touch(keepers[0]);
  CHECK_EQ(touch(keepers[0]), key);
  CHECK_EQ(pair.counter(0, "cacheHits"), 1.0);
  for (int i = 1; i < 4; ++i) touch(keepers[i]);
  CHECK_EQ(touch(keepers[0]), key);  // used last
  touch(keepers[4]);
  touch(keepers[5]);
  CHECK_EQ(pair.counter(0, "cacheEvictions"), 2.0);
  CHECK_EQ(touch(keepers[0]), key);
  // Two buffers at one address, one after the other: the second has a keeper of its own and gets a key of its own.
  alignas(4096) static std::byte page[4096];
  uint32_t keys[2];
  for (uint32_t& each : keys) {
    const Pinned home{page, sizeof page, std::shared_ptr<void>(page, [](void*) {})};
    ExposedBuffer exposed;
    CHECK(fabric.expose(1, {page, sizeof page, &home}, exposed));
    each = exposed.key;
    fabric.conceal(1, exposed);
  }
  CHECK(keys[0] != keys[1]);
  CHECK(pair.counter(0, "cacheExpired") >= 1);
  CHECK_EQ(pair.counter(0, "cacheStale"), 1.0);
}

TEST(exposed_memory_is_registered_once_and_zeroed) {
  Pair pair;
  VerbsFabric& fabric = *pair.fabric[0];
  const auto memory = fabric.memory();
  ExposedBuffer first;
  ExposedBuffer second;
  auto* a = static_cast<std::byte*>(memory->allocate(10'000));
  auto* b = static_cast<std::byte*>(memory->allocate(1));
  CHECK(fabric.expose(1, {a, 10'000, nullptr}, first));
  CHECK(fabric.expose(1, {b, 1, nullptr}, second));
  CHECK_EQ(first.key, second.key);
  CHECK_EQ(pair.counter(0, "cacheMisses"), 0.0);
  std::memset(a, 7, 10'000);
  memory->release(a);
  auto* again = static_cast<std::byte*>(memory->allocate(10'000));
  CHECK(again == a);
  for (size_t i = 0; i < 10'000; ++i) CHECK(again[i] == std::byte{0});
  auto* large = static_cast<std::byte*>(memory->allocate(size_t{20} << 20));
  CHECK(large != nullptr);
  for (void* block : {again, b, large}) memory->release(block);
  CHECK_EQ(memory->used(), 0u);
}

// --- SENDs -----------------------------------------------------------------------------------------------------------

// Both post far more than they have credits for, before either looks: messages and puts in turns, which must not
// overtake each other.
TEST(credits_run_out_in_both_directions) {
  Pair pair(narrow(by(Eager::send)));
  pair.connect();
  constexpr uint32_t kMany = 1000;
  Pinned memory[2];
  ExposedBuffer exposed[2];
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto bytes = std::make_shared<std::vector<std::byte>>(64);
    memory[rank] = {bytes->data(), 64, bytes};
    CHECK(pair.fabric[rank]->expose(1 - rank, {memory[rank].data, 64, &memory[rank]}, exposed[rank]));
  }
  for (Rank rank = 0; rank < 2; ++rank) {
    VerbsFabric& fabric = *pair.fabric[rank];
    const Rank peer = 1 - rank;
    for (uint32_t i = 0; i < kMany; ++i) {
      // Rank 0: every other one a put. Rank 1: only puts, which carry no credits.
      if (rank == 1 || i % 2 == 0) {
        fabric.put(peer, exposed[peer], {memory[rank].data, 64, &memory[rank]}, i, Error::none, nullptr);
      } else {
        fabric.commit(peer, fabric.outbox(peer).slots, 40, i, nullptr);
      }
    }
    fabric.flush();
    CHECK_EQ(pair.counter(rank, "workRequests"), 15.0);  // one credit of 16 is reserved
    CHECK_EQ(pair.counter(rank, "creditWaits"), 1.0);
    CHECK(fabric.holds_back());
  }
  uint32_t next[2] = {0, 0};
  size_t checked[2] = {0, 0};
  pair.until([&] {
    for (Rank rank = 0; rank < 2; ++rank) {
      for (; checked[rank] < pair.seen[rank].size(); ++checked[rank]) {
        const Completion& completion = pair.seen[rank][checked[rank]];
        CHECK(completion.kind != Completion::Kind::broken);
        if (completion.kind != Completion::Kind::put_done) CHECK_EQ(completion.immediate, next[rank]++);
      }
    }
    return next[0] == kMany && next[1] == kMany;
  });
  CHECK(pair.counter(1, "creditMessages") >= kMany / 16);
  CHECK(pair.counter(1, "creditsReturned") >= kMany - 16);
  CHECK_EQ(pair.counter(1, "sends"), pair.counter(1, "creditMessages"));
  for (Rank rank = 0; rank < 2; ++rank) CHECK(!pair.fabric[rank]->holds_back());
}

// What comes in a SEND says where in the mailbox it belongs; a rank that lies writes nowhere.
TEST(a_message_for_outside_the_mailbox_writes_nothing_and_ends_the_connection) {
  // In the writer's terms, from the beginning of its outbox, in front of which lies its inbox: across the end, before
  // the beginning, and so that offset and length together wrap around.
  struct {
    ptrdiff_t at;
    size_t bytes;
  } const wrong[] = {{verbs::kBoxBytes - 32, 64}, {-64, 64}, {-16, 32}};
  for (const auto& [at, bytes] : wrong) {
    Pair pair(by(Eager::send));
    pair.connect();
    std::byte* const victim = pair.fabric[1]->inbox(0).control;
    fill(victim, 2 * verbs::kBoxBytes, 9);
    pair.fabric[0]->commit(1, pair.fabric[0]->outbox(1).control + at, bytes, 7, nullptr);
    pair.until([&] { return pair.find(1, Completion::Kind::broken) != nullptr; });
    CHECK_EQ(pair.find(1, Completion::Kind::broken)->error, Error::unreachable);
    CHECK(pair.find(1, Completion::Kind::message) == nullptr);
    CHECK(pair.fabric[1]->why(0).find("does not fit") != std::string::npos);
    CHECK_EQ(first_difference(victim, 2 * verbs::kBoxBytes, 9), 2 * verbs::kBoxBytes);
  }
}

TEST(a_message_longer_than_a_receive_ends_the_connection) {
  Pair pair(by(Eager::send), 255);
  pair.connect();
  std::byte* const victim = pair.fabric[1]->inbox(0).control;
  fill(victim, verbs::kBoxBytes, 9);
  pair.fabric[0]->commit(1, pair.fabric[0]->outbox(1).control, 4096, 7, nullptr);
  pair.until([&] { return pair.find(1, Completion::Kind::broken) != nullptr; });
  CHECK(pair.find(1, Completion::Kind::message) == nullptr);
  CHECK_EQ(first_difference(victim, verbs::kBoxBytes, 9), verbs::kBoxBytes);
}

// What a connection that is gone has left in the shared queue goes back to it.
TEST(receives_come_back_from_connections_that_broke) {
  VerbsFabrics three(3, narrow(by(Eager::send)), 255);
  three.connect();
  const auto refilled = [&] { return three.counter(2, "receivesRefilled"); };
  const double before = refilled();
  CHECK_EQ(before, 32.0 + 2 * 16);
  const auto send = [&](Rank from, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      three.fabric[from]->commit(2, three.fabric[from]->outbox(2).slots, 40, i, nullptr);
    three.fabric[from]->flush();
  };
  // Rank 0's connection ends before what came through it is looked at.
  send(0, 15);
  three.fabric[2]->abandon(0);
  send(1, 17);
  three.until([&] { return three.seen[2].size() >= 1 + 17; });
  for (const Completion& completion : three.seen[2])
    CHECK(completion.kind == (completion.peer == 0 ? Completion::Kind::broken : Completion::Kind::message));
  three.until([&] { return refilled() == before + 32; });
}

TEST(ranks_with_other_ways_to_send_refuse_each_other) {
  need_device();
  const auto segment = make_segment(2);
  run_threads(2, [&](Rank rank) {
    TestRank me(make_fabric(segment, rank, by(rank == 0 ? Eager::write : Eager::send)), mode(true));
    CHECK_EQ(me.failure(me.irecv(me.plain(8), 1 - rank, 1)), Error::mismatch);
    const std::string why = me.engine->fabric().why(1 - rank);
    for (const char* part : {"verbs.eager", "'write'", "'send'"}) CHECK(why.find(part) != std::string::npos);
  });
}

// Five ranks send to one as fast as they can, small and large, and it answers each message: one queue of receives for
// all.
TEST(many_peers_share_one_queue) {
  run_verbs(6, mode(true), narrow(by(Eager::send)), [](TestRank& me, Meeting& meeting) {
    constexpr uint32_t kMany = 60;
    const auto bytes = [](uint32_t i) { return i % 10 == 0 ? size_t{3000} : size_t{200}; };
    const auto seed = [](Rank from, Rank to, uint32_t i) { return uint64_t{from} << 40 | uint64_t{to} << 32 | i; };
    std::vector<Rank> peers{0};
    if (me.rank == 0) peers = {1, 2, 3, 4, 5};
    std::vector<Pinned> in;
    std::vector<uint32_t> requests;
    meeting.meet();
    for (uint32_t i = 0; i < kMany; ++i) {
      for (const Rank peer : peers) {
        in.push_back(me.plain(bytes(i)));
        requests.push_back(me.irecv(in.back(), peer, 1));
        const Pinned out = me.plain(bytes(i));
        fill(out.data, out.bytes, seed(me.rank, peer, i));
        requests.push_back(me.isend(out, peer, 1));
      }
    }
    for (const uint32_t request : requests) me.wait(request);
    for (uint32_t i = 0; i < kMany; ++i) {
      for (size_t p = 0; p < peers.size(); ++p) check_data(in[i * peers.size() + p], seed(peers[p], me.rank, i));
    }
    if (me.rank == 0) CHECK(me.counter("receivesRefilled") >= 5 * kMany);
    CHECK(me.counter("creditsReturned") > 0);
  });
}

// The completion queue of a rank is enlarged while completions of other connections wait in it: all of them stay.
TEST_BOTH_WAYS(the_completion_queue_grows_with_the_connections) {
  constexpr Rank kRanks = 6;
  constexpr uint32_t kMany = 15;
  VerbsFabrics job(kRanks, narrow(verbs), 255);
  const auto room = [&] { return job.fabric[0]->completions(); };
  const uint32_t at_first = room();
  CHECK(at_first < (kRanks - 1) * 32);  // what all connections need
  job.until([&] {
    const bool here = job.fabric[0]->connect(1) == Connect::ready;
    return job.fabric[1]->connect(0) == Connect::ready && here;
  });
  CHECK(room() < (kRanks - 1) * 32);
  for (uint32_t i = 0; i < kMany; ++i) job.fabric[1]->commit(0, job.fabric[1]->outbox(0).slots, 40, i, nullptr);
  job.fabric[1]->flush();
  job.connect();
  CHECK(room() >= (kRanks - 1) * 32);
  const auto of_rank_1 = [&] {
    return std::count_if(job.seen[0].begin(), job.seen[0].end(), [](const Completion& each) {
      return each.kind == Completion::Kind::message && each.peer == 1;
    });
  };
  job.until([&] { return of_rank_1() == kMany; });
}

// A rank that has sent more than it had credits for, and closes: all of it arrives, and then its end.
TEST(a_rank_without_credits_closes) {
  run_verbs(2, mode(true), narrow(by(Eager::send)), [](TestRank& me, Meeting& meeting) {
    constexpr uint32_t kMany = 100;
    if (me.rank == 0) {
      me.wait(me.isend(me.filled(8, false, 1), 1, 0));
      me.receive(me.plain(8), 1, 0);
      for (uint32_t i = 0; i < kMany; ++i) me.wait(me.isend(me.filled(200, false, i), 1, 1));
      CHECK(me.counter("creditWaits") > 0);
      meeting.meet();
      me.close();
      return;
    }
    me.receive(me.plain(8), 0, 0);
    me.wait(me.isend(me.filled(8, false, 1), 0, 0));
    meeting.meet();
    for (uint32_t i = 0; i < kMany; ++i) {
      const Pinned in = me.plain(200);
      me.receive(in, 0, 1);
      check_data(in, i);
    }
    CHECK_EQ(me.failure(me.irecv(me.plain(8), 0, 2)), Error::peer_closed);
  });
}

// --- messages --------------------------------------------------------------------------------------------------------

TEST(messages_longer_than_the_longest_of_the_port) {
  run_verbs(2, mode(true), {}, [](TestRank& me, Meeting&) {
    constexpr size_t kBytes = (size_t{20} << 20) + 5;
    const Rank other = 1 - me.rank;
    // The receive may have room for more.
    for (const size_t room : {size_t{0}, size_t{9} << 20}) {
      const Pinned in = me.filled(kBytes + room, false, 99);
      const uint32_t receive = me.irecv(in, other, 1);
      me.wait(me.isend(me.filled(kBytes, false, me.rank), other, 1));
      me.wait(receive);
      CHECK_EQ(me.length(receive), kBytes);
      CHECK_EQ(first_difference(in.data, kBytes, other), kBytes);
      const Pinned before = me.filled(in.bytes, false, 99);
      CHECK_EQ(std::memcmp(in.data + kBytes, before.data + kBytes, room), 0);
    }
    // Both sides learn that it has room for less, and nothing is written.
    const Pinned in = me.filled(kBytes - 1, false, 99);
    const uint32_t receive = me.irecv(in, other, 1);
    CHECK_EQ(me.failure(me.isend(me.filled(kBytes, false, me.rank), other, 1)), Error::truncated);
    CHECK_EQ(me.failure(receive), Error::truncated);
    check_data(in, 99);
  });
}

// What was sent has to leave even if the send queue was full, or the credits were spent, and nobody calls any more: the
// receives of a rank that does not look run out, so that the sender's queue fills; then the sender turns away, with
// everything complete as far as it knows.
TEST_BOTH_WAYS(what_was_sent_leaves_without_another_call) {
  run_verbs(2, mode(true), narrow(verbs), [](TestRank& me, Meeting& meeting) {
    constexpr uint32_t kMany = 100;
    const Rank other = 1 - me.rank;
    me.wait(me.isend(me.filled(8, false, 1), other, 0));
    me.receive(me.plain(8), other, 0);
    meeting.meet();
    if (me.rank == 0) {
      for (uint32_t i = 0; i < kMany; ++i) me.wait(me.isend(me.filled(200, false, i), 1, 1));
    }
    meeting.meet();
    if (me.rank == 1) {
      for (uint32_t i = 0; i < kMany; ++i) {
        const Pinned in = me.plain(200);
        me.receive(in, 0, 1);
        check_data(in, i);
      }
    }
  });
}

// --- beside shared memory --------------------------------------------------------------------------------------------

// A rank of one of two hosts, two ranks on each.
std::unique_ptr<mixed::MixedFabric> make_mixed(const std::shared_ptr<job::Segment>& segment, Rank rank) {
  constexpr uint32_t kEagerLimit = 255;
  const shm::ShmOptions options{rank, kEagerLimit, true, true, rank < 2 ? "a" : "b"};
  auto near = std::make_unique<shm::ShmFabric>(segment, options, shm::ShmFabric::Opening::later);
  VerbsOptions verbs;
  verbs.eager_limit = kEagerLimit;
  auto bootstrap =
      std::make_unique<cards::HostBootstrap>(segment, rank, kEagerLimit, cards::HostBootstrap::Line::of_others);
  auto far = std::make_unique<VerbsFabric>(std::move(bootstrap), verbs, near->memory());
  return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far));
}

TEST(random_mixes_beside_shared_memory) {
  need_device();
  for (const bool progress_thread : {true, false}) {
    const auto segment = make_segment(4);
    const auto make = [&](Rank rank) { return make_mixed(segment, rank); };
    run_ranks_over(4, mode(progress_thread), make, [](TestRank& me, Meeting& meeting) {
      random_mix(me, 12, 60);
      meeting.meet();
      CHECK(me.counter("mappedBytes") > 0);
      CHECK(me.counter("workRequests") > 60);
    });
  }
}

TEST(ranks_with_different_transports_refuse_each_other) {
  need_device();
  const auto segment = make_segment(2);
  const auto verbs = make_fabric(segment, 0);
  CHECK(verbs->connect(1) == Connect::later);
  shm::ShmFabric shm(segment, {1, 255, true});
  CHECK(verbs->connect(1) == Connect::refused);
  CHECK(shm.connect(0) == Connect::refused);
  for (const std::string& why : {verbs->why(1), shm.why(0)})
    CHECK(why.find("different transports") != std::string::npos);
}

TEST(exposed_memory_is_in_the_arena_and_registered) {
  need_device();
  const auto segment = make_segment(3);
  const auto me = make_mixed(segment, 0);
  const auto mate = make_mixed(segment, 1);
  const auto other = make_mixed(segment, 2);
  const auto end = Clock::now() + milliseconds(20'000);
  CHECK(me->connect(1) == Connect::ready);
  Completion completions[16];
  while (me->connect(2) != Connect::ready) {
    me->poll(completions, 16, Effort::pass);
    other->poll(completions, 16, Effort::pass);
    CHECK(Clock::now() < end);
  }
  const auto counter = [&](const std::string& wanted) {
    double found = -1;
    me->visit_counters([&](Counter counter, double value) {
      if (wanted == name_of(counter)) found = value;
    });
    return found;
  };
  // More than one chunk, and one that is too large for any.
  std::vector<void*> blocks;
  for (const size_t bytes : {size_t{100}, size_t{3} << 20, size_t{3} << 20, size_t{9} << 20}) {
    auto* block = static_cast<std::byte*>(me->memory()->allocate(bytes));
    CHECK(block != nullptr);
    for (const Rank peer : {1u, 2u}) {
      ExposedBuffer exposed;
      CHECK(me->expose(peer, {block, bytes, nullptr}, exposed));
      CHECK(exposed.holder == nullptr);
      if (peer == 1) {
        CHECK_EQ(exposed.key, 1u);  // an offset in the arena
      } else {
        CHECK_EQ(exposed.address, reinterpret_cast<uintptr_t>(block));
      }
      me->conceal(peer, exposed);
    }
    block[bytes - 1] = std::byte{1};
    blocks.push_back(block);
  }
  CHECK_EQ(counter("cacheMisses"), 0.0);
  for (void* block : blocks) me->memory()->release(block);
  CHECK_EQ(me->memory()->used(), 0u);
  // What comes again is zero again, whether its chunk was kept or went back to the arena.
  for (int i = 0; i < 2; ++i) {
    auto* block = static_cast<std::byte*>(me->memory()->allocate(size_t{9} << 20));
    for (size_t at = 0; at < size_t{9} << 20; ++at) CHECK(block[at] == std::byte{0});
    block[5] = std::byte{1};
    me->memory()->release(block);
  }
}

TEST_BOTH_WAYS(schedules_of_several_rounds) {
  run_verbs(4, mode(true), verbs, [](TestRank& me, Meeting&) {
    for (const uint64_t block : {uint64_t{8}, uint64_t{3000}, uint64_t{100'000}}) {
      const auto plan = me.load(ring_allgather(me.rank, me.size, block));
      const Pinned in = me.plain(block * me.size);
      me.wait(me.start(plan, me.filled(block, false, me.rank + 1), in));
      for (Rank rank = 0; rank < me.size; ++rank)
        CHECK_EQ(first_difference(in.data + rank * block, block, rank + 1), block);
    }
  });
}

// A buffer that is freed, and another at the same address: what arrives must be in the second.
TEST(buffers_freed_and_made_again_at_one_address) {
  run_verbs(2, mode(true), {}, [](TestRank& me, Meeting&) {
    static constexpr size_t kBytes = 1 << 20;
    const Rank other = 1 - me.rank;
    void* const address = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(address != MAP_FAILED);
    const auto make = [&] {
      CHECK(mmap(address, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == address);
      return Pinned{static_cast<std::byte*>(address), kBytes, std::shared_ptr<void>(address, [](void* at) {
                      // The pages go; the registration, if it were served again, would still write to them.
                      mmap(at, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
                    })};
    };
    for (uint64_t i = 0; i < 10; ++i) {
      Pinned in = make();
      const uint32_t receive = me.irecv(in, other, 1);
      me.wait(me.isend(me.filled(kBytes, false, i * 10 + me.rank), other, 1));
      me.wait(receive);
      check_data(in, i * 10 + other);
    }
    CHECK(me.counter("cacheExpired") >= 9);
    CHECK(me.counter("cacheStale") >= 1);  // but for those that a probe has dropped meanwhile
  });
}

// --- sleeping --------------------------------------------------------------------------------------------------------

TEST_BOTH_WAYS(a_sleeper_is_woken_by_what_it_waits_for) {
  for (const size_t bytes : {size_t{8}, size_t{100'000}}) {
    run_verbs(2, mode(true), verbs, [&](TestRank& me, Meeting&) {
      for (uint64_t i = 0; i < 5; ++i) {
        const Pinned in = me.plain(bytes);
        if (me.rank == 0) {
          std::this_thread::sleep_for(milliseconds(100));
          me.wait(me.isend(me.filled(bytes, false, i), 1, 1));
          me.receive(in, 1, 2);
        } else {
          me.wait(me.irecv(in, 0, 1));
          check_data(in, i);
          me.wait(me.isend(me.filled(bytes, false, i), 0, 2));
        }
      }
      // On a busy machine a rank may come so late that it need not sleep; not every time.
      if (me.rank == 0) return;
      CHECK(me.counter("parks") > 0);
      CHECK(me.counter("events") > 0);
    });
  }
}

TEST_BOTH_WAYS(operations_land_while_ranks_compute) {
  run_verbs(2, mode(true), verbs, [](TestRank& me, Meeting& meeting) {
    constexpr size_t kBlock = 1 << 20;
    const auto plan = me.load(alltoall(me.rank, me.size, kBlock));
    const Pinned in = me.plain(kBlock * 2);
    const Pinned out = me.plain(kBlock * 2);
    const Rank other = 1 - me.rank;
    std::memset(out.data, 0, out.bytes);
    fill(out.data + other * kBlock, kBlock, me.rank);
    me.wait(me.start(plan, out, in));  // connected and registered
    std::memset(in.data, 0, in.bytes);
    meeting.meet();
    const uint32_t request = me.start(plan, out, in);
    // The data come without a call; the end of the own send is behind them, and takes a moment.
    while (first_difference(in.data + other * kBlock, kBlock, other) < kBlock)
      std::this_thread::sleep_for(milliseconds(20));
    meeting.meet();
    std::this_thread::sleep_for(milliseconds(500));
    const bool landed = me.test(request);
    meeting.meet();
    me.wait(request);
    CHECK(landed);
  });
}

// A message to a rank that is not looking: its progress thread answers the connection.
TEST_BOTH_WAYS(a_connection_needs_nobodys_attention) {
  run_verbs(2, mode(true), verbs, [](TestRank& me, Meeting& meeting) {
    if (me.rank == 0) me.wait(me.isend(me.filled(100, false, 3), 1, 1));
    meeting.meet();
    if (me.rank == 1) {
      const Pinned in = me.plain(100);
      me.receive(in, 0, 1);
      check_data(in, 3);
    }
  });
}

// Both begin at once, a few microseconds apart at the most, and write at once: nothing is lost or overtaken.
TEST(simultaneous_connects_end_in_one_connection) {
  need_device();
  constexpr uint64_t kRounds = repetitions(60, 20);
  constexpr uint64_t kLongest = 200;  // calls by which rank 1 comes later
  for (uint64_t round = 0; round < kRounds; ++round) {
    const bool progress_thread = round % 2 == 0;
    run_verbs(2, mode(progress_thread), {}, [&](TestRank& me, Meeting& meeting) {
      constexpr uint64_t kMany = 5;
      const Rank other = 1 - me.rank;
      meeting.meet();
      const uint64_t later = kLongest * round / kRounds * me.rank;
      for (uint64_t i = 0; i < later; ++i) static_cast<void>(me.engine->fabric().called());
      std::vector<Pinned> in;
      std::vector<uint32_t> requests;
      for (uint64_t i = 0; i < kMany; ++i) requests.push_back(me.isend(me.filled(64, false, round + i), other, 1));
      for (uint64_t i = 0; i < kMany; ++i) {
        in.push_back(me.plain(64));
        requests.push_back(me.irecv(in.back(), other, 1));
      }
      for (const uint32_t request : requests) me.wait(request);
      for (uint64_t i = 0; i < kMany; ++i) check_data(in[i], round + i);
      CHECK_EQ(me.counter("connections"), 1.0);
    });
  }
}

TEST(simultaneous_connects_of_four_end_in_three_connections_each) {
  need_device();
  for (uint32_t i = 0; i < repetitions(10, 4); ++i) {
    run_verbs(4, mode(i % 2 == 0), {}, [](TestRank& me, Meeting& meeting) {
      meeting.meet();
      const auto plan = me.load(alltoall(me.rank, me.size, 64));
      const Pinned in = me.plain(64 * me.size);
      me.wait(me.start(plan, me.filled(64 * me.size, false, me.rank), in));
      CHECK_EQ(me.counter("connections"), 3.0);
    });
  }
}

// --- failures --------------------------------------------------------------------------------------------------------

// A process that is killed tells nobody. Its peer sleeps in wait, in the middle of a rendezvous both ways. As long as
// nobody has taken note of its end the network tells first, and the mark of a process that ends says what that means;
// afterwards the system does.
TEST_BOTH_WAYS(a_killed_peer_is_an_error_within_bounded_time) {
  need_device();
  for (const bool reaped : {false, true}) {
    const int fd = job::Segment::create(2, kTestArena);
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    const pid_t victim = fork();
    CHECK(victim >= 0);
    if (victim == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      TestRank me(make_fabric(job::Segment::map(fd), 1, verbs), mode(true));
      const uint32_t sent = me.isend(me.filled(100, false, 1), 0, 1);
      if (sent != kNoRequest) me.wait(sent);
      if (write(pipes[1], "x", 1) != 1) _exit(1);
      pause();
    }
    TestRank me(make_fabric(job::Segment::map(fd), 0, verbs), mode(true));
    close(fd);
    me.receive(me.plain(100), 1, 1);
    char byte;
    CHECK_EQ(read(pipes[0], &byte, 1), 1);
    close(pipes[0]);
    close(pipes[1]);
    const uint32_t large = me.isend(me.filled(1 << 20, false, 1), 1, 2);
    const uint32_t receive = me.irecv(me.plain(1 << 20), 1, 3);
    kill(victim, SIGKILL);
    if (reaped) waitpid(victim, nullptr, 0);
    const auto begin = Clock::now();
    CHECK_EQ(me.failure(receive), Error::peer_closed);
    CHECK_EQ(me.failure(large), Error::peer_closed);
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    CHECK(took < std::chrono::seconds(10));
    CHECK_EQ(me.failure(me.irecv(me.plain(8), 1, 4)), Error::peer_closed);  // and so does all that comes later
    std::printf("# %s: noticed after %lld ms\n", reaped ? "by the system" : "by the network",
                static_cast<long long>(took.count()));
    if (!reaped) waitpid(victim, nullptr, 0);
  }
}

// Exposes its memory to peers under a key that is none, as long as it is told to.
class WrongKeys final : public VerbsFabric {
 public:
  WrongKeys(std::unique_ptr<cards::Bootstrap> bootstrap, const VerbsOptions& options)
      : VerbsFabric(std::move(bootstrap), options) {}
  bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) override {
    if (!VerbsFabric::expose(peer, buffer, out)) return false;
    if (wrong) out.key ^= 0x5a00;
    return true;
  }
  bool wrong = false;
};

// The write is refused, which flushes both queue pairs: all that needs the peer fails at both ends, and nothing else
// does.
TEST(a_wrong_key_fails_whatever_needs_the_connection_and_writes_nothing) {
  need_device();
  for (const bool progress_thread : {true, false}) {
    const auto segment = make_segment(3);
    Meeting meeting(3);
    run_threads(3, [&](Rank rank) {
      VerbsOptions verbs;
      verbs.eager_limit = 255;
      auto bootstrap = std::make_unique<cards::HostBootstrap>(segment, rank, verbs.eager_limit);
      auto fabric = std::make_unique<WrongKeys>(std::move(bootstrap), verbs);
      WrongKeys& keys = *fabric;
      TestRank me(std::move(fabric), mode(progress_thread));
      constexpr size_t kBytes = 100'000;
      const auto exchange = [&](Rank other) {
        const Pinned in = me.plain(kBytes);
        const uint32_t receive = me.irecv(in, other, 1);
        me.wait(me.isend(me.filled(kBytes, false, me.rank), other, 1));
        me.wait(receive);
        check_data(in, other);
      };
      try {
        for (const Rank other : {0u, 1u, 2u}) {
          if (other != me.rank) exchange(other);
        }
        meeting.meet();
        if (me.rank < 2) {
          const Rank other = 1 - me.rank;
          std::vector<Pinned> in;
          std::vector<uint32_t> requests;
          keys.wrong = me.rank == 1;
          for (uint32_t i = 0; i < 5; ++i) {
            in.push_back(me.filled(kBytes, false, 77));
            requests.push_back(me.irecv(in.back(), other, i));
          }
          keys.wrong = false;
          meeting.meet();
          // Two hold something the peer wants; what the peer sends to the others never comes.
          for (uint32_t i = 0; i < 2; ++i)
            requests.push_back(me.isend(me.filled(kBytes, false, me.rank), other, me.rank == 0 ? i : i + 5));
          const auto begin = Clock::now();
          bool refused = false;
          for (const uint32_t request : requests) {
            CHECK_EQ(me.failure(request), Error::unreachable);
            refused |= me.engine->failure(request).detail.find(kRefused) != std::string::npos;
          }
          CHECK(Clock::now() - begin < std::chrono::seconds(10));
          CHECK_EQ(refused, me.rank == 0);
          for (const Pinned& each : in) check_data(each, 77);
          CHECK_EQ(me.failure(me.irecv(me.plain(8), other, 9)), Error::unreachable);
        } else {
          meeting.meet();
        }
        meeting.meet();
        if (me.rank == 2) {
          exchange(0);
          exchange(1);
        } else {
          exchange(2);
        }
        meeting.meet();
      } catch (const Failure&) {
        meeting.give_up();
        throw;
      }
    });
  }
}

// A real event wakes the sleeper through the device's descriptor; only its name is changed on the way, since a software
// device reports none that is fatal. Ranks that are not concerned go on.
struct FalseEvents {
  static inline verbs::Library* lib = nullptr;
  static inline decltype(verbs::Library::get_async_event) get = nullptr;
  static inline decltype(verbs::Library::ack_async_event) ack = nullptr;
  static inline std::atomic<ibv_context*> victim{nullptr};
  static inline std::atomic<uint32_t> changed{0};
  static inline ibv_event_type type;

  explicit FalseEvents(ibv_event_type of_type) {
    lib = const_cast<verbs::Library*>(&verbs::library());
    get = lib->get_async_event;
    ack = lib->ack_async_event;
    type = of_type;
    victim = nullptr;
    changed = 0;
    lib->get_async_event = [](ibv_context* context, ibv_async_event* event) {
      const int result = get(context, event);
      if (result == 0 && context == victim.load()) {
        event->event_type = type;
        ++changed;
      }
      return result;
    };
    // The library counts what was acknowledged of a kind, and must not count ours.
    lib->ack_async_event = [](ibv_async_event* event) {
      if (event->event_type == type) event->event_type = IBV_EVENT_GID_CHANGE;
      ack(event);
    };
  }
  ~FalseEvents() {
    lib->get_async_event = get;
    lib->ack_async_event = ack;
  }
};

void check_event(ibv_event_type type, const VerbsOptions& verbs) {
  const char* make_event = std::getenv("NBC_TEST_EVENT");
  if (make_event == nullptr) throw Skip{"NBC_TEST_EVENT makes no event"};
  need_device();
  const FalseEvents events(type);
  run_verbs(3, mode(true), verbs, [&](TestRank& me, Meeting& meeting) {
    const auto exchange = [&](Rank other) {
      const Pinned in = me.plain(8);
      const uint32_t receive = me.irecv(in, other, 1);
      me.wait(me.isend(me.filled(8, false, me.rank), other, 1));
      me.wait(receive);
      check_data(in, other);
    };
    for (const Rank other : {0u, 1u, 2u}) {
      if (other != me.rank) exchange(other);
    }
    meeting.meet();
    if (me.rank == 0) {
      const auto& fabric = static_cast<const VerbsFabric&>(me.engine->fabric());
      std::vector<uint32_t> requests;
      for (const Rank other : {1u, 2u}) {
        requests.push_back(me.irecv(me.plain(8), other, 2));
        requests.push_back(me.irecv(me.plain(100'000), other, 3));
        requests.push_back(me.isend(me.filled(100'000, false, 1), other, 4));
      }
      FalseEvents::victim = fabric.device().context;
      const std::jthread maker([&] { CHECK_EQ(std::system(make_event), 0); });
      const auto begin = Clock::now();
      for (const uint32_t request : requests) {
        CHECK_EQ(me.failure(request), Error::unreachable);
        CHECK(me.engine->failure(request).detail.find(fabric.device().name + " reports: ") != std::string::npos);
      }
      CHECK(Clock::now() - begin < std::chrono::seconds(10));
      CHECK(FalseEvents::changed > 0);
    }
    meeting.meet();
    if (me.rank > 0) exchange(3 - me.rank);
  });
}

TEST(an_event_of_the_device_is_an_error_for_all_that_needs_it) { check_event(IBV_EVENT_DEVICE_FATAL, {}); }
TEST(an_event_of_the_shared_receives_is_an_error_for_all_that_needs_them) {
  check_event(IBV_EVENT_SRQ_ERR, by(Eager::send));
}

// A device that can lose what it was given: it completes nothing any more, and reports no error.
struct Mute {
  static inline decltype(ibv_context_ops::poll_cq) poll = nullptr;
  static inline std::atomic<bool> mute{false};

  // Before another thread polls the fabric's queue.
  static void install(const VerbsFabric& fabric) {
    ibv_context* const context = fabric.device().context;
    mute = false;
    poll = context->ops.poll_cq;
    context->ops.poll_cq = [](ibv_cq* queue, int most, ibv_wc* out) {
      return mute.load() ? 0 : poll(queue, most, out);
    };
  }
};

// A second for each probe, and one more for each megabyte of a put.
VerbsOptions quicker(VerbsOptions options) {
  options.silence = 5;
  return options;
}
constexpr std::chrono::seconds kPatience{5};

TEST(a_device_that_says_nothing_has_time_for_what_is_on_its_way) {
  constexpr size_t kMegabytes = 3;
  for (const size_t bytes : {size_t{8}, kMegabytes * 1'000'000}) {
    Pair pair(quicker(by(Eager::write)));
    VerbsFabric& fabric = *pair.fabric[0];
    Mute::install(fabric);
    pair.connect();
    std::vector<std::byte> from(bytes);
    std::vector<std::byte> to(bytes);
    ExposedBuffer exposed;
    CHECK(pair.fabric[1]->expose(0, {to.data(), bytes, nullptr}, exposed));
    Mute::mute = true;
    fabric.put(1, exposed, {from.data(), bytes, nullptr}, 5, Error::none, &from);
    const auto begin = Clock::now();
    while (pair.find(0, Completion::Kind::broken) == nullptr) {
      CHECK(Clock::now() - begin < std::chrono::seconds(60));
      fabric.arm(Sleeper::caller, 1);
      fabric.sleep(Sleeper::caller, 0, 100'000'000);
      pair.pass(0);
    }
    CHECK(Clock::now() - begin >= kPatience + std::chrono::seconds(bytes / 1'000'000));
    CHECK_EQ(pair.find(0, Completion::Kind::put_done)->error, Error::unreachable);
    CHECK(fabric.why(1).find("the device does not say why") != std::string::npos);
  }
}

TEST_BOTH_WAYS(a_device_that_says_nothing_is_an_error_for_both_ranks) {
  need_device();
  const auto segment = make_segment(2);
  const auto make = [&](Rank rank) {
    auto fabric = make_fabric(segment, rank, quicker(verbs));
    if (rank == 0) Mute::install(*fabric);
    return fabric;
  };
  run_ranks_over(2, mode(true), make, [](TestRank& me, Meeting& meeting) {
    const Rank other = 1 - me.rank;
    const Pinned in = me.plain(8);
    const uint32_t receive = me.irecv(in, other, 1);
    me.wait(me.isend(me.filled(8, false, me.rank), other, 1));
    me.wait(receive);
    meeting.meet();
    if (me.rank == 0) Mute::mute = true;
    const uint32_t large = me.isend(me.filled(1 << 20, false, 1), other, 2);
    const uint32_t never = me.irecv(me.plain(8), other, 3);
    const auto begin = Clock::now();
    CHECK_EQ(me.failure(never), Error::unreachable);
    CHECK_EQ(me.failure(large), Error::unreachable);
    CHECK(Clock::now() - begin < std::chrono::seconds(60));
  });
}

// A rank that does not look has no receives left after a while, and its card says so again and again: it is slow, and
// not dead, for however long.
TEST(a_peer_without_receives_is_waited_for) {
  Pair pair(narrow(quicker(by(Eager::write))));
  pair.connect();
  VerbsFabric& fabric = *pair.fabric[0];
  for (uint32_t i = 0; i < 20; ++i) fabric.commit(1, fabric.outbox(1).slots, 40, i, nullptr);
  const double before = pair.counter(0, "probes");
  const auto end = Clock::now() + kPatience + std::chrono::seconds(3);
  while (Clock::now() < end) {
    fabric.arm(Sleeper::caller, 1);
    fabric.sleep(Sleeper::caller, 0, 100'000'000);
    pair.pass(0);
  }
  CHECK(pair.find(0, Completion::Kind::broken) == nullptr);
  // The end of a message that had a receive may answer a first probe; the next one waits behind those that have none.
  CHECK(pair.counter(0, "probes") >= before + 1);
  CHECK(pair.counter(0, "probes") <= before + 2);
  pair.until([&] { return pair.seen[1].size() == 20; });
}

// A link that loses everything for less than the transport tries is no error, and nobody learns of it.
TEST(a_link_may_be_silent_for_a_moment) {
  need_link();
  VerbsOptions patient;
  patient.timeout = 18;  // eight attempts, a second each: to make the link silent and free again takes a while, too
  run_verbs(2, mode(true), patient, [&](TestRank& me, Meeting& meeting) {
    constexpr size_t kBytes = 16 << 20;
    const Rank other = 1 - me.rank;
    const auto exchange = [&](const std::function<void(const Pinned&)>& meanwhile) {
      const Pinned in = me.filled(kBytes, false, 99);
      const uint32_t receive = me.irecv(in, other, 1);
      const uint32_t send = me.isend(me.filled(kBytes, false, me.rank), other, 1);
      meanwhile(in);
      me.wait(receive);
      me.wait(send);
      check_data(in, other);
    };
    exchange([](const Pinned&) {});
    if (me.rank == 0) interrupt_link("slow");
    meeting.meet();
    exchange([&](const Pinned& in) {
      if (me.rank != 0) return;
      // In the middle, whatever the machine does: some of it is here, and not all.
      const volatile std::byte* first = in.data;
      const std::byte old = byte_of(99, 0);
      CHECK(old != byte_of(other, 0));
      while (*first == old) {
      }
      interrupt_link("mute");
      const bool middle = first_difference(in.data, kBytes, other) < kBytes;
      std::this_thread::sleep_for(milliseconds(300));
      interrupt_link("free");
      CHECK(middle);
    });
  });
}

// A put arrives, its acknowledgement is lost, and the receiver closes before the sender's device tries again.
TEST_BOTH_WAYS(a_link_that_loses_acknowledgements_fails_no_put_that_has_come) {
  need_link();
  Pair pair(verbs);
  pair.connect();
  std::vector<std::byte> from(8192, std::byte{1});
  std::vector<std::byte> to(8192, std::byte{2});
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to.data(), to.size(), nullptr}, exposed));
  interrupt_link("unacknowledged");
  int delivered = 0, late = 0;
  pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, 5, Error::none, &delivered);
  pair.until([&] { return pair.find(1, Completion::Kind::immediate) != nullptr; });
  CHECK(pair.find(0, Completion::Kind::put_done) == nullptr);
  pair.fabric[1]->announce_closed();
  pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, 6, Error::none, &late);
  pair.fabric[0]->flush();
  pair.fabric[1].reset();
  interrupt_link("free");
  pair.until([&] { return pair.find(0, Completion::Kind::broken) != nullptr; });
  std::vector<const Completion*> ends;
  for (const Completion& each : pair.seen[0])
    if (each.kind == Completion::Kind::put_done) ends.push_back(&each);
  CHECK_EQ(ends.size(), 2u);
  CHECK(ends[0]->cookie == &delivered);
  CHECK_EQ(ends[0]->error, Error::none);
  CHECK(ends[1]->cookie == &late);
  CHECK_EQ(ends[1]->error, Error::peer_closed);
  for (const std::byte b : to) CHECK(b == std::byte{1});
}

// A rank sends and closes while the link is away, for longer than a rank would want to wait for nothing.
TEST_BOTH_WAYS(what_was_sent_before_closing_arrives_over_a_link_that_was_away) {
  need_link();
  VerbsOptions options = verbs;
  options.give_up_after(20'000);
  Pair pair(options);
  pair.connect();
  const Mailbox out = pair.fabric[0]->outbox(1);
  fill(out.slots, 64, 3);
  interrupt_link("mute");
  pair.fabric[0]->commit(1, out.slots, 64, 7, nullptr);
  std::jthread healer([] {
    std::this_thread::sleep_for(milliseconds(4000));
    interrupt_link("free");
  });
  pair.fabric[0]->announce_closed();
  pair.fabric[0].reset();
  pair.until([&] { return pair.find(1, Completion::Kind::message) != nullptr; });
  CHECK_EQ(first_difference(pair.fabric[1]->inbox(0).slots, 64, 3), 64u);
}

// The link goes down in the middle of transfers and comes back much later: nothing hangs, and both ranks learn of it.
TEST_BOTH_WAYS(a_link_that_goes_down_is_an_error_within_bounded_time) {
  need_link();
  run_verbs(2, mode(true), verbs, [&](TestRank& me, Meeting& meeting) {
    constexpr size_t kBytes = 1 << 20;
    const Rank other = 1 - me.rank;
    const auto exchange = [&] {
      const uint32_t receive = me.irecv(me.plain(kBytes), other, 1);
      const uint32_t send = me.isend(me.filled(kBytes, false, 1), other, 1);
      // On a busy machine either may be complete when it has been started.
      const auto result = [&](uint32_t request) { return request == kNoRequest ? Error::none : me.failure(request); };
      const Error first = result(receive);
      const Error second = result(send);
      return first != Error::none ? first : second;
    };
    CHECK_EQ(exchange(), Error::none);
    meeting.meet();
    const auto begin = Clock::now();
    Error error = Error::none;
    {
      std::jthread breaker;
      if (me.rank == 0) {
        breaker = std::jthread([&] {
          std::this_thread::sleep_for(milliseconds(50));
          interrupt_link("down");
        });
      }
      while (error == Error::none) error = exchange();
    }
    const auto took = Clock::now() - begin;
    meeting.meet();
    if (me.rank == 0) interrupt_link("up");
    CHECK_EQ(error, Error::unreachable);
    CHECK(took < std::chrono::seconds(20));
    meeting.meet();
    CHECK_EQ(exchange(), Error::unreachable);  // a connection that broke is not made again
  });
}

// In a process that may lock little memory: the error says so, and both sides of the message learn of it.
TEST(a_low_limit_of_locked_memory_is_named) {
  need_device();
  int pipes[2];
  CHECK_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string why = "nothing failed";
    const rlimit low{4 << 20, 4 << 20};
    setrlimit(RLIMIT_MEMLOCK, &low);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2]{};
    syscall(SYS_capset, &header, none);
    try {
      Pair pair;
      std::vector<std::byte> large(8 << 20);
      ExposedBuffer exposed;
      if (!pair.fabric[0]->expose(1, {large.data(), large.size(), nullptr}, exposed)) why = pair.fabric[0]->why(0);
    } catch (const FabricError& error) {
      why = error.message;
    } catch (const Failure& failure) {
      why = failure.why;
    } catch (const Skip& skip) {
      why = skip.why;
    }
    _exit(write(pipes[1], why.data(), why.size()) < 0);
  }
  char text[2000];
  const ssize_t length = read(pipes[0], text, sizeof text);
  waitpid(child, nullptr, 0);
  const std::string why(text, length > 0 ? static_cast<size_t>(length) : 0);
  if (why.find("ulimit -l") == std::string::npos || why.find("4096 KiB") == std::string::npos) throw Failure{why};
}

TEST(a_device_that_is_not_there_is_named) {
  need_device();
  verbs::DeviceOptions options;
  options.name = "nothing0";
  try {
    const verbs::Device device(options);
    CHECK(false);
  } catch (const FabricError& error) {
    CHECK(error.message.find("nothing0") != std::string::npos);
  }
}

}  // namespace
#else
TEST(verbs) { throw nbc::check::Skip{"this build has no verbs: <infiniband/verbs.h> was not found"}; }
#endif

TEST_MAIN_WITH_DEVICES(600)
