// Local elements of running operations: copies and reductions, done in pieces, so that the engine's lock is never held
// for long.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/plan.h"

namespace nbc {

// One operation's local elements of its current round, and how far they are.
struct LocalTask {
  const Plan* plan = nullptr;
  std::byte* base[kRoles] = {nullptr, nullptr, nullptr};  // of the operation's buffers, by role
  uint32_t element = 0;                                   // the next one, or the one that is begun
  uint32_t last = 0;                                      // behind the last one
  uint64_t written = 0;                                   // bytes of `element` that are done
  LocalTask* next_task = nullptr;                         // in LocalWork

  // The element at the cursor, if a function of the user's computes it; otherwise null.
  const Local* function_element() const {
    return element < last && plan->locals[element].by_function ? &plan->locals[element] : nullptr;
  }
  // The cost of the elements from the cursor to the next that a function computes.
  uint64_t cost_to_function() const;
};

// Works on the element at the task's cursor, at most as much as `cost` allows (see Local::cost()), but at least one
// unit of it. Returns the cost, which is more than zero.
uint64_t work_on_element(LocalTask& task, uint64_t cost);

// Works on the element at the task's cursor until it is complete. Nothing of it is done yet.
void complete_element(LocalTask& task);

// Tasks in turns. Belongs to the owner of the engine.
class LocalWork {
 public:
  // The cost of one piece: 5 to 10 µs of copying, or 35 µs into memory that is used for the first time, because a fresh
  // page of shared memory takes 4 µs. With 64 KiB, one in a hundred calls of test() beside 16 all-to-alls in place took
  // more than 107 to 154 µs, and with 32 KiB more than 60.
  static constexpr uint64_t kPiece = 32 * 1024;
  // A caller that waits has nothing better to do: with small pieces a gather or all-to-all of 1 MiB took 1.05 times as
  // long, for its copies take turns with those of the transfers.
  static constexpr uint64_t kLargePiece = 256 * 1024;

  // The task has at least one element, and no function computes it. `cost`: of all up to the next that one computes.
  void add(LocalTask& task, uint64_t cost);
  // One piece, of at most this cost, of the task that has waited longest. Returns the task if that completed it, or if
  // a function computes the next element; otherwise null.
  LocalTask* piece(uint64_t most = kPiece);
  // What is left to do of all tasks.
  uint64_t cost() const { return cost_; }

 private:
  LocalTask* head_ = nullptr;
  LocalTask* tail_ = nullptr;
  uint64_t cost_ = 0;
};

}  // namespace nbc
