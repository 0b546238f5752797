// Reductions whose operator is a function of the user's. The owner of the engine hands copies of both operands to the
// thread that has the function, and that thread gives the result back: no function sees the memory of an operation.
// So an operation may end at any time, whatever its function does.
//
// Pieces wait in a queue: one for all functions of the calling thread, and one for each function with a thread of its
// own. Threads: the owner of the engine gives, forgets and takes results; the calling thread, and the threads that have
// functions, take pieces and give them back. One mutex guards all of it; nobody computes or copies while holding it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/encoding.h"

namespace nbc {

// Bytes of a piece at most: about as much as a simple function combines in 100 µs. Whole elements of every type.
constexpr uint64_t kUserPiece = 256 * 1024;

// The operator of a plan, as its owner in JavaScript knows it.
struct UserOperator {
  uint32_t number = 0;      // 0: the plan has none
  bool has_thread = false;  // its function has a thread of its own; otherwise the calling thread runs it
};

struct UserPiece {
  uint64_t ticket = 0;  // tells a result that nobody waits for any more
  uint32_t slot = 0;    // of the request
  uint32_t op = 0;      // UserOperator::number
  ElementType type = ElementType::uint8;
  std::vector<std::byte> a;  // from the lower ranks; not needed in a result
  std::vector<std::byte> b;  // from the higher ranks; in the end, the result
  bool failed = false;
  std::string reason;  // failed: what is known, in the words of the thread that has the function
};

class UserWork {
 public:
  // `waiting`: how many pieces wait for the calling thread; JavaScript reads it. `ring` wakes the threads that wait for
  // results; any thread, until close().
  UserWork(std::atomic<int32_t>& waiting, std::function<void()> ring);
  UserWork(const UserWork&) = delete;
  UserWork& operator=(const UserWork&) = delete;

  // The one of the open world, if that has this number; otherwise null.
  static std::shared_ptr<UserWork> of_world(uint32_t number);
  // Number of the world in this process, from 1. Makes of_world() find it.
  static uint32_t publish(const std::shared_ptr<UserWork>& work);

  // --- owner of the engine ---
  void give(UserPiece piece, bool to_thread);
  // The result is not wanted any more: a piece that nobody has taken is not computed.
  void forget(uint64_t ticket);
  bool has_results() const { return has_results_.load(std::memory_order_acquire); }
  std::vector<UserPiece> take_results();
  // Pieces wait for the calling thread.
  bool waits() const { return waiting_.load(std::memory_order_relaxed) > 0; }

  // --- threads that have functions ---
  // The calling thread's next piece. False: there is none.
  bool take(UserPiece& out);
  enum class Taken { piece, none, closed };
  // The next piece of a function with a thread, after so many milliseconds at most.
  Taken take_of(uint32_t op, uint32_t milliseconds, UserPiece& out);
  // `rings`: the caller does not drive the engine next.
  void give_back(UserPiece result, bool rings);
  // The thread of this function has ended, or has no function: what it has not given back fails, now and later.
  void fail(uint32_t op, const std::string& reason);

  // Ends the threads that have functions: take_of() returns `closed`, and what they have not given back fails. `ring`
  // is not called any more. Idempotent.
  void close();

 private:
  struct Queue {
    std::deque<UserPiece> pieces;
    std::vector<UserPiece> taken;  // without operands
    bool failed = false;
    std::string reason;
  };

  void add_result(UserPiece result);
  void fail(Queue& queue, const std::string& reason);
  void count_waiting();

  std::atomic<int32_t>& waiting_;
  std::function<void()> ring_;
  std::atomic<bool> has_results_{false};  // stored under the mutex, release
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<UserPiece> of_caller_;
  std::unordered_map<uint32_t, Queue> of_thread_;
  std::vector<UserPiece> results_;
  bool closed_ = false;
};

}  // namespace nbc
