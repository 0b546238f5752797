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
#include <sys/types.h>
#include <unordered_map>
#include <vector>

#include "engine/encoding.h"

namespace nbc {

// Bytes of a piece at most. With more, malloc() and V8 map and unmap the memory of every piece: the page faults made
// iallreduce of 1 MiB by a function that does nothing six times as slow with 256 KiB. Whole elements of every type.
constexpr uint64_t kUserPiece = 64 * 1024;

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
  // The next piece of a function with a thread, after so many nanoseconds at most.
  Taken take_of(uint32_t op, int64_t nanoseconds, UserPiece& out);
  // `rings`: the caller does not drive the engine next.
  void give_back(UserPiece result, bool rings);
  // The thread of this function has ended, or has no function: what it has not given back fails, now and later.
  void fail(uint32_t op, const std::string& reason);

  // --- threads that begin ---
  // The thread of this function has been started; it is one of these threads of the process. It may end before it calls
  // serves(), and then nothing of it runs that could call fail().
  void await_thread(uint32_t op, std::vector<pid_t> threads);
  // The thread of this function runs, and will call fail() if it ends early.
  void serves(uint32_t op);
  // A thread is awaited: the calling thread calls look_for_threads() now and then while it waits.
  bool awaits_threads() const { return awaited_count_.load(std::memory_order_relaxed) > 0; }
  // Fails the functions whose thread has ended before it called serves().
  void look_for_threads();

  // Ends the threads that have functions: take_of() returns `closed`, and what they have not given back fails. `ring`
  // is not called any more. Idempotent.
  void close();

 private:
  struct Queue {
    std::deque<UserPiece> pieces;
    std::vector<UserPiece> taken;  // without operands
    bool failed = false;
    std::string reason;
    bool served = false;
    std::vector<pid_t> awaited;  // until it is served, or has failed
  };

  void add_result(UserPiece result);
  void fail(Queue& queue, const std::string& reason);
  void count_waiting();
  void count_awaited();

  std::atomic<int32_t>& waiting_;
  std::function<void()> ring_;
  std::atomic<bool> has_results_{false};    // stored under the mutex, release
  std::atomic<uint32_t> awaited_count_{0};  // queues whose thread is awaited; a hint
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<UserPiece> of_caller_;
  std::unordered_map<uint32_t, Queue> of_thread_;
  std::vector<UserPiece> results_;
  bool closed_ = false;
};

}  // namespace nbc
