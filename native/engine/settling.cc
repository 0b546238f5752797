// The end of an operation, and of its slot, successful or not.
#include "engine/engine.h"

namespace nbc {

// The user learns of a failure at once; the operation itself lives on until its other messages have ended, because
// peers may still write to its buffers.
void Engine::report_failure(Operation& operation) {
  if (operation.slot == kNoSlot) return;
  if (operation.watched) {
    --watched_;
    operation.watched = false;
    notify_pending_ = true;
  }
  RequestFailure& failure = failures_[operation.slot];
  failure = {operation.error, operation.error_peer, operation.error_expected, operation.error_got, {}};
  if (operation.error == Error::mismatch || operation.error == Error::unreachable)
    failure.detail = fabric_->why(operation.error_peer);
  if (operation.error == Error::memory) failure.detail = fabric_->why(fabric_->rank());
  by_slot_[operation.slot] = nullptr;
  slots_->set(operation.slot, static_cast<int32_t>(operation.error));
  operation.slot = kNoSlot;
}

void Engine::finish(Operation& operation) {
  libof_.remove_ready(operation);
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

}  // namespace nbc
