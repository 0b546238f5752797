#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nbc {
namespace {

using Clock = std::chrono::steady_clock;

// A waiter with a core of its own polls this long before it sleeps: about twice what waking it would cost (23 µs).
constexpr auto kSpin = std::chrono::microseconds(50);
// Passes before the first yield, about 20 microseconds: as long as a peer takes that is at work on another processor.
constexpr uint32_t kSpins = 400;
// A waiter with more ranks than processors lets others run this often before it sleeps. Sixteen ranks on two
// processors, ialltoall of 8 bytes: 250 µs without, 110 to 150 µs with 4 or more, because most of the wake-ups by
// system call disappear.
constexpr uint32_t kYields = 8;
// How long the progress thread dozes between two looks, for each rank that shares a processor; it takes over after one
// to two of them. A look costs the calling thread two switches and a timer, 10 µs on a virtual machine, so each look
// that finds nothing left to it doubles the doze, up to sixteen times as long: ialltoall of 1 MiB between two ranks
// bound to a processor each takes 190 to 260 µs without the doubling and 130 without any progress thread. After so many
// looks in vain it sleeps.
constexpr int64_t kDozeNanoseconds = 50'000;
constexpr uint32_t kDoublings = 4;
constexpr uint32_t kUneventful = 32;
// Tests that found nothing before peers are told which sends wait; one message for a call that takes a microsecond.
constexpr uint32_t kFruitlessTests = 64;
// The scheduling slice the progress thread asks for: woken beside a computing thread, it runs soon because it runs
// briefly.
constexpr uint64_t kSliceNanoseconds = 100'000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// What a waiter does before it sleeps. With a core for every rank it spins; with more ranks than cores it lets others
// run, which is how the message that it waits for gets written, and sleeps if they had nothing for it.
class Patience {
 public:
  explicit Patience(bool spin) : spin_(spin) {}
  // Once for every pass that found nothing. False: sleep now.
  bool idle() {
    ++passes_;
    if (!spin_) {
      if (passes_ > kYields) return false;
      sched_yield();
      return true;
    }
    if (passes_ <= kSpins) {
      relax();
      return true;
    }
    // The kernel may have put the rank that we wait for on our processor after all: let it run.
    sched_yield();
    const auto now = Clock::now();
    if (passes_ == kSpins + 1) until_ = now + kSpin;
    return now < until_;
  }
  void renew() { passes_ = 0; }

 private:
  bool spin_;
  uint32_t passes_ = 0;
  Clock::time_point until_;
};

// Best effort: kernels before 6.12 take the runtime of a SCHED_OTHER thread for nothing. What the user chose (nice,
// another policy) stays.
void ask_for_short_slice() {
#if defined(SYS_sched_setattr) && defined(SYS_sched_getattr)
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.size = sizeof attributes;
  attributes.runtime = kSliceNanoseconds;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

// Memory of requests that were pending when their world closed: a peer may write to it until it learns of the end.
std::vector<std::shared_ptr<void>>& graveyard() {
  static auto* keepers = new std::vector<std::shared_ptr<void>>();
  return *keepers;
}

}  // namespace

Engine::Engine(std::unique_ptr<Fabric> fabric, const EngineOptions& options, std::shared_ptr<SlotTable> slots,
               std::function<void()> notify)
    : fabric_(std::move(fabric)),
      options_(options),
      libof_(*fabric_, options.libof),
      slots_(std::move(slots)),
      notify_(std::move(notify)),
      by_slot_(new Operation* [kSlots] {}) {
  if (options_.progress_thread) thread_ = std::thread([this] { background(); });
}

Engine::~Engine() {
  if (thread_.joinable()) {
    stop_.store(true, std::memory_order_release);
    fabric_->ring_self(Sleeper::progress);
    thread_.join();
  }
  // Peers may still write to temporary buffers and read staged pieces: exposed memory stays too.
  if (active_.head != nullptr) graveyard().push_back(fabric_->memory());
  for (Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    // Where a failure was reported before, the slot is somebody else's by now.
    if (operation->slot != kNoSlot) slots_->set(operation->slot, static_cast<int32_t>(Error::closed));
    for (const Pinned& pin : operation->buffers) {
      if (pin.keeper != nullptr) graveyard().push_back(pin.keeper);
    }
  }
}

void Engine::abandon() {
  // The progress thread gives the engine up after its piece and does not get it again; so nothing of ours is written
  // after the announcement. The bound is for an end that came from inside the engine.
  lock_.lock_within(200);
  fabric_->announce_closed();
}

// --- starting --------------------------------------------------------------------------------------------------------

Engine::Operation& Engine::new_operation(uint32_t slot) {
  Operation* operation = free_.head;
  if (operation == nullptr) {
    operation = &pool_.emplace_back();
  } else {
    free_.remove(operation);
  }
  operation->outstanding = 0;
  operation->waiting_rtr = 0;
  operation->error = Error::none;
  operation->round = 0;
  operation->slot = slot;
  operation->watched = false;
  operation->last_round = false;
  operation->starting = true;
  operation->pins = operation->buffers;
  slots_->set(slot, static_cast<int32_t>(SlotState::pending));
  by_slot_[slot] = operation;
  active_.push(operation);
  ++counters_.started;
  return *operation;
}

Engine::Operation* Engine::pending(uint32_t slot) const {
  return slots_->get(slot) == static_cast<int32_t>(SlotState::pending) ? by_slot_[slot] : nullptr;
}

bool Engine::start(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive) {
  enter();
  Operation& operation = new_operation(slot);
  operation.plan = plan;
  operation.tag = plan->group->next_tag++;
  operation.base[static_cast<size_t>(Role::send)] = send.data;
  operation.base[static_cast<size_t>(Role::receive)] = receive.data;
  operation.buffers[0] = std::move(send);
  operation.buffers[1] = std::move(receive);
  std::byte*& temporary = operation.base[static_cast<size_t>(Role::temporary)];
  temporary = nullptr;
  if (const uint64_t bytes = plan->plan.role_bytes[static_cast<size_t>(Role::temporary)]; bytes > 0) {
    temporary = static_cast<std::byte*>(plan->spare_temporary);
    plan->spare_temporary = nullptr;
    if (temporary == nullptr) temporary = static_cast<std::byte*>(fabric_->memory()->allocate(bytes));
    if (temporary == nullptr) operation.error = Error::system;
  }
  ++unfinished_rounds_;
  advance(operation);
  return after_start(slot);
}

bool Engine::message(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag, bool sends) {
  enter();
  Operation& operation = new_operation(slot);
  operation.last_round = true;
  const uint64_t stream = static_cast<uint64_t>(peer) << 32 | tag;
  const libof::MessageKey key{group.context + 1, tag, (sends ? group.sent : group.received)[stream]++};
  operation.buffers[0] = std::move(buffer);
  const Pinned& pin = operation.buffers[0];
  const Rank world = group.members[peer];
  const bool complete = sends ? libof_.isend(operation, world, key, pin.data, pin.bytes)
                              : libof_.irecv(operation, world, key, pin.data, pin.bytes);
  if (sends) poll_for_rtr(operation, 0, options_.wait_on_send_us);
  if (complete) finish(operation);
  return after_start(slot);
}

bool Engine::isend(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag) {
  return message(group, slot, std::move(buffer), peer, tag, true);
}

bool Engine::irecv(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag) {
  return message(group, slot, std::move(buffer), peer, tag, false);
}

// The end of every start: test-on-init for all that is pending, and work that is too small to hand over.
bool Engine::after_start(uint32_t slot) {
  fabric_->flush();
  if (by_slot_[slot] != nullptr && options_.libof.test_on_init) {
    pass(Effort::look);
    while (fabric_->has_short_work()) pass(Effort::pass);
  }
  // Without a progress thread, what the paper's network would do by itself is done here: data whose RTR was caught
  // moves.
  if (!options_.progress_thread && (options_.wait_on_send_us > 0 || options_.startall_us > 0)) {
    while (fabric_->work() > 0) pass(Effort::pass);
  }
  Operation* const still = by_slot_[slot];
  if (still != nullptr) still->starting = false;
  const bool complete = still == nullptr && slots_->get(slot) == static_cast<int32_t>(SlotState::pending);
  leave();
  return complete;
}

void Engine::poll_for_rtr(Operation& operation, uint32_t target, uint32_t microseconds) {
  if (microseconds == 0 || operation.waiting_rtr <= target) return;
  const auto limit = Clock::now() + std::chrono::microseconds(microseconds);
  fabric_->flush();
  while (operation.waiting_rtr > target && Clock::now() < limit) {
    libof_.progress(Effort::pass);
    fabric_->flush();
    relax();
  }
}

// --- executing -------------------------------------------------------------------------------------------------------

void Engine::start_round(Operation& operation, const Round& round) {
  const LoadedPlan& loaded = *operation.plan;
  const Plan& plan = loaded.plan;
  const uint64_t context = loaded.group->context;
  ++counters_.rounds;
  for (uint32_t i = round.receive_first; i < round.receive_last; ++i) {
    const Transfer& t = plan.receives[i];
    libof_.irecv(operation, t.peer, {context, operation.tag, t.sequence},
                 operation.base[static_cast<size_t>(t.role)] + t.offset, t.bytes);
  }
  for (uint32_t i = round.send_first; i < round.send_last; ++i) {
    const Transfer& t = plan.sends[i];
    const uint32_t before = operation.waiting_rtr;
    libof_.isend(operation, t.peer, {context, operation.tag, t.sequence},
                 operation.base[static_cast<size_t>(t.role)] + t.offset, t.bytes);
    poll_for_rtr(operation, before, options_.wait_on_send_us);
  }
  if (round.copy_first < round.copy_last) {
    fabric_->flush();  // peers can work while we copy
    for (uint32_t i = round.copy_first; i < round.copy_last; ++i) {
      const Copy& c = plan.copies[i];
      std::memcpy(operation.base[static_cast<size_t>(c.to)] + c.to_offset,
                  operation.base[static_cast<size_t>(c.from)] + c.from_offset, c.bytes);
    }
  }
  poll_for_rtr(operation, 0, options_.startall_us);
}

// Called with nothing outstanding: starts rounds until one has something to wait for, or finishes.
void Engine::advance(Operation& operation) {
  if (operation.plan != nullptr) {
    const auto& rounds = operation.plan->plan.rounds;
    while (operation.error == Error::none && operation.round < rounds.size()) {
      const Round& round = rounds[operation.round++];
      operation.last_round = operation.round == rounds.size();
      if (operation.last_round) --unfinished_rounds_;
      operation.outstanding = 1;  // holds the operation back until all of the round is started
      start_round(operation, round);
      if (--operation.outstanding > 0) return;
    }
    if (!operation.last_round) {
      operation.last_round = true;
      --unfinished_rounds_;
    }
  }
  finish(operation);
}

// The user learns of a failure at once; the operation itself lives on until its other messages have ended, because
// peers may still write to its buffers.
void Engine::report_failure(Operation& operation) {
  if (operation.slot == kNoSlot) return;
  if (operation.watched) {
    --watched_;
    operation.watched = false;
    notify_pending_ = true;
  }
  const std::string peer = "rank " + std::to_string(operation.error_peer) + " of the world";
  std::string& text = explanations_[operation.slot];
  switch (operation.error) {
    case Error::truncated:
      text = peer + " and this rank disagree about the size of a message: " + std::to_string(operation.error_expected) +
             " bytes here, " + std::to_string(operation.error_got) + " there";
      break;
    case Error::peer_closed:
      text = peer + " closed its world while this request still needed it";
      break;
    case Error::mismatch:
    case Error::unreachable:
      text = fabric_->why(operation.error_peer);
      break;
    case Error::memory:
      text = fabric_->why(fabric_->rank());
      break;
    default:
      text = "moving data between this rank and " + peer + " failed: the system refused, or memory ran out";
  }
  by_slot_[operation.slot] = nullptr;
  slots_->set(operation.slot, static_cast<int32_t>(operation.error));
  operation.slot = kNoSlot;
}

void Engine::finish(Operation& operation) {
  libof_.forget_ready(operation);
  std::byte*& temporary = operation.base[static_cast<size_t>(Role::temporary)];
  if (temporary != nullptr) {
    if (operation.plan->spare_temporary == nullptr) {
      operation.plan->spare_temporary = temporary;
    } else {
      fabric_->memory()->release(temporary);
    }
    temporary = nullptr;
  }
  operation.plan.reset();
  for (Pinned& pin : operation.buffers) pin.keeper.reset();
  if (operation.error != Error::none) report_failure(operation);
  if (operation.watched) {
    --watched_;
    notify_pending_ = true;
  }
  if (operation.slot != kNoSlot) {
    by_slot_[operation.slot] = nullptr;
    // While it is being started, being complete is the return value, and the slot stays free.
    if (!operation.starting) slots_->set(operation.slot, static_cast<int32_t>(SlotState::done));
  }
  active_.remove(&operation);
  free_.push(&operation);
}

bool Engine::pass(Effort effort) {
  const bool moved = libof_.progress(effort);
  while (libof::Waiter* waiter = libof_.take_ready()) {
    auto& operation = static_cast<Operation&>(*waiter);
    if (operation.outstanding == 0) {
      advance(operation);
    } else {
      report_failure(operation);
    }
  }
  fabric_->flush();
  return moved;
}

// The pass between arming the doorbell and sleeping. False: nothing moved, nothing is left to move, and all has been
// said that peers must know. Room for data that wait to leave is work, but nothing that moved; and the pass that finds
// it takes what would have rung.
bool Engine::last_pass(Effort effort) {
  if (pass(effort) || libof_.fail_closed_peers()) return true;
  libof_.announce_sends();
  fabric_->flush();
  return fabric_->work() > 0;
}

// --- who drives ------------------------------------------------------------------------------------------------------

// True if something is pending that does not land by itself: rounds to start, sends that wait for peers, completions to
// be told, messages that the fabric has not let go, more messages than the slots that they land in.
bool Engine::background_needed() const {
  return unfinished_rounds_ + watched_ > 0 || libof_.needs_driving() ||
         (fabric_->receiver_copies() && active_.head != nullptr) || fabric_->work() > 0 || fabric_->holds_back() ||
         libof_.most_arrivals(fabric_->put_window()) != UINT32_MAX;
}

// How many messages must arrive before any operation can take a step: what the doorbell counts. With sends pending any
// message may matter; a round that only receives needs all of its messages.
uint32_t Engine::arrivals_needed(bool waiting) const {
  if (libof_.needs_driving() || fabric_->receiver_copies()) return 1;
  int32_t least = INT32_MAX;
  for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    if (waiting || operation->watched || !operation->last_round) least = std::min(least, operation->outstanding);
  }
  return std::min(static_cast<uint32_t>(std::max(least, 1)), libof_.most_arrivals(fabric_->put_window()));
}

// How many ranks share a processor. Ranks may be bound one by one, so only all of their masks together tell.
void Engine::measure_crowd() {
  if (crowd_known_) return;
  const Crowd crowd = fabric_->crowd();
  crowd_known_ = crowd.complete;
  crowd_.store((crowd.ranks + crowd.processors - 1) / crowd.processors, std::memory_order_relaxed);
}

int64_t Engine::doze(uint32_t uneventful) const {
  return kDozeNanoseconds * crowd_.load(std::memory_order_relaxed) << std::min(uneventful, kDoublings);
}

// The calling thread takes the engine over.
void Engine::enter() {
  lock_.lock();
  entered();
}

void Engine::entered() {
  ++entries_;
  handed_over_ = false;
  if (unattended_.load(std::memory_order_relaxed)) unattended_.store(false, std::memory_order_relaxed);
  fabric_->disarm();
}

void Engine::unlock_and_notify() {
  const bool notify = notify_pending_;
  notify_pending_ = false;
  lock_.unlock();
  if (notify) notify_();
}

// The calling thread goes back to its own work, and will probably be back soon.
void Engine::leave() {
  bool ring = false;
  if (options_.progress_thread && background_needed()) {
    unattended_.store(true, std::memory_order_seq_cst);
    // Loading first: in a loop of operations the progress thread dozes all the time, and this is a read.
    ring = !dozing_.load(std::memory_order_seq_cst) && !dozing_.exchange(true, std::memory_order_seq_cst);
    if (ring && fabric_->ring_self_later(Sleeper::progress, doze(0))) {
      seen_ = entries_;  // its first doze begins here
      ring = false;
    }
  }
  unlock_and_notify();
  if (ring) fabric_->ring_self(Sleeper::progress);
}

// The calling thread leaves for long: the progress thread becomes responsible now. A peer may ring for it between the
// last look and the unlocking; it then finds the door locked and sleeps again. So the caller looks back at the bell,
// after a fence that pairs with the progress thread's failed attempt, and goes in again if it was rung and nobody has
// the engine (found by native/test/model).
void Engine::hand_over() {
  if (!options_.progress_thread) return unlock_and_notify();
  for (;;) {
    bool armed = false;
    while (background_needed()) {
      handed_over_ = true;
      if (fabric_->work() > 0) {
        unlock_and_notify();
        fabric_->ring_self(Sleeper::progress);
        return;
      }
      fabric_->arm(Sleeper::progress, arrivals_needed(false));
      armed = true;
      if (!last_pass(Effort::look)) break;
      fabric_->disarm();
      armed = false;
    }
    unlock_and_notify();
    if (!armed) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (fabric_->is_armed() || !lock_.try_lock()) return;
    fabric_->disarm();
    pass(Effort::look);
  }
}

void Engine::background() {
  pthread_setname_np(pthread_self(), "nbc-progress");
  ask_for_short_slice();
  uint32_t uneventful = 0;  // dozes in which nothing was left unattended
  for (;;) {
    // The ticket comes before everything that is looked at: whoever changes any of it afterwards makes sleep() return.
    const uint32_t ticket = fabric_->ticket(Sleeper::progress);
    if (stop_.load(std::memory_order_acquire)) return;
    // Pairs with the fence in hand_over(): if the attempt to lock fails, the caller, looking back, sees that the bell
    // was rung.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ++uneventful;
    bool alone = false;  // the calling thread is away, and nothing is left to find
    // If the calling thread has the engine, it will look after everything, and note what it leaves behind.
    if (lock_.try_lock()) {
      // Nothing pending here stands for it, so nobody else might come to it: a peer asks for a connection.
      if (fabric_->called()) pass(Effort::look);
      const bool unattended = unattended_.load(std::memory_order_relaxed);
      if (unattended) uneventful = 0;
      if (handed_over_ || (unattended && entries_ == seen_)) {
        unattended_.store(false, std::memory_order_relaxed);
        drive();
        alone = true;
      } else {
        alone = !unattended && entries_ == seen_;
        seen_ = entries_;
        unlock_and_notify();
      }
    }
    if ((alone || uneventful > kUneventful) && dozing_.load(std::memory_order_relaxed)) {
      dozing_.store(false, std::memory_order_seq_cst);
      if (unattended_.load(std::memory_order_seq_cst)) dozing_.store(true, std::memory_order_seq_cst);
      uneventful = 0;
    }
    // Called and not served: the calling thread has the engine, and serves it unless it is about to leave.
    const bool dozes = dozing_.load(std::memory_order_relaxed) || fabric_->called();
    fabric_->sleep(Sleeper::progress, ticket, dozes ? doze(uneventful) : -1);
  }
}

// The progress thread, owning the engine: until nothing can move, or the calling thread wants it back. Releases the
// lock.
void Engine::drive() {
  ++counters_.progress_wakeups;
  handed_over_ = true;
  while (!lock_.wanted() && background_needed()) {
    ++counters_.progress_passes;
    if (pass(Effort::pass) || fabric_->work() > 0) continue;
    fabric_->arm(Sleeper::progress, arrivals_needed(false));
    if (!last_pass(Effort::look)) break;
    fabric_->disarm();
  }
  unlock_and_notify();
}

// --- calls -----------------------------------------------------------------------------------------------------------

void Engine::test() {
  // If the progress thread is at it, it gives way after its piece. To return without a look would be cheaper, but then
  // a test could say "not done" of something that has long arrived.
  enter();
  if (pass(Effort::pass)) {
    fruitless_tests_ = 0;
  } else if (++fruitless_tests_ == kFruitlessTests) {
    // A rank that only ever tests never comes to where it would sleep.
    fruitless_tests_ = 0;
    if (last_pass(Effort::look)) pass(Effort::look);
  } else if (libof_.fail_closed_peers()) {
    pass(Effort::look);
  }
  leave();
}

bool Engine::settled(const uint32_t* slots, size_t count, bool all) const {
  for (size_t i = 0; i < count; ++i) {
    const bool done = slots_->get(slots[i]) != static_cast<int32_t>(SlotState::pending);
    if (done != all) return done;
  }
  return all;
}

bool Engine::wait(const uint32_t* slots, size_t count, bool all, int64_t nanoseconds) {
  if (settled(slots, count, all)) return true;
  enter();
  const bool limited = nanoseconds >= 0;
  const auto limit = limited ? Clock::now() + std::chrono::nanoseconds(nanoseconds) : Clock::time_point::max();
  measure_crowd();
  Patience patience(crowd_.load(std::memory_order_relaxed) <= 1);
  bool done;
  for (;;) {
    const bool moved = pass(Effort::helping);
    done = settled(slots, count, all);
    if (done) break;
    const bool busy = moved || fabric_->work() > 0;
    if (busy) {
      patience.renew();
    } else if (patience.idle()) {
      continue;
    }
    const auto now = limited ? Clock::now() : Clock::time_point::min();
    if (now >= limit) break;
    if (busy) continue;
    const uint32_t ticket = fabric_->ticket(Sleeper::caller);
    fabric_->arm(Sleeper::caller, arrivals_needed(true));
    const bool news = last_pass(Effort::helping);
    done = settled(slots, count, all);
    if (!news && !done) {
      const int64_t left = limited ? std::chrono::duration_cast<std::chrono::nanoseconds>(limit - now).count() : -1;
      fabric_->sleep(Sleeper::caller, ticket, left);
      patience.renew();
    }
    fabric_->disarm();
    if (done) break;
  }
  leave();
  return done;
}

void Engine::startall(const uint32_t* slots, size_t count, uint32_t microseconds) {
  enter();
  const auto limit = Clock::now() + std::chrono::microseconds(microseconds);
  const auto waiting = [&] {
    for (size_t i = 0; i < count; ++i) {
      const Operation* operation = pending(slots[i]);
      if (operation != nullptr && operation->waiting_rtr > 0) return true;
    }
    return false;
  };
  while (waiting() && Clock::now() < limit) {
    pass(Effort::pass);
    relax();
  }
  if (!options_.progress_thread) {
    while (fabric_->work() > 0) pass(Effort::pass);
  }
  leave();
}

void Engine::watch(uint32_t slot) {
  enter();
  Operation* operation = pending(slot);
  if (operation == nullptr) {
    notify_pending_ = true;  // it has ended already: the caller is told the same way
  } else if (!operation->watched) {
    operation->watched = true;
    ++watched_;
  }
  hand_over();
}

std::string Engine::explain(uint32_t slot) {
  enter();
  const auto it = explanations_.find(slot);
  std::string text = it == explanations_.end() ? std::string() : it->second;
  leave();
  return text;
}

void Engine::visit_counters(const std::function<void(const char*, double)>& visit) {
  enter();
  const auto add = [&](const char* name, uint64_t value) { visit(name, static_cast<double>(value)); };
  const libof::Counters& l = libof_.counters();
  add("started", counters_.started);
  add("rounds", counters_.rounds);
  add("eagerSent", l.eager_sent);
  add("eagerStalled", l.eager_stalled);
  add("eagerUnexpected", l.eager_unexpected);
  add("acksPiggybacked", l.acks_piggybacked);
  add("acksExplicit", l.acks_explicit);
  add("rtrSent", l.rtr_sent);
  add("rtrStalled", l.rtr_stalled);
  add("rtrEarly", l.rtr_early);
  add("rtsSent", l.rts_sent);
  add("dataSent", l.data_sent);
  add("connections", l.connections);
  fabric_->visit_counters(visit);
  add("progressWakeups", counters_.progress_wakeups);
  add("progressPasses", counters_.progress_passes);
  add("allocatedBytes", fabric_->memory()->used());
  leave();
}

}  // namespace nbc
