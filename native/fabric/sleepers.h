// Two threads that may sleep on descriptors at a time: the calling thread, which then owns the engine, and the progress
// thread, which does not. Each has an eventfd (ring) and an epoll set with it, to which a fabric adds what else wakes.
// What tells of messages wakes one of them at a time, the one that it was armed for last, and only once; how that is
// done is the fabric's business.
//
//   word      written by                                   order
//   armed_    owner: mark_armed(), disarm(); the thread    seq_cst: hand_over() looks back at it across the lock
//             that sees the descriptor fire
//   called_   the thread that sees that a peer wants       release; the owner exchanges it with acquire
//             something
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "fabric/descriptor.h"
#include "fabric/fabric.h"

namespace nbc {

class Sleepers {
 public:
  // `transport`: for the text of errors. Throws FabricError.
  explicit Sleepers(std::string transport);

  void disarm() {
    if (armed_.load(std::memory_order_relaxed) != 0) armed_.store(0, std::memory_order_seq_cst);
  }
  bool is_armed() const { return armed_.load(std::memory_order_seq_cst) != 0; }
  void ring(Sleeper who);
  // Readable while sleep() would return.
  int set(Sleeper who) const { return set_[index(who)].get(); }
  bool called() const { return called_.load(std::memory_order_relaxed); }
  // Called by the thread that sees that a peer wants something, or that leaves a peer unanswered.
  void note_call() { called_.store(true, std::memory_order_release); }
  bool answer_calls() { return called() && called_.exchange(false, std::memory_order_acquire); }
  // How often what was armed has fired.
  uint64_t events() const { return events_.load(std::memory_order_relaxed); }

 protected:
  // `events` of epoll. `name`, from 0 on, is what sleep() gives back. Throws FabricError.
  void add(Sleeper who, int descriptor, uint32_t events, uint32_t name);
  void change(Sleeper who, int descriptor, uint32_t events, uint32_t name);
  void need(bool good) const;  // throws FabricError with errno's reason

  void mark_armed(Sleeper who) { armed_.store(static_cast<uint32_t>(who), std::memory_order_seq_cst); }
  bool is_armed_for(Sleeper who) const { return armed_.load(std::memory_order_seq_cst) == static_cast<uint32_t>(who); }
  // `who` has seen so many firings of what was armed. If it is meant for the other one by now, that one is rung for.
  void fired(Sleeper who, uint32_t times);

  // Sleeps until something in the set is there, or `nanoseconds` have passed (negative: no limit). Names into
  // out[0…kMost), but for rings; how many. -1: the time has passed.
  static constexpr int kMost = 8;
  int sleep(Sleeper who, int64_t nanoseconds, uint32_t* out);

 private:
  static size_t index(Sleeper who) { return who == Sleeper::progress ? 1 : 0; }
  bool control(Sleeper who, int operation, int descriptor, uint32_t events, uint32_t name) const;

  std::string transport_;
  Descriptor bell_[2];
  Descriptor set_[2];
  std::atomic<uint32_t> armed_{0};
  std::atomic<bool> called_{false};
  std::atomic<uint64_t> events_{0};
};

// Sleeps as `parking` does, for `longest` at most. Where nothing is armed, a peer may all the same have sent what it
// wants an answer to, or be gone; so the progress thread looks after a long sleep that nothing has ended.
template <typename Parking>
void sleep_at_most(Parking& parking, Sleeper who, int64_t nanoseconds, int64_t longest) {
  const bool long_sleep = nanoseconds < 0 || nanoseconds > longest;
  const bool woken = parking.sleep(who, long_sleep ? longest : nanoseconds);
  if (long_sleep && !woken && who == Sleeper::progress) parking.note_call();
}

}  // namespace nbc
