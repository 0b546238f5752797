// Reductions by functions of the user's: what goes to user_work_, and what comes back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/engine.h"

namespace nbc {
namespace {

std::vector<std::byte> copy_of(const std::byte* from, uint64_t bytes) { return {from, from + bytes}; }

std::byte* place(const LocalTask& task, Role role, uint64_t offset) {
  return task.base[static_cast<size_t>(role)] + offset + task.written;
}

}  // namespace

// The next piece of the element at the cursor. The local work of the round counts as outstanding.
void Engine::give_to_function(Operation& operation, const Local& local) {
  const UserOperator& op = operation.loaded->op;
  const bool source_first = local.order == Order::source_first;
  const std::byte* source = place(operation, local.from, local.from_offset);
  const std::byte* target = place(operation, local.to, local.to_offset);
  operation.ticket = ++last_ticket_;
  operation.given = std::min(local.bytes - operation.written, kUserPiece);
  given_[operation.ticket] = &operation;
  UserPiece piece;
  piece.ticket = operation.ticket;
  piece.slot = operation.slot;
  piece.op = op.number;
  piece.type = local.type;
  piece.a = copy_of(source_first ? source : target, operation.given);
  piece.b = copy_of(source_first ? target : source, operation.given);
  if (op.has_thread) {
    ++with_threads_;
  } else {
    function_pending_ = true;
  }
  user_work_->give(std::move(piece), op.has_thread);
}

// Its piece is not wanted any more, and does not count as outstanding. False: it has none.
bool Engine::withdraw(Operation& operation) {
  const uint64_t ticket = std::exchange(operation.ticket, 0);
  if (ticket == 0) return false;
  given_.erase(ticket);
  if (operation.loaded->op.has_thread) --with_threads_;
  user_work_->forget(ticket);
  --operation.outstanding;
  return true;
}

bool Engine::take_results() {
  bool moved = false;
  for (UserPiece& result : user_work_->take_results()) {
    const auto found = given_.find(result.ticket);
    if (found == given_.end()) continue;
    take_result(*found->second, result);
    moved = true;
  }
  return moved;
}

void Engine::take_result(Operation& operation, UserPiece& result) {
  const uint64_t bytes = operation.given;
  if (result.failed || result.b.size() != bytes) {
    if (operation.error == Error::none) {
      operation.error = Error::operator_failed;
      operation.error_peer = fabric_->rank();
      reasons_[operation.slot] = std::move(result.reason);
    }
    return end_failed(operation);
  }
  withdraw(operation);
  ++operation.outstanding;
  const Local& local = operation.plan->locals[operation.element];
  std::memcpy(place(operation, local.to, local.to_offset), result.b.data(), bytes);
  operation.written += bytes;
  if (operation.written == local.bytes) {
    operation.written = 0;
    ++operation.element;
  }
  go_on_locally(operation);
}

}  // namespace nbc
