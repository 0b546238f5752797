// The end of an operation, and of its slot, successful or not.
#include <utility>

#include "engine/engine.h"

namespace nbc {
namespace {

// Where a failure began that this rank is the first to know of. The end of a peer began there.
libof::Poison beginning_of(const libof::RequestOwner& failed, Rank rank) {
  const bool elsewhere =
      failed.error == Error::peer_closed || failed.error == Error::unreachable || failed.error == Error::abandoned;
  return libof::poison_of(elsewhere ? failed.error_peer : rank, failed.error);
}

}  // namespace

// The slot may be settled otherwise and used again before it is given out: its receiver looks at its state.
void Engine::note_end(uint32_t slot) {
  --watched_;
  ended_.push_back(slot);
  notify_pending_ = true;
}

// Other ranks need what a collective has failed to send, and count on what it has failed to receive. Those that are
// pending are in LibOF's hands (cancel()); these belong to rounds that do not start. A single message concerns nobody
// else.
void Engine::spread_failure(Operation& operation) {
  // Perhaps because calls differ: its peer has said so before.
  if (operation.error == Error::abandoned) libof_.look_at(operation.error_peer);
  if (operation.told || operation.loaded == nullptr || operation.loaded->messages || operation.error == Error::closed ||
      operation.loaded->group->mismatched)
    return;
  operation.told = true;
  if (operation.poison == 0) operation.poison = beginning_of(operation, fabric_->rank());
  const Plan& plan = operation.loaded->plan;
  for (size_t r = operation.round; r < plan.rounds.size(); ++r) {
    const Round& round = plan.rounds[r];
    for (uint32_t i = round.send_first; i < round.send_last; ++i) {
      const Transfer& t = plan.sends[i];
      libof_.poison(t.peer, key_of(operation, t), operation.poison);
    }
    for (uint32_t i = round.receive_first; i < round.receive_last; ++i) {
      const Transfer& t = plan.receives[i];
      libof_.drop(t.peer, key_of(operation, t), t.bytes, operation.poison);
    }
  }
}

// It has failed. It ends when nothing of it can touch its buffers any more.
void Engine::end_failed(Operation& operation) {
  if (awaits_notice(operation)) return;
  withdraw(operation);
  if (operation.outstanding == 0) return advance(operation);
  spread_failure(operation);
  libof_.cancel(operation);
}

void Engine::report_failure(Operation& operation) {
  RequestFailure& failure = failures_[operation.slot];
  failure = {};
  failure.error = operation.error;
  failure.peer = operation.error_peer;
  failure.bytes_here = operation.error_expected;
  failure.bytes_there = operation.error_got;
  failure.buffers_in_use = operation.buffers_in_use;
  const bool lost =
      failure.error == Error::peer_closed || failure.error == Error::unreachable || failure.error == Error::abandoned;
  if (lost && fabric_->is_given_up()) failure.error = Error::counted_lost;
  const bool known = operation.poison != 0 && libof::cause_of(operation.poison) != Error::abandoned;
  if (failure.error == Error::abandoned && known) {
    failure.origin = libof::origin_of(operation.poison);
    failure.cause = libof::cause_of(operation.poison);
  }
  if (failure.error == Error::mismatch || failure.error == Error::unreachable || failure.error == Error::descriptors)
    failure.detail = fabric_->why(operation.error_peer);
  if (operation.error == Error::memory) failure.detail = fabric_->why(fabric_->rank());
  if (operation.error == Error::system) failure.detail = fabric_->why_not_moved(operation.error_peer);
  if (const auto reason = reasons_.find(operation.slot); reason != reasons_.end()) {
    if (operation.error == Error::operator_failed || operation.error == Error::memory)
      failure.detail = std::move(reason->second);
    reasons_.erase(reason);
  }
  // What a rank does that has learned of the mismatch may be noticed before the word of it.
  const bool may_follow = failure.error == Error::calls_differ || failure.error == Error::revoked ||
                          failure.error == Error::abandoned || failure.error == Error::peer_closed;
  const Group* const group = may_follow ? group_of(operation) : nullptr;
  if (group != nullptr && ends(*group, operation)) {
    failure.error = group->mismatch.error();
    failure.mismatch = group->mismatch;
  } else if (failure.error == Error::abandoned && failure.cause == Error::revoked) {
    failure.error = Error::revoked;
    failure.mismatch.ranks[0] = failure.origin;
  }
  if (failure.error == Error::revoked) {
    failure.peer = failure.mismatch.ranks[0];
    failure.cause = Error::none;
  }
  if (operation.loaded != nullptr && !operation.loaded->messages) operation.loaded->group->failed = true;
  std::erase_if(awaiting_, [&](const Awaiting& awaiting) { return awaiting.operation == &operation; });
  slots_->set(operation.slot, static_cast<int32_t>(failure.error));
}

void Engine::finish(Operation& operation) {
  if (trace_ != nullptr) trace_->end(operation.traced, operation.error);
  libof_.remove_ready(operation);
  if (operation.buffers_in_use) {
    // The temporary memory is not used again, and nothing is released.
    operation.temporary = {};
    for (const Pinned& pin : operation.buffers) left_behind_.push_back(pin.keeper);
  }
  if (operation.temporary.data != nullptr) temporary_.give_back(std::exchange(operation.temporary, {}));
  if (operation.loaded == nullptr || operation.loaded->messages) slots_->set_length(operation.slot, operation.received);
  if (operation.watched) note_end(operation.slot);
  by_slot_[operation.slot] = nullptr;
  if (operation.error != Error::none) {
    report_failure(operation);
  } else if (!operation.starting || operation.persistent) {
    // While another one is being started, being complete is the return value, and the slot stays free.
    slots_->set(operation.slot, static_cast<int32_t>(SlotState::done));
  }
  active_.remove(&operation);
  if (!operation.persistent) give_back(operation);
}

// The plan stays, and small buffers that are bound to it: the next operation of this memory is often the same, and to
// count the users of a plan, or of two buffers, takes 20 ns.
void Engine::give_back(Operation& operation) {
  if (!operation.keeps_buffers) {
    for (Pinned& pin : operation.buffers) pin.keeper.reset();
  }
  free_.push(&operation);
}

}  // namespace nbc
