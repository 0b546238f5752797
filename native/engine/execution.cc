// Executing operations: their rounds, one after the other.
#include <cstring>

#include "engine/engine.h"

namespace nbc {

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

bool Engine::pass(Effort effort) {
  const bool moved = libof_.progress(effort);
  do {
    while (libof::RequestOwner* owner = libof_.take_ready()) {
      auto& operation = static_cast<Operation&>(*owner);
      if (operation.outstanding == 0) {
        advance(operation);
      } else {
        // It has failed. It ends when nothing of it can touch its buffers any more.
        libof_.cancel(operation);
      }
    }
  } while (libof_.give_up_cancelled());
  fabric_->flush();
  return moved;
}

// The pass between arming the doorbell and sleeping. False: nothing moved, nothing is left to move, and all has been
// said that peers must know. Room for data that wait to leave is work, but nothing that moved; and the pass that finds
// it takes what would have rung.
bool Engine::last_pass(Effort effort) {
  if (pass(effort)) return true;
  if (libof_.fail_closed_peers()) {
    // It may have completed requests, and committed to peers that live: settle the ones, wake the others. The caller
    // need not look again.
    pass(effort);
    return true;
  }
  libof_.announce_sends();
  fabric_->flush();
  return fabric_->work() > 0;
}

}  // namespace nbc
