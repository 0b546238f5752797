// Who drives the engine, and who sleeps: the calling thread in test and wait, otherwise the progress thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/relax.h"

namespace nbc {
namespace {

using Clock = std::chrono::steady_clock;

// A waiter with a core of its own polls this long before it sleeps: about twice what waking it would cost (23 µs).
constexpr auto kSpin = std::chrono::microseconds(50);
// Passes between two readings of the clock: about a microsecond.
constexpr uint32_t kPassesPerReading = 16;
// A waiter with more ranks than processors lets others run before it sleeps: so they have about this many turns, in so
// many yields. Sixteen ranks on two processors, ialltoall of 8 bytes: 250 µs without any, 110 to 150 µs with 4 or more,
// because most of the wake-ups by system call disappear. Who yields keeps its processor busy, so that the kernel moves
// nobody there who still waits for another one: a barrier of 16 threads that were woken at once takes 80 µs with 3
// yields of each and 108 with 8, an iallreduce of 8 threads 49 and 66. Four ranks want 8 (ialltoall 48 µs, and 56).
constexpr uint32_t kTurns = 24;
constexpr uint32_t kFewestYields = 3;
constexpr uint32_t kMostYields = 8;
// A yield that is over sooner let nobody run: it takes 0.25 µs then, and 1.4 µs or more beside a thread that yields,
// too. While nobody else wants the processor, a waiter polls as long as one with a core of its own. To wake it on an
// idle processor costs 25 to 40 µs on a virtual machine: an igather of 8 bytes took 4, 8 and 16 threads on two
// processors 78, 92 and 120 µs when the root slept after 8 such yields (6 µs), and takes 25, 43 and 51.
constexpr auto kNobodyRan = std::chrono::nanoseconds(800);
// What others had the processor for is a whole slice, and no turn of each rank that shares it, if it took longer.
constexpr auto kLongYield = std::chrono::microseconds(500);
constexpr auto kTurn = std::chrono::microseconds(20);
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

// A sleeper that counts several arrivals does not see that the first of them has failed its operation; and the time
// that peers have for what was given up passes without any arrival. So it looks again after so many nanoseconds; a look
// costs some microseconds.
constexpr int64_t kLookAgain = 100'000'000;

// Operations that are examined for what the doorbell counts. With more, it counts to 1: to ring too early is no error.
constexpr uint32_t kExamined = 64;

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

}  // namespace

// --- what is needed --------------------------------------------------------------------------------------------------

// True if something is pending that does not land by itself: rounds to start, sends that wait for peers, completions to
// be told, messages that the fabric has not let go, more messages than the slots that they land in. Where the receiver
// takes part in transfers, also messages that were given up: their senders wait until this rank has dropped the data.
bool Engine::background_needed() const {
  return unfinished_rounds_ + watched_ > 0 || libof_.needs_driving() ||
         (fabric_->receiver_copies() && (active_.head != nullptr || libof_.has_orphans())) || has_work() ||
         with_threads_ > 0 || fabric_->holds_back() || libof_.most_arrivals(fabric_->put_window()) != UINT32_MAX;
}

// How many messages must arrive before any operation can take a step: what the doorbell counts. With sends pending any
// message may matter; a round that only receives needs all of its messages.
uint32_t Engine::arrivals_needed(bool waiting) const {
  if (libof_.needs_driving() || fabric_->receiver_copies()) return 1;
  int32_t least = INT32_MAX;
  uint32_t examined = 0;
  for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    if (waiting || operation->watched || !operation->last_round) least = std::min(least, operation->outstanding);
    if (least <= 1 || ++examined == kExamined) return 1;
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

// --- taking and leaving ----------------------------------------------------------------------------------------------

// The calling thread takes the engine over.
void Engine::enter() {
  lock_.lock();
  entered();
}

void Engine::entered() {
  ++entries_;
  handed_over_ = false;
  if (loop_armed_ && !fabric_->is_armed()) ++counters_.loop_wakeups;
  loop_armed_ = false;
  fabric_->note_processor();
  if (unattended_.load(std::memory_order_relaxed)) unattended_.store(false, std::memory_order_relaxed);
  fabric_->disarm();
}

void Engine::unlock_and_notify() {
#ifdef NBC_CHECK_INVARIANTS
  if (!fabric_->flushed()) {
    std::fprintf(stderr, "rank %u gives the engine up without flush(): a sleeping peer misses a message\n",
                 fabric_->rank());
    std::abort();
  }
#endif
  const bool notify = notify_pending_ || function_pending_;
  notify_pending_ = function_pending_ = false;
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

// The calling thread leaves for long: the progress thread becomes responsible now. It may sleep without a limit, so the
// first arrival wakes it. A peer may ring for it between the last look and the unlocking; it then finds the engine
// locked and sleeps again. So the caller looks back at the bell, after a fence that pairs with the progress thread's
// failed attempt, and goes in again if it was rung and nobody has the engine (found by native/test/model).
void Engine::hand_over() {
  if (!options_.progress_thread) return unlock_and_notify();
  for (;;) {
    bool armed = false;
    while (background_needed()) {
      handed_over_ = true;
      if (has_work() || libof_.is_revoking() || asks_) {
        unlock_and_notify();
        fabric_->ring_self(Sleeper::progress);
        return;
      }
      fabric_->arm(Sleeper::progress, 1);
      armed = true;
      if (!last_pass(Effort::look)) break;
      fabric_->disarm();
      armed = false;
    }
    unlock_and_notify();
    if (!armed) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // The thread of a function rings without taking the arming back.
    if ((fabric_->is_armed() && !user_work_->has_results()) || !lock_.try_lock()) return;
    fabric_->disarm();
    pass(Effort::look);
  }
}

// --- the progress thread ---------------------------------------------------------------------------------------------

void Engine::background() {
  pthread_setname_np(pthread_self(), "nbc-progress");
  ask_for_short_slice();
  uint32_t uneventful = 0;              // dozes in which nothing was left unattended
  uint64_t look_again_at = UINT64_MAX;  // `entries_` when this thread went to sleep with the event loop, to look again
  for (;;) {
    // The ticket comes before everything that is looked at: a change of any of it afterwards makes sleep() return.
    const uint32_t ticket = fabric_->ticket(Sleeper::progress);
    if (stop_.load(std::memory_order_acquire)) return;
    // Pairs with the fence in hand_over(): if the attempt to lock fails, the caller, looking back, sees that the bell
    // was rung.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ++uneventful;
    bool alone = false;  // the calling thread is away, and nothing is left to find
    bool again = false;  // it has to look again after a while
    // If the calling thread has the engine, it will look after everything, and note what it leaves behind.
    if (lock_.try_lock()) {
      // Nothing pending here stands for it, so nobody else might come to it: a peer asks for a connection.
      if (fabric_->called()) pass(Effort::look);
      // The event loop sleeps, or computes and misses nothing: no peer has rung for it.
      const bool loop_waits = loop_armed_ && fabric_->is_armed();
      const bool rung_just_now = loop_armed_ && !loop_waits && rung_at_ != entries_;
      if (rung_just_now) {
        // The calling thread has a doze to come back.
        rung_at_ = entries_;
        dozing_.store(true, std::memory_order_relaxed);
        unattended_.store(true, std::memory_order_relaxed);
      }
      const bool unattended = unattended_.load(std::memory_order_relaxed);
      if (unattended && !loop_waits) uneventful = 0;
      // The thread of a function has given a result back, and nobody else might look for it.
      const bool looks_again = (loop_waits && entries_ == look_again_at) || user_work_->has_results();
      look_again_at = UINT64_MAX;
      if (handed_over_ || looks_again || (unattended && entries_ == seen_ && !loop_waits && !rung_just_now)) {
        unattended_.store(false, std::memory_order_relaxed);
        if (looks_again) fabric_->disarm();
        again = drive();
        alone = true;
      } else if (loop_waits && uneventful > kUneventful && fabric_->arm_progress_too()) {
        unattended_.store(false, std::memory_order_relaxed);
        again = loop_looks_again_;
        if (again) look_again_at = entries_;
        unlock_and_notify();
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
    fabric_->sleep(Sleeper::progress, ticket, dozes ? doze(uneventful) : again ? kLookAgain : -1);
  }
}

// The progress thread, owning the engine: until nothing can move, or the calling thread wants it back. Releases the
// lock. True: it has to look again after a while.
bool Engine::drive() {
  ++counters_.progress_wakeups;
  handed_over_ = true;
  loop_armed_ = false;
  bool again = false;
  const uint64_t began = trace_ == nullptr ? 0 : trace_->ticks();
  while (!lock_.wanted() && background_needed()) {
    ++counters_.progress_passes;
    if (pass(Effort::driving) || has_work()) continue;
    const uint32_t need = arrivals_needed(false);
    fabric_->arm(Sleeper::progress, need);
    if (!last_pass(Effort::look)) {
      again = looks_again(need);
      break;
    }
    fabric_->disarm();
  }
  if (trace_ != nullptr) trace_->driving(began);
  unlock_and_notify();
  return again;
}

// --- the calling thread ----------------------------------------------------------------------------------------------

// What a thread does that waits before it sleeps. With a core for every rank it spins; with more ranks than cores it
// lets others run, which is how the message that it waits for gets written, and sleeps if they had nothing for it.
//
// A rank may have a core and still share it: the kernel puts two ranks on one when the other core is busy, or when one
// wakes the other. Then spinning keeps the peer from running, and sched_yield() may let a third process run for a whole
// slice. To sleep at once costs one switch. The wake-up often puts the rank on a core that is free; where it does not
// for long, Placement does.
//
// Where processors are busy, the peer may have one of its own and still not run. Only experience tells: when some spins
// in a row were in vain, a waiter sleeps almost at once, and tries again now and then.
class Engine::Spinning {
 public:
  Spinning(Engine& engine, SpinHistory& history, std::chrono::nanoseconds duration)
      : engine_(engine), history_(history), duration_(duration) {
    engine.measure_crowd();
    const uint32_t crowd = engine.crowd_.load(std::memory_order_relaxed);
    alone_ = crowd <= 1;
    most_yields_ = std::clamp(kTurns / std::max(crowd, 1u), kFewestYields, kMostYields);
  }
  // Once for every pass that found nothing. False: sleep now.
  bool goes_on() {
    ++passes_;
    if (!alone_) return lets_others_run();
    relax();
    if (passes_ % kPassesPerReading != 0) return true;
    if (const Rank peer = engine_.libof_.peer_on_own_processor(); peer != libof::LibOF::kNobody) {
      if (peer < engine_.fabric_->rank()) engine_.placement_.shares_processor();
      return false;
    }
    const auto now = Clock::now();
    if (passes_ == kPassesPerReading) {
      until_ = now + duration_;
      return history_.worth_it();
    }
    if (now < until_) return true;
    history_.in_vain();
    return false;
  }
  // Something has moved.
  void renew() {
    if (passes_ > 1 && (alone_ || spins_ == Spins::yes)) history_.worked();
    start_again();
  }
  // After the thread has slept.
  void start_again() {
    passes_ = yields_ = 0;
    spins_ = Spins::not_yet;
  }

 private:
  bool lets_others_run() {
    YieldHistory& history = engine_.yield_history_;
    if (yields_ == most_yields_) return false;
    const auto before = Clock::now();
    if (!history.worth_it(before)) return false;
    sched_yield();
    const auto after = Clock::now();
    if (after - before < kNobodyRan && is_worth_spinning(before, after)) return true;
    ++yields_;
    until_ += after - before;  // others ran meanwhile
    if (after - before > kLongYield + kTurn * engine_.crowd_.load(std::memory_order_relaxed))
      history.was_long(before, after);
    return true;
  }

  // Of a rank that shares its processor, while nobody else wants it.
  bool is_worth_spinning(Clock::time_point before, Clock::time_point after) {
    if (spins_ == Spins::not_yet) {
      until_ = before + duration_;
      spins_ = history_.worth_it() ? Spins::yes : Spins::no;
    }
    if (spins_ == Spins::no) return false;
    if (after < until_) return true;
    history_.in_vain();
    spins_ = Spins::no;
    return false;
  }

  enum class Spins { not_yet, yes, no };
  Engine& engine_;
  SpinHistory& history_;
  std::chrono::nanoseconds duration_;
  bool alone_;  // on its processor, as far as the numbers of ranks and processors tell
  uint32_t passes_ = 0;
  uint32_t yields_ = 0;  // in which others may have run
  uint32_t most_yields_;
  Spins spins_ = Spins::not_yet;
  Clock::time_point until_;
};

void Engine::test() {
  const TracedCall traced(*this, Trace::Call::test);
  // If the progress thread is at it, it gives way after its piece. To return without a look would be cheaper, but then
  // a test could say "not done" of something that has long arrived.
  enter();
  if (pass(Effort::pass)) {
    fruitless_tests_ = 0;
  } else {
    look_further();
  }
  leave();
}

// After a pass in vain, in a call that does not sleep: a rank that only makes such calls never comes to where it would.
void Engine::look_further() {
  if (++fruitless_tests_ == kFruitlessTests) {
    fruitless_tests_ = 0;
    if (last_pass(Effort::look)) pass(Effort::look);
  } else if (libof_.fail_closed_peers()) {
    pass(Effort::look);
  }
}

bool Engine::settled(const uint32_t* slots, size_t count, bool all) const {
  for (size_t i = 0; i < count; ++i) {
    const bool done = slots_->get(slots[i]) != static_cast<int32_t>(SlotState::pending);
    if (done != all) return done;
  }
  return all;
}

bool Engine::wait(const uint32_t* slots, size_t count, bool all, int64_t nanoseconds) {
  TracedCall traced(*this, Trace::Call::wait);
  if (settled(slots, count, all)) {
    traced.ends_at_once();
    return true;
  }
  enter();
  traced.lasts(count == 1 ? by_slot_[slots[0]] : nullptr);
  if (meter_.is_on()) meter_.begin_wait();
  const bool limited = nanoseconds >= 0;
  const auto limit = limited ? Clock::now() + std::chrono::nanoseconds(nanoseconds) : Clock::time_point::max();
  const std::chrono::nanoseconds spin = kSpin;
  Spinning spinning(*this, wait_history_, limited ? std::min(spin, std::chrono::nanoseconds(nanoseconds)) : spin);
  bool done;
  for (;;) {
    const bool moved = pass(Effort::helping, LocalWork::kLargePiece);
    const bool busy = moved || has_work();
    if (busy) spinning.renew();
    done = settled(slots, count, all);
    if (done || user_work_->waits()) break;
    if (!busy && nanoseconds != 0 && spinning.goes_on()) continue;
    const auto now = limited ? Clock::now() : Clock::time_point::min();
    if (now >= limit) break;
    if (busy) continue;
    const uint32_t ticket = fabric_->ticket(Sleeper::caller);
    answer_if_asked();
    const uint32_t need = arrivals_needed(true);
    fabric_->arm(Sleeper::caller, need);
    const bool news = last_pass(Effort::helping);
    done = settled(slots, count, all);
    if (!news && !done && !user_work_->waits()) {
      int64_t left = limited ? std::chrono::duration_cast<std::chrono::nanoseconds>(limit - now).count() : -1;
      if (looks_again(need) && (!limited || left > kLookAgain)) left = kLookAgain;
      fabric_->sleep(Sleeper::caller, ticket, left);
      fabric_->note_processor();
      spinning.start_again();
    }
    fabric_->disarm();
    if (done) break;
  }
  if (!done) function_pending_ = false;  // the caller looks
  if (meter_.is_on()) meter_.end_wait();
  traced.ends();
  leave();
  return done;
}

void Engine::startall(const uint32_t* slots, size_t count, uint32_t microseconds) {
  const TracedCall traced(*this, Trace::Call::startall);
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
    while (has_work()) pass(Effort::pass);
  }
  leave();
}

// --- the event loop --------------------------------------------------------------------------------------------------

void Engine::watch(uint32_t slot) {
  if (slot >= kSlots) return;
  Operation* operation = pending(slot);
  if (operation == nullptr) {
    ended_.push_back(slot);  // before it could be watched
  } else if (!operation->watched) {
    operation->watched = true;
    ++watched_;
  }
}

size_t Engine::take_ended() {
  const size_t count = std::min<size_t>(ended_.size(), kExchange);
  std::copy_n(ended_.begin(), count, slots_->exchange());
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<ptrdiff_t>(count));
  if (ended_.empty()) notify_pending_ = false;
  return count;
}

void Engine::drive_until_ended(int64_t nanoseconds) {
  pass(Effort::helping);
  if (nanoseconds == 0 || !ended_.empty() || user_work_->waits()) return;
  const std::chrono::nanoseconds duration(nanoseconds);
  const auto limit = Clock::now() + duration;
  Spinning spinning(*this, look_history_, duration);
  for (uint32_t passes = 1;; ++passes) {
    const bool busy = pass(Effort::helping) || has_work();
    if (busy) {
      spinning.renew();
    } else if (!spinning.goes_on()) {
      return;
    }
    // A pass that copies may last as long as many others.
    const bool reads_clock = busy || passes % kPassesPerReading == 0;
    if (!ended_.empty() || user_work_->waits() || (reads_clock && Clock::now() >= limit)) return;
  }
}

size_t Engine::look(size_t count, int64_t nanoseconds) {
  const TracedCall traced(*this, Trace::Call::look);
  enter();
  const uint32_t* slots = slots_->exchange();
  for (size_t i = 0; i < count; ++i) watch(slots[i]);
  if (meter_.is_on()) meter_.begin_wait();
  if (ended_.empty()) drive_until_ended(nanoseconds);
  if (ended_.empty()) look_further();
  if (meter_.is_on()) meter_.end_wait();
  const size_t ended = take_ended();
  function_pending_ = false;  // the caller looks
  leave();
  return ended;
}

int Engine::open_loop() {
  enter();
  const int descriptor = options_.progress_thread ? fabric_->open_loop() : -1;
  has_loop_ = descriptor >= 0;
  leave();
  return descriptor;
}

void Engine::forgo_loop() {
  enter();
  has_loop_ = false;
  leave();
}

bool Engine::rest() {
  enter();
  while (ended_.empty() && !user_work_->waits() && background_needed()) {
    if (!has_loop_ || has_work()) {
      hand_over();
      return true;
    }
    const uint32_t need = arrivals_needed(false);
    fabric_->arm(Sleeper::loop, need);
    if (!last_pass(Effort::look)) {
      loop_armed_ = true;
      loop_looks_again_ = looks_again(need);
      break;
    }
    fabric_->disarm();
  }
  const bool none = ended_.empty() && !user_work_->waits();
  if (!none) notify_pending_ = function_pending_ = false;  // the caller looks
  leave();
  return none;
}

}  // namespace nbc
