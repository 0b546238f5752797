// Executing operations: their rounds, one after the other.
#include "engine/engine.h"

namespace nbc {

// Of a message of a collective.
libof::MessageKey Engine::key_of(const Operation& operation, const Transfer& t) const {
  return {operation.context, operation.tag, t.sequence + operation.repetition * t.of};
}

// The reduction of the next round, which the network may do while it receives.
Combining Engine::combining_of(const Operation& operation, const Transfer& t) {
  if (t.combined_by == kNobody) return {};
  const Local& local = operation.loaded->plan.locals[t.combined_by];
  std::byte* const target = operation.base[static_cast<size_t>(local.to)] + local.to_offset;
  // Received into the place of the result, and combined with what is elsewhere; or the other way round.
  if (t.role == local.to && t.offset == local.to_offset)
    return {local.reduce, target, operation.base[static_cast<size_t>(local.from)] + local.from_offset, false,
            local.number};
  return {local.reduce, target, target, true, local.number};
}

// Where all messages of a round are short, peers wait for ours: the receives, 40 ns each, come after the sends. A
// barrier of two ranks took 0.67 µs before, and 0.61 with that. Of long messages the data wait for the RTR of the
// receive, so that comes first.
void Engine::start_round(Operation& operation, const Round& round) {
  const bool combined = operation.combined;
  operation.combined = false;
  ++counters_.rounds;
  if (trace_ != nullptr) {
    trace_->round(operation.traced, operation.round);
    if (operation.round > 1) operation.noted = nullptr;
  }
  const bool sends_first = round.longest <= libof_.eager_limit();
  if (sends_first) start_sends(operation, round);
  start_receives(operation, round);
  if (!sends_first) start_sends(operation, round);
  if (round.local_first < round.local_last && !combined) start_local_work(operation, round);
  poll_for_rtr(operation, 0, options_.startall_us);
}

void Engine::start_receives(Operation& operation, const Round& round) {
  const LoadedPlan& loaded = *operation.loaded;
  // A message may be shorter than the buffer of the caller; what is unpacked from temporary memory may not.
  const auto length_of = [&](const Transfer& t) {
    return loaded.messages && t.role == Role::receive ? libof::Length::at_most : libof::Length::exact;
  };
  for (uint32_t i = round.receive_first; i < round.receive_last; ++i) {
    const Transfer& t = loaded.plan.receives[i];
    libof_.irecv(operation, t.peer, loaded.messages ? operation.receive_key : key_of(operation, t),
                 operation.base[static_cast<size_t>(t.role)] + t.offset, t.bytes, length_of(t),
                 combining_of(operation, t));
  }
}

void Engine::start_sends(Operation& operation, const Round& round) {
  const LoadedPlan& loaded = *operation.loaded;
  for (uint32_t i = round.send_first; i < round.send_last; ++i) {
    const Transfer& t = loaded.plan.sends[i];
    const uint32_t before = operation.waiting_rtr;
    libof_.isend(operation, t.peer, loaded.messages ? operation.send_key : key_of(operation, t),
                 operation.base[static_cast<size_t>(t.role)] + t.offset, t.bytes);
    poll_for_rtr(operation, before, options_.wait_on_send_us);
  }
}

// Short work is done at once. The rest is done piece by piece: by the passes of the thread that drives.
void Engine::start_local_work(Operation& operation, const Round& round) {
  operation.element = round.local_first;
  operation.last = round.local_last;
  operation.written = 0;
  if (round.local_cost > at_once_) {
    ++operation.outstanding;
    if (operation.loaded->op.number != 0) return go_on_locally(operation);
    local_work_.add(operation, round.local_cost);
    return;
  }
  at_once_ -= round.local_cost;
  fabric_->flush();  // peers can work meanwhile
  while (operation.element < operation.last) {
    if (const Local* local = operation.function_element()) {
      ++operation.outstanding;
      return give_to_function(operation, *local);
    }
    complete_element(operation);
  }
}

// The local work of the round counts as outstanding: its next part, or its end.
void Engine::go_on_locally(Operation& operation) {
  if (operation.error != Error::none || operation.element == operation.last) {
    if (--operation.outstanding == 0) advance(operation);
  } else if (const Local* local = operation.function_element()) {
    give_to_function(operation, *local);
  } else {
    local_work_.add(operation, operation.cost_to_function());
  }
}

// Called with nothing outstanding: starts rounds until one has something to wait for, or finishes.
void Engine::advance(Operation& operation) {
  if (operation.error != Error::none && awaits_notice(operation)) return;
  if (operation.loaded != nullptr) {
    const auto& rounds = operation.loaded->plan.rounds;
    while (operation.error == Error::none && operation.round < rounds.size()) {
      const Round& round = rounds[operation.round++];
      asks_ |= operation.signature != 0;
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
  if (operation.error != Error::none) spread_failure(operation);
  finish(operation);
}

// Operations with nothing outstanding go on.
void Engine::advance_ready() {
  do {
    if (!mismatches_.empty()) settle_mismatches();
    while (libof::RequestOwner* owner = libof_.take_ready()) {
      auto& operation = static_cast<Operation&>(*owner);
      if (operation.outstanding == 0) {
        advance(operation);
      } else {
        end_failed(operation);
      }
    }
  } while (libof_.give_up_cancelled() || !mismatches_.empty());
}

// One piece of local work, of at most this cost, or else of temporary memory that is too much. False: there is neither.
bool Engine::work_locally(uint64_t most) {
  if (local_work_.cost() > 0) {
    LocalTask* const task = local_work_.piece(most);
    time_passes();
    if (task != nullptr) go_on_locally(static_cast<Operation&>(*task));
    return true;
  }
  if (temporary_.surplus() == 0) return false;
  temporary_.release_piece();
  return true;
}

// One look at everything that can move. Unless the caller wants to leave, at most one piece of a transfer and one of
// work_locally(); the progress thread does not begin the second while the calling thread waits for the lock.
bool Engine::pass(Effort effort, uint64_t most_local) {
  at_once_ = kAtOnce;
  time_passes();
  // Who helps a peer first is left alone with the local work when the peer is done. A gather of 1 MiB took 1.5 times as
  // long as the copies that it consists of.
  if (effort == Effort::helping && local_work_.cost() > 0) effort = Effort::waiting;
  bool moved = libof_.progress(effort);
  if (user_work_->has_results() && take_results()) moved = true;
  advance_ready();
  if (effort != Effort::look && !lock_.wanted() && work_locally(most_local)) moved = true;
  fabric_->flush();
  return moved;
}

// There is work, and so little of it that handing it over takes longer.
bool Engine::has_short_work() const {
  if (local_work_.cost() == 0) return fabric_->has_short_work();
  const uint64_t transfers = fabric_->work(kShortWork + 1);
  return transfers + local_work_.cost() <= kShortWork && (transfers == 0 || fabric_->has_short_work());
}

// The pass between arming the doorbell and sleeping. False: nothing moved, nothing is left to move, and all has been
// said that peers must know. Room for data that wait to leave is work, but nothing that moved; and the pass that finds
// it takes what would have rung.
bool Engine::last_pass(Effort effort) {
  // What a look into other mailboxes completes, the pass settles; it need not move anything itself.
  const bool looked = fabric_->alarmed() && libof_.look_around(true);
  if (pass(effort) || looked) return true;
  if (libof_.fail_closed_peers()) {
    // It may have completed requests, and committed to peers that live: settle the ones, wake the others. The caller
    // need not look again.
    pass(effort);
    return true;
  }
  libof_.announce_sends();
  if (asks_ && ask_peers()) {
    pass(effort);
    return true;
  }
  fabric_->flush();
  return has_work();
}

}  // namespace nbc
