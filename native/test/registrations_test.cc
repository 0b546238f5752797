// Large buffers are registered beside the engine, by a kernel that takes as long as it is told to: no device.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <poll.h>
#include <thread>
#include <vector>

#include "fabric/verbs/available.h"
#include "test/check.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/registrations.h"
#include "test/played_devices.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using verbs::Registration;
using verbs::Registrations;
using Use = Registrations::Use;

constexpr size_t kLarge = Registrations::kBeside;

// What the played device registers. Written under the mutex, but for `refusals`, while nothing is registered.
struct Kernel {
  static inline std::mutex mutex;
  static inline std::condition_variable changed;
  static inline bool busy;     // it answers no other thread than the test's
  static inline bool waits;    // such a thread is there
  static inline int refusals;  // so many more are refused, for want of locked memory
  static inline int live;      // registrations that there are
  static inline std::thread::id test;

  static ibv_mr* reg_mr(ibv_pd* domain, void* address, size_t bytes, int) {
    std::unique_lock lock(mutex);
    if (std::this_thread::get_id() != test) {
      waits = true;
      changed.notify_all();
      changed.wait(lock, [] { return !busy; });
      waits = false;
    }
    errno = ENOMEM;
    if (refusals > 0) return --refusals, nullptr;
    ++live;
    auto* mr = new ibv_mr{};
    mr->pd = domain;
    mr->addr = address;
    mr->length = bytes;
    return mr;
  }
  static int dereg_mr(ibv_mr* mr) {
    const std::lock_guard lock(mutex);
    --live;
    delete mr;
    return 0;
  }
  static void set_busy(bool is) {
    const std::lock_guard lock(mutex);
    busy = is;
    changed.notify_all();
  }
  static void await_the_other_thread() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [] { return waits; });
  }
};

struct Scene {
  explicit Scene(size_t entries = 100, size_t bytes = 100 * kLarge) : machine({{.name = "ib0"}}) {
    auto& lib = const_cast<verbs::Library&>(verbs::library());
    lib.reg_mr_iova2 = nullptr;
    lib.reg_mr = Kernel::reg_mr;
    lib.dereg_mr = Kernel::dereg_mr;
    Kernel::busy = Kernel::waits = false;
    Kernel::refusals = Kernel::live = 0;
    Kernel::test = std::this_thread::get_id();
    registrations =
        std::make_unique<Registrations>(std::make_shared<verbs::Device>(verbs::DeviceOptions{}), entries, bytes);
  }
  // Nothing is left.
  ~Scene() noexcept(false) {
    registrations.reset();
    if (std::uncaught_exceptions() == 0) CHECK_EQ(Kernel::live, 0);
  }
  Registrations* operator->() { return registrations.get(); }
  void await_result() {
    pollfd set{registrations->beside().descriptor(), POLLIN, 0};
    CHECK_EQ(::poll(&set, 1, -1), 1);
    CHECK(registrations->has_results());
    registrations->take_results();
    CHECK(!registrations->has_results());
    CHECK_EQ(::poll(&set, 1, 0), 0);
  }

  Machine machine;
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
  while (!scene->prepare(first.all(), Use::sends) || !scene->prepare(second.all(), Use::sends)) scene.await_result();
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
  CHECK_EQ(Kernel::live, 0);
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
  CHECK_EQ(Kernel::live, 0);
}

// The engine's thread can do more about it: drop others, or take less.
TEST(what_is_refused_is_tried_again_by_who_needs_it) {
  Scene scene;
  const Memory idle(100), memory(kLarge);
  scene->release(scene->acquire(idle.all(), Use::exposed));
  Kernel::refusals = 2;
  CHECK(!scene->prepare(memory.all(), Use::exposed));
  scene.await_result();
  CHECK(scene->prepare(memory.all(), Use::exposed));
  Registration* made = scene->acquire(memory.all(), Use::exposed);
  CHECK(made != nullptr);
  CHECK_EQ(scene->counters().evictions, 1u);
  CHECK_EQ(scene->entries(), 1u);
  scene->release(made);

  const Memory other(kLarge);
  Kernel::refusals = 100;
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

}  // namespace

#else
TEST(registrations) { throw nbc::check::Skip{"this build has no verbs: <infiniband/verbs.h> was not found"}; }
#endif

TEST_MAIN(60)
