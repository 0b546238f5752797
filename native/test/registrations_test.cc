// How memory is registered, by a kernel that takes as long as it is told to: no device.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "fabric/verbs/available.h"
#include "test/check.h"

#if NBC_HAS_VERBS
#include "fabric/cards/host_bootstrap.h"
#include "fabric/system_memory.h"
#include "fabric/verbs/mailboxes.h"
#include "fabric/verbs/memory.h"
#include "fabric/verbs/registrations.h"
#include "fabric/verbs/verbs_fabric.h"
#include "job/page.h"
#include "test/played_devices.h"
#include "test/random.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using verbs::Registration;
using verbs::Registrations;
using Use = Registrations::Use;

constexpr size_t kLarge = Registrations::kBeside;

// What the played device registers. Written under the mutex.
struct Kernel {
  static inline std::mutex mutex;
  static inline std::condition_variable changed;
  static inline bool busy;     // it answers no other thread than the test's
  static inline bool waits;    // such a thread is there
  static inline int refusals;  // so many more are refused, for want of locked memory
  static inline int awaited;   // a refusal ends `busy`, and comes when no more registrations are live; -1: does neither
  static inline int live;      // registrations that there are
  static inline std::thread::id test;
  static inline std::map<const void*, unsigned> access;  // that was asked for last, by address

  static void keep_waiting(std::unique_lock<std::mutex>& lock) {
    if (std::this_thread::get_id() == test) return;
    waits = true;
    changed.notify_all();
    changed.wait(lock, [] { return !busy; });
    waits = false;
  }
  static ibv_mr* reg_mr_iova2(ibv_pd* domain, void* address, size_t bytes, uint64_t seen_at, unsigned rights) {
    std::unique_lock lock(mutex);
    keep_waiting(lock);
    access[address] = rights;
    errno = EINVAL;
    if (seen_at != reinterpret_cast<uintptr_t>(address)) return nullptr;
    if (refusals > 0) {
      --refusals;
      if (awaited >= 0) {
        busy = false;
        changed.notify_all();
        changed.wait(lock, [] { return live <= awaited; });
      }
      errno = ENOMEM;
      return nullptr;
    }
    ++live;
    auto* mr = new ibv_mr{};
    mr->pd = domain;
    mr->addr = address;
    mr->length = bytes;
    return mr;
  }
  static ibv_mr* reg_mr(ibv_pd* domain, void* address, size_t bytes, int rights) {
    return reg_mr_iova2(domain, address, bytes, reinterpret_cast<uintptr_t>(address), static_cast<unsigned>(rights));
  }
  static int dereg_mr(ibv_mr* mr) {
    std::unique_lock lock(mutex);
    keep_waiting(lock);
    --live;
    changed.notify_all();
    delete mr;
    return 0;
  }
  static void set_busy(bool is) {
    const std::lock_guard lock(mutex);
    busy = is;
    changed.notify_all();
  }
  static void refuse(int times, int when_live = -1) {
    const std::lock_guard lock(mutex);
    refusals = times;
    awaited = when_live;
  }
  static void await_the_other_thread() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [] { return waits; });
  }
  static void await_live(int registrations) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return live == registrations; });
  }
};

// What another thread does while the played device keeps it waiting: from here on, until finish().
class Meanwhile {
 public:
  template <typename Body>
  explicit Meanwhile(Body body) {
    Kernel::set_busy(true);
    thread_ = std::thread(body);
    Kernel::await_the_other_thread();
  }
  ~Meanwhile() { finish(); }
  void finish() {
    Kernel::set_busy(false);
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

struct Scene {
  explicit Scene(size_t entries = 100, size_t bytes = 100 * kLarge) : machine({{.name = "ib0"}}) {
    auto& lib = const_cast<verbs::Library&>(verbs::library());
    lib.reg_mr_iova2 = Kernel::reg_mr_iova2;
    lib.reg_mr = Kernel::reg_mr;
    lib.dereg_mr = Kernel::dereg_mr;
    Kernel::busy = Kernel::waits = false;
    Kernel::refusals = Kernel::live = 0;
    Kernel::awaited = -1;
    Kernel::test = std::this_thread::get_id();
    Kernel::access.clear();
    device = std::make_shared<verbs::Device>(verbs::DeviceOptions{});
    registrations = std::make_unique<Registrations>(device, entries, bytes);
  }
  // Nothing is left.
  ~Scene() noexcept(false) {
    registrations.reset();
    if (std::uncaught_exceptions() == 0) CHECK_EQ(Kernel::live, 0);
  }
  Registrations* operator->() { return registrations.get(); }
  // There may be others, now or soon.
  void await_a_result() {
    pollfd set{registrations->beside().descriptor(), POLLIN, 0};
    CHECK_EQ(::poll(&set, 1, -1), 1);
    registrations->take_results();
  }
  // The only one.
  void await_result() {
    pollfd set{registrations->beside().descriptor(), POLLIN, 0};
    CHECK_EQ(::poll(&set, 1, -1), 1);
    CHECK(registrations->has_results());
    registrations->take_results();
    CHECK(!registrations->has_results());
    CHECK_EQ(::poll(&set, 1, 0), 0);
  }

  Machine machine;
  std::shared_ptr<verbs::Device> device;
  std::unique_ptr<Registrations> registrations;
};

struct Memory {
  explicit Memory(size_t bytes) : keeper(std::make_shared<std::vector<std::byte>>(bytes)) {
    home = {keeper->data(), bytes, keeper};
  }
  LocalBuffer all() const { return {home.data, home.bytes, &home}; }
  LocalBuffer part() const { return {home.data + 100, 200, &home}; }
  std::shared_ptr<std::vector<std::byte>> keeper;
  Pinned home;
};

TEST(a_large_buffer_is_registered_beside_the_engine) {
  Scene scene;
  const Memory memory(kLarge), small(kLarge - 1);
  CHECK(scene->prepare(small.all(), Use::exposed));
  Kernel::set_busy(true);
  CHECK(!scene->prepare(memory.part(), Use::exposed));
  Kernel::await_the_other_thread();
  CHECK(!scene->prepare(memory.all(), Use::exposed));  // it is the same
  CHECK(!scene->has_results());
  Kernel::set_busy(false);
  scene.await_result();
  CHECK(scene->prepare(memory.all(), Use::exposed));
  Registration* all = scene->acquire(memory.all(), Use::exposed);
  Registration* part = scene->acquire(memory.part(), Use::sends);
  CHECK(all != nullptr && all == part && all->mr->length == kLarge);
  CHECK_EQ(scene->counters().beside, 1u);
  CHECK_EQ(scene->counters().misses, 1u);
  CHECK_EQ(scene->counters().hits, 1u);
  scene->release(all);
  scene->release(part);
  CHECK_EQ(Kernel::live, 1);
}

// Until it is used it must not make room for another one: who waits for it would begin anew.
TEST(what_is_registered_stays_until_it_is_used) {
  Scene scene(1);
  const Memory first(kLarge), second(kLarge), third(100);
  CHECK(!scene->prepare(first.all(), Use::sends));
  CHECK(!scene->prepare(second.all(), Use::sends));
  while (!scene->prepare(first.all(), Use::sends) || !scene->prepare(second.all(), Use::sends)) scene.await_a_result();
  Registration* of_third = scene->acquire(third.all(), Use::sends);
  CHECK(scene->prepare(first.all(), Use::sends) && scene->prepare(second.all(), Use::sends));
  Registration* of_first = scene->acquire(first.all(), Use::sends);
  Registration* of_second = scene->acquire(second.all(), Use::sends);
  CHECK_EQ(scene->counters().misses, 3u);
  for (Registration* one : {of_first, of_second, of_third}) scene->release(one);
  CHECK_EQ(scene->entries(), 1u);
}

TEST(what_was_to_be_registered_may_go_meanwhile) {
  Scene scene;
  Kernel::set_busy(true);
  {
    const Memory memory(kLarge);
    CHECK(!scene->prepare(memory.all(), Use::exposed));
    Kernel::await_the_other_thread();
  }
  scene->drop_expired();
  CHECK_EQ(scene->entries(), 1u);  // the other thread has it
  Kernel::set_busy(false);
  scene.await_result();
  CHECK_EQ(scene->entries(), 0u);
  Kernel::await_live(0);
}

TEST(a_registration_that_nobody_used_goes_with_its_memory) {
  Scene scene;
  {
    const Memory memory(kLarge);
    CHECK(!scene->prepare(memory.all(), Use::exposed));
    scene.await_result();
  }
  scene->drop_expired();
  CHECK_EQ(scene->counters().expired, 1u);
  Kernel::await_live(0);
}

// The engine's thread can do more about it: drop others, or take less.
TEST(what_is_refused_is_tried_again_by_who_needs_it) {
  Scene scene;
  const Memory idle(100), memory(kLarge);
  scene->release(scene->acquire(idle.all(), Use::exposed));
  Kernel::refuse(2);
  CHECK(!scene->prepare(memory.all(), Use::exposed));
  scene.await_result();
  CHECK(scene->prepare(memory.all(), Use::exposed));
  Registration* made = scene->acquire(memory.all(), Use::exposed);
  CHECK(made != nullptr);
  CHECK_EQ(scene->counters().evictions, 1u);
  CHECK_EQ(scene->entries(), 1u);
  scene->release(made);

  const Memory other(kLarge);
  Kernel::refuse(100);
  CHECK(!scene->prepare(other.all(), Use::exposed));
  scene.await_result();
  CHECK(scene->prepare(other.all(), Use::exposed));
  CHECK(scene->acquire(other.all(), Use::exposed) == nullptr);
  CHECK(scene->why().find("registering 1048576 bytes") != std::string::npos);
  CHECK_EQ(scene->entries(), 0u);
}

TEST(the_end_waits_for_what_is_being_registered) {
  Scene scene;
  const Memory memory(kLarge), never(kLarge);
  Kernel::set_busy(true);
  CHECK(!scene->prepare(memory.all(), Use::exposed));
  CHECK(!scene->prepare(never.all(), Use::exposed));
  Kernel::await_the_other_thread();
  std::thread later([] { Kernel::set_busy(false); });
  scene.registrations.reset();
  later.join();
  CHECK_EQ(Kernel::live, 0);
}

// Where all of a buffer would fill the cache alone.
TEST(a_part_of_a_buffer_beyond_the_bounds_is_registered_beside_the_engine) {
  Scene scene(100, 3 * kLarge);
  const Memory memory(2 * kLarge);
  const LocalBuffer part{memory.home.data + kLarge, kLarge, &memory.home};
  CHECK(!scene->prepare(part, Use::exposed));
  scene.await_result();
  CHECK(scene->prepare(part, Use::exposed));
  Registration* made = scene->acquire(part, Use::exposed);
  CHECK(made != nullptr && made->mr->addr == part.data && made->mr->length == kLarge);
  CHECK_EQ(scene->counters().misses, 1u);
  scene->release(made);
  CHECK(scene->acquire(part, Use::sends) == made);
  CHECK_EQ(scene->counters().hits, 1u);
  CHECK(scene->acquire(memory.part(), Use::sends) != made);
  CHECK_EQ(scene->entries(), 2u);
}

TEST(what_was_large_is_let_go_beside_the_engine) {
  Scene scene;
  {
    const Memory memory(kLarge);
    scene->release(scene->acquire(memory.all(), Use::exposed));
  }
  Kernel::set_busy(true);
  scene->drop_expired();
  CHECK_EQ(scene->entries(), 0u);
  Kernel::await_the_other_thread();
  CHECK_EQ(Kernel::live, 1);
  CHECK(!scene->has_results());  // nobody waits for that
  Kernel::set_busy(false);
}

// One is refused while two large ones are being let go, and hears of it when no more than `when_live` of the three are
// left. The idle one stays.
void acquire_while_two_go(int when_live) {
  Scene scene;
  const Memory idle(100), other(100);
  scene->release(scene->acquire(idle.all(), Use::exposed));
  {
    const Memory first(kLarge), second(kLarge);
    scene->release(scene->acquire(first.all(), Use::exposed));
    scene->release(scene->acquire(second.all(), Use::exposed));
  }
  Kernel::set_busy(true);
  scene->drop_expired();
  Kernel::await_the_other_thread();
  Kernel::refuse(1, when_live);
  Registration* made = scene->acquire(other.all(), Use::exposed);
  CHECK(made != nullptr);
  CHECK_EQ(Kernel::live, 2);
  CHECK_EQ(scene->counters().evictions, 0u);
}

TEST(who_is_refused_a_registration_awaits_what_is_being_let_go) { acquire_while_two_go(3); }

// The other thread can be faster than the answer of the kernel.
TEST(who_is_refused_a_registration_tries_again_when_all_was_let_go_before_it_could_look) { acquire_while_two_go(1); }

// --- rights ----------------------------------------------------------------------------------------------------------

constexpr unsigned kOurs = IBV_ACCESS_LOCAL_WRITE;
constexpr unsigned kOfPeers = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned kInAnyOrder = IBV_ACCESS_RELAXED_ORDERING;

TEST(what_is_only_sent_is_closed_to_peers) {
  Scene scene;
  const Memory sent(100), received(100), large_sent(kLarge), large_received(kLarge);
  std::vector<Registration*> all;
  const auto rights = [&](const Memory& memory, Use use) {
    if (!scene->prepare(memory.all(), use)) scene.await_result();
    all.push_back(scene->acquire(memory.all(), use));
    CHECK(all.back() != nullptr);
    return Kernel::access[memory.home.data] & ~kInAnyOrder;
  };
  CHECK_EQ(rights(sent, Use::sends), kOurs);
  CHECK_EQ(rights(large_sent, Use::sends), kOurs);
  CHECK_EQ(rights(received, Use::exposed), kOfPeers);
  CHECK_EQ(rights(large_received, Use::exposed), kOfPeers);
  // What was only sent from is opened by a registration of its own.
  CHECK_EQ(Kernel::live, 4);
  CHECK_EQ(rights(sent, Use::exposed), kOfPeers);
  CHECK_EQ(rights(large_sent, Use::exposed), kOfPeers);
  CHECK_EQ(Kernel::live, 6);
  for (Registration* one : all) scene->release(one);
}

// Two ranks whose device carries nothing.
struct Ranks {
  Ranks() {
    const int fd = job::Segment::create(2);
    const auto segment = job::Segment::map(fd);
    ::close(fd);
    verbs::VerbsOptions options;
    options.close_milliseconds = 0;
    for (Rank rank = 0; rank < 2; ++rank)
      fabric[rank] =
          std::make_unique<verbs::VerbsFabric>(std::make_unique<cards::HostBootstrap>(segment, rank, 255), options);
    const auto is_ready = [&](Rank rank) { return fabric[rank]->connect(1 - rank) == Connect::ready; };
    for (bool ready = false; !ready;) {
      ready = is_ready(0) & is_ready(1);
      for (Rank rank = 0; rank < 2; ++rank) poll(rank);
    }
  }
  void poll(Rank rank) {
    Completion completions[16];
    fabric[rank]->poll(completions, 16, Effort::pass);
  }
  std::unique_ptr<verbs::VerbsFabric> fabric[2];
};

TEST(a_rank_opens_to_its_peers_what_they_write_to_only) {
  const Scene scene;
  Ranks ranks;
  verbs::VerbsFabric& fabric = *ranks.fabric[0];
  const Memory sent(100), received(100), large_sent(kLarge), large_received(kLarge);
  const auto rights = [](const Memory& memory) { return Kernel::access[memory.home.data] & ~kInAnyOrder; };
  // Beside the engine, and by it.
  for (const bool sends : {true, false}) {
    const Memory& memory = sends ? large_sent : large_received;
    CHECK(!fabric.prepare(1, memory.all(), sends));
    while (!fabric.prepare(1, memory.all(), sends)) ranks.poll(0);
    CHECK_EQ(rights(memory), sends ? kOurs : kOfPeers);
  }
  ExposedBuffer exposed;
  CHECK(fabric.expose(1, received.all(), exposed));
  CHECK_EQ(rights(received), kOfPeers);
  fabric.conceal(1, exposed);
  fabric.put(1, exposed, sent.all(), 5, Error::none, nullptr);
  CHECK_EQ(rights(sent), kOurs);
}

// PCI Express may reorder what it writes to memory that is looked at when all of it is there.
TEST(data_may_be_written_in_any_order_and_mailboxes_may_not) {
  Scene scene;
  const Memory small(100), large(kLarge);
  verbs::Memory memory(scene.device);
  const void* const block = memory.allocate(100);
  CHECK_EQ(Kernel::access[memory.find(block, 100)->addr], kOfPeers | kInAnyOrder);
  CHECK(!scene->prepare(large.all(), Use::exposed));
  scene.await_result();
  CHECK_EQ(Kernel::access[large.home.data], kOfPeers | kInAnyOrder);
  scene->release(scene->acquire(small.all(), Use::sends));
  CHECK_EQ(Kernel::access[small.home.data], kOurs | kInAnyOrder);

  verbs::Mailboxes mailboxes(scene.device, 1, 16);
  const verbs::Place place = mailboxes.take();
  CHECK_EQ(Kernel::access.at(place.inbox), kOfPeers);
  CHECK_EQ(Kernel::access.at(place.outbox), 0u);
}

TEST(a_library_that_knows_no_order_is_not_asked_for_any) {
  Scene scene;
  const_cast<verbs::Library&>(verbs::library()).reg_mr_iova2 = nullptr;
  const Memory buffer(100);
  verbs::Memory memory(scene.device);
  const void* const block = memory.allocate(100);
  CHECK_EQ(Kernel::access[memory.find(block, 100)->addr], kOfPeers);
  scene->release(scene->acquire(buffer.all(), Use::sends));
  CHECK_EQ(Kernel::access[buffer.home.data], kOurs);
}

// --- exposed memory --------------------------------------------------------------------------------------------------

// The engine looks its buffers up while the program allocates others.
TEST(exposed_memory_is_found_while_another_thread_allocates_or_releases) {
  const Scene scene;
  verbs::Memory memory(scene.device);
  const size_t page = job::system_page();
  void* const small = memory.allocate(100);
  const ibv_mr* const mr = memory.find(small, 100);
  CHECK(mr != nullptr);
  const auto check_the_rest = [&](size_t used) {
    CHECK(memory.find(small, 100) == mr);
    CHECK(memory.find(&page, 1) == nullptr);
    CHECK_EQ(memory.used(), used);
    void* const other = memory.allocate(200);  // there is room
    CHECK(memory.find(other, 200) == mr);
    memory.release(other);
  };
  void* large = nullptr;
  Meanwhile allocates([&] { large = memory.allocate(8 * kLarge); });
  check_the_rest(page);
  allocates.finish();
  CHECK(memory.find(large, 8 * kLarge) != nullptr && memory.find(large, 8 * kLarge) != mr);
  CHECK_EQ(memory.used(), page + 8 * kLarge);
  Meanwhile releases([&] { memory.release(large); });
  check_the_rest(page);
  CHECK(memory.find(large, 8 * kLarge) == nullptr);
  releases.finish();
  CHECK_EQ(Kernel::live, 1);
}

TEST(threads_that_make_room_at_the_same_time_keep_what_one_needs) {
  const Scene scene;
  verbs::Memory memory(scene.device);
  void *first = nullptr, *second = nullptr;
  Meanwhile allocates([&] { first = memory.allocate(100); });
  second = memory.allocate(100);
  allocates.finish();
  CHECK(first != nullptr && second != nullptr && memory.find(first, 100) != memory.find(second, 100));
  CHECK_EQ(Kernel::live, 2);
  memory.release(first);
  CHECK_EQ(Kernel::live, 1);
  memory.release(second);
  CHECK_EQ(Kernel::live, 1);
  CHECK_EQ(memory.used(), 0u);
}

TEST(who_is_refused_a_registration_takes_what_another_thread_has_made) {
  const Scene scene;
  verbs::Memory memory(scene.device);
  void *first = nullptr, *second = nullptr;
  Meanwhile allocates([&] { first = memory.allocate(100); });
  second = memory.allocate(100);
  Kernel::refuse(2);  // a whole chunk, and as little as it needs
  allocates.finish();
  CHECK(first != nullptr && memory.find(first, 100) == memory.find(second, 100));
  CHECK_EQ(Kernel::live, 1);
  Kernel::refuse(2);
  CHECK(memory.allocate(8 * kLarge) == nullptr);
  CHECK(memory.why().find("registering 8388608 bytes") != std::string::npos);
}

// A card has fewer pages to look up then. Where huge pages are to be had, system_memory_test finds them.
TEST(what_is_registered_for_exposed_memory_begins_at_a_huge_page) {
  const Scene scene;
  verbs::Memory memory(scene.device);
  for (const size_t bytes : {size_t{100}, size_t{9'000'001}, size_t{20} << 20}) {
    const void* const block = memory.allocate(bytes);
    const ibv_mr* const mr = memory.find(block, bytes);
    CHECK(mr != nullptr);
    CHECK_EQ(reinterpret_cast<uintptr_t>(mr->addr) % kHugePage, 0u);
  }
}

// Others write to a block, and it is handed out again.
TEST(what_several_threads_allocate_is_zero) {
  const Scene scene;
  verbs::Memory memory(scene.device);
  std::atomic<uint32_t> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(thread);
      for (uint32_t i = 0; i < repetitions(2000, 300); ++i) {
        const size_t bytes = 1 + (random.one_in(50) ? random.below(6 << 20) : random.below(20'000));
        auto* const block = static_cast<std::byte*>(memory.allocate(bytes));
        const ibv_mr* const mr = memory.find(block, bytes);
        if (block == nullptr || mr == nullptr || mr->addr > block || block[0] != std::byte{0} ||
            block[bytes - 1] != std::byte{0}) {
          ++wrong;
          continue;
        }
        block[0] = block[bytes - 1] = std::byte{1};
        memory.release(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0u);
  CHECK_EQ(memory.used(), 0u);
  CHECK(Kernel::live >= 1);
}

}  // namespace

#else
TEST(registrations) { throw nbc::check::Skip{"this build has no verbs: <infiniband/verbs.h> was not found"}; }
#endif

TEST_MAIN(60)
