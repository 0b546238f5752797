#include "engine/user_work.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace nbc {
namespace {

// The open worlds of this process by number: threads that have functions find theirs here.
std::mutex g_mutex;
std::map<uint32_t, std::weak_ptr<UserWork>> g_works;
uint32_t g_number = 0;

constexpr const char* kClosed = "the process is about to end";
constexpr const char* kEndedEarly =
    "the worker of the operator has ended before it could import the module; "
    "a module that --require or --import loads in every worker may have failed there";

template <typename Pieces>
bool remove_ticket(Pieces& pieces, uint64_t ticket) {
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const UserPiece& p) { return p.ticket == ticket; });
  if (found == pieces.end()) return false;
  pieces.erase(found);
  return true;
}

// Of this process. Its number may be in use again: then it counts as running.
bool has_ended(pid_t thread) { return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH; }

UserPiece without_operands(const UserPiece& piece) {
  UserPiece copy;
  copy.ticket = piece.ticket;
  copy.slot = piece.slot;
  copy.op = piece.op;
  return copy;
}

}  // namespace

UserWork::UserWork(std::atomic<int32_t>& waiting, std::function<void()> ring)
    : waiting_(waiting), ring_(std::move(ring)) {}

std::shared_ptr<UserWork> UserWork::of_world(uint32_t number) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_works.find(number);
  return found != g_works.end() ? found->second.lock() : nullptr;
}

uint32_t UserWork::publish(const std::shared_ptr<UserWork>& work) {
  const std::lock_guard lock(g_mutex);
  std::erase_if(g_works, [](const auto& entry) { return entry.second.expired(); });
  g_works[++g_number] = work;
  return g_number;
}

void UserWork::count_waiting() {
  // JavaScript reads it as a hint, and after a call that had the engine's lock.
  waiting_.store(static_cast<int32_t>(of_caller_.size()), std::memory_order_relaxed);
}

void UserWork::add_result(UserPiece result) {
  results_.push_back(std::move(result));
  has_results_.store(true, std::memory_order_release);
}

// --- owner of the engine ---------------------------------------------------------------------------------------------

void UserWork::give(UserPiece piece, bool to_thread) {
  const std::lock_guard lock(mutex_);
  if (!to_thread) {
    of_caller_.push_back(std::move(piece));
    return count_waiting();
  }
  Queue& queue = of_thread_[piece.op];
  if (closed_) fail(queue, kClosed);
  if (queue.failed) {
    piece.failed = true;
    piece.reason = queue.reason;
    return add_result(std::move(piece));
  }
  queue.pieces.push_back(std::move(piece));
  changed_.notify_all();
}

void UserWork::forget(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (remove_ticket(of_caller_, ticket)) return count_waiting();
  for (auto& [op, queue] : of_thread_) {
    if (remove_ticket(queue.pieces, ticket)) return;
  }
}

std::vector<UserPiece> UserWork::take_results() {
  const std::lock_guard lock(mutex_);
  has_results_.store(false, std::memory_order_relaxed);
  return std::exchange(results_, {});
}

// --- threads that have functions -------------------------------------------------------------------------------------

bool UserWork::take(UserPiece& out) {
  const std::lock_guard lock(mutex_);
  if (of_caller_.empty()) return false;
  out = std::move(of_caller_.front());
  of_caller_.pop_front();
  count_waiting();
  return true;
}

UserWork::Taken UserWork::take_of(uint32_t op, int64_t nanoseconds, UserPiece& out) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(nanoseconds),
                    [&] { return closed_ || !of_thread_[op].pieces.empty(); });
  if (closed_) return Taken::closed;
  Queue& queue = of_thread_[op];
  if (queue.pieces.empty()) return Taken::none;
  out = std::move(queue.pieces.front());
  queue.pieces.pop_front();
  queue.taken.push_back(without_operands(out));
  return Taken::piece;
}

void UserWork::give_back(UserPiece result, bool rings) {
  const std::lock_guard lock(mutex_);
  if (const auto found = of_thread_.find(result.op); found != of_thread_.end()) {
    // Without the ticket it has failed already.
    if (!remove_ticket(found->second.taken, result.ticket)) return;
  }
  add_result(std::move(result));
  // Under the mutex, so that close() is not over before.
  if (rings && !closed_) ring_();
}

void UserWork::fail(uint32_t op, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  fail(of_thread_[op], reason);
  ring_();
}

// --- threads that begin ----------------------------------------------------------------------------------------------

void UserWork::count_awaited() {
  const auto awaited = std::count_if(of_thread_.begin(), of_thread_.end(),
                                     [](const auto& entry) { return !entry.second.awaited.empty(); });
  awaited_count_.store(static_cast<uint32_t>(awaited), std::memory_order_relaxed);
}

void UserWork::await_thread(uint32_t op, std::vector<pid_t> threads) {
  const std::lock_guard lock(mutex_);
  Queue& queue = of_thread_[op];
  if (!queue.served && !queue.failed) queue.awaited = std::move(threads);
  count_awaited();
}

void UserWork::serves(uint32_t op) {
  const std::lock_guard lock(mutex_);
  Queue& queue = of_thread_[op];
  queue.served = true;
  queue.awaited.clear();
  count_awaited();
}

void UserWork::look_for_threads() {
  const std::lock_guard lock(mutex_);
  bool failed = false;
  for (auto& [op, queue] : of_thread_) {
    if (queue.awaited.empty() || !std::all_of(queue.awaited.begin(), queue.awaited.end(), has_ended)) continue;
    fail(queue, kEndedEarly);
    failed = true;
  }
  count_awaited();
  if (failed && !closed_) ring_();
}

// ---------------------------------------------------------------------------------------------------------------------

void UserWork::fail(Queue& queue, const std::string& reason) {
  if (queue.failed) return;
  queue.failed = true;
  queue.awaited.clear();
  queue.reason = reason;
  for (UserPiece& piece : queue.pieces) queue.taken.push_back(std::move(piece));
  queue.pieces.clear();
  for (UserPiece& piece : std::exchange(queue.taken, {})) {
    piece.failed = true;
    piece.reason = reason;
    add_result(std::move(piece));
  }
}

void UserWork::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [op, queue] : of_thread_) fail(queue, kClosed);
  changed_.notify_all();
}

}  // namespace nbc
