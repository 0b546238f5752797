#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <new>

#include "engine/relax.h"
#include "fabric/clock.h"

namespace nbc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kCloseLimit = std::chrono::seconds(1);

// Messages to or from this world rank with this tag so far. It stays where it is as long as the group lives.
uint32_t& count_of(Group& group, Rank peer, uint32_t tag, bool sends) {
  return (sends ? group.sent : group.received)[static_cast<uint64_t>(peer) << 32 | tag];
}

// For good: nobody can say when peers in other processes have learned of the end.
void keep_for_good(std::vector<std::shared_ptr<void>> keepers) {
  static std::mutex& mutex = *new std::mutex();  // worlds of several threads may close at once
  static auto& kept = *new std::vector<std::shared_ptr<void>>();
  const std::lock_guard<std::mutex> guard(mutex);
  std::move(keepers.begin(), keepers.end(), std::back_inserter(kept));
}

}  // namespace

Engine::Engine(std::unique_ptr<Fabric> fabric, const EngineOptions& options, std::shared_ptr<SlotTable> slots,
               std::function<void()> notify)
    : fabric_(std::move(fabric)),
      options_(options),
      libof_(*fabric_, options.libof),
      slots_(std::move(slots)),
      notify_(std::move(notify)),
      temporary_(fabric_->memory()),
      user_work_(std::make_shared<UserWork>(slots_->functions(), [this] {
        fabric_->ring_self(Sleeper::caller);
        fabric_->ring_self(Sleeper::progress);
      })) {
  if (by_slot_ == nullptr) throw std::bad_alloc();
  libof_.set_calls(this);
  slots_->set_world(UserWork::publish(user_work_));
  if (options_.trace_events > 0) {
    trace_ = std::make_unique<Trace>(options_.trace_events);
    libof_.observe(observer());
  }
  if (options_.progress_thread) thread_ = std::thread([this] { background(); });
}

Engine::~Engine() {
  if (thread_.joinable()) {
    stop_.store(true, std::memory_order_release);
    fabric_->ring_self(Sleeper::progress);
    thread_.join();
  }
  // Not before: the progress thread would take what fails now for a failure of the function.
  user_work_->close();
  close_operations();
  // What is left: peers may still write to these buffers, and read staged pieces of exposed memory.
  if (active_.head != nullptr || !left_behind_.empty() || fabric_->is_read()) left_behind_.push_back(fabric_->memory());
  for (Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    slots_->set(operation->slot, static_cast<int32_t>(Error::closed));
    for (const Pinned& pin : operation->buffers) {
      if (pin.keeper != nullptr) left_behind_.push_back(pin.keeper);
    }
  }
  if (!left_behind_.empty() && !fabric_->keep(left_behind_)) keep_for_good(std::move(left_behind_));
}

// Pending operations end when nothing can touch their buffers any more. Only a network card may need its peer for that,
// and it gets some time. So do connections to ranks that are to be told of a mismatch.
void Engine::close_operations() {
  libof_.closing();
  for (Operation *operation = active_.head, *next = nullptr; operation != nullptr; operation = next) {
    next = operation->next;
    if (operation->error == Error::none) operation->error = Error::closed;
    end_failed(*operation);
  }
  libof_.give_up_cancelled();
  const auto limit = Clock::now() + kCloseLimit;
  do {
    pass(Effort::pass);
    if (libof_.has_notices()) libof_.fail_closed_peers();
  } while ((active_.head != nullptr || libof_.has_notices()) && Clock::now() < limit);
}

void Engine::abandon() {
  // The progress thread gives the engine up after its piece and does not get it again; so nothing of ours is written
  // after the announcement. The bound is for an end that came from inside the engine.
  lock_.lock_within(200);
  fabric_->announce_closed();
}

// --- starting --------------------------------------------------------------------------------------------------------

Engine::Operation& Engine::take_operation(uint32_t slot) {
  Operation* operation = free_.head;
  if (operation == nullptr) {
    operation = &pool_.emplace_back();
  } else {
    free_.remove(operation);
  }
  operation->slot = slot;
  operation->persistent = operation->keeps_buffers = false;
  operation->repetition = 0;
  operation->pins = operation->buffers;
  return *operation;
}

void Engine::activate(Operation& operation) {
  operation.outstanding = 0;
  operation.waiting_rtr = 0;
  operation.error = Error::none;
  operation.poison = 0;
  operation.cancelled = operation.buffers_in_use = operation.told = operation.combined = false;
  operation.round = operation.waited = operation.asked = 0;
  operation.signature = 0;
  operation.sized = false;
  operation.watched = false;
  operation.last_round = false;
  operation.starting = true;
  slots_->set(operation.slot, static_cast<int32_t>(SlotState::pending));
  by_slot_[operation.slot] = &operation;
  active_.push(&operation);
  ++counters_.started;
  operation.traced = nullptr;
  operation.began = now_milliseconds();
}

Engine::Operation& Engine::new_operation(uint32_t slot) {
  Operation& operation = take_operation(slot);
  activate(operation);
  return operation;
}

Engine::Operation* Engine::pending(uint32_t slot) const {
  return slots_->get(slot) == static_cast<int32_t>(SlotState::pending) ? by_slot_[slot] : nullptr;
}

bool Engine::start(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive) {
  return start_plan(plan, slot,
                    [&](Operation& operation) { operation.use(plan, std::move(send), std::move(receive)); });
}

bool Engine::start(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, const Pinned (&bound)[2]) {
  return start_plan(plan, slot, [&](Operation& operation) {
    operation.use_bound(plan, bound);
    operation.keeps_buffers = true;
  });
}

template <typename Use>
bool Engine::start_plan(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, const Use& use) {
  TracedCall traced(*this, Trace::Call::start);
  enter();
  if (fabric_->alarmed()) libof_.look_around(true);
  Group& group = *plan->group;
  if (!group.known) know(plan->group);
  Operation& operation = new_operation(slot);
  traced.starts(operation);
  operation.context = group.context;
  operation.tag = group.next_tag++;
  use(operation);
  operation.is_of_its_plan(0);
  note_call(group, operation);
  run_plan(operation);
  return after_start(slot);
}

bool Engine::start_messages(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive,
                            uint32_t send_tag, uint32_t receive_tag) {
  TracedCall traced(*this, Trace::Call::start);
  enter();
  Operation& operation = new_operation(slot);
  traced.starts(operation);
  operation.use(plan, std::move(send), std::move(receive));
  operation.use_tags(send_tag, receive_tag);
  run_messages(operation);
  return after_start(slot);
}

void Engine::Operation::use(const std::shared_ptr<LoadedPlan>& with, Pinned send, Pinned receive) {
  if (loaded != with) loaded = with;  // see give_back()
  plan = &with->plan;
  base[static_cast<size_t>(Role::send)] = send.data;
  base[static_cast<size_t>(Role::receive)] = receive.data;
  buffers[0] = std::move(send);
  buffers[1] = std::move(receive);
}

// See give_back(): what is the same as last time is not counted again.
void Engine::Operation::use_bound(const std::shared_ptr<LoadedPlan>& with, const Pinned (&bound)[2]) {
  if (loaded != with) loaded = with;
  plan = &with->plan;
  for (uint32_t role = 0; role < 2; ++role) {
    base[role] = buffers[role].data = bound[role].data;
    buffers[role].bytes = bound[role].bytes;
    if (buffers[role].keeper != bound[role].keeper) buffers[role].keeper = bound[role].keeper;
  }
}

void Engine::Operation::use_tags(uint32_t send_tag, uint32_t receive_tag) {
  const uint64_t messages = loaded->group->context + 1;
  send_key = {messages, send_tag, 0};
  receive_key = {messages, receive_tag, 0};
}

// A plan for messages has at most one transfer each way.
void Engine::run_messages(Operation& operation) {
  const LoadedPlan& loaded = *operation.loaded;
  for (const Transfer& t : loaded.plan.sends)
    operation.send_key.sequence = count_of(*loaded.group, t.peer, operation.send_key.tag, true)++;
  for (const Transfer& t : loaded.plan.receives)
    operation.receive_key.sequence = count_of(*loaded.group, t.peer, operation.receive_key.tag, false)++;
  run_plan(operation);
}

void Engine::note_start(Operation& operation, uint32_t source) {
  operation.traced =
      trace_->operation(counters_.started, source, operation.context, operation.tag, operation.repetition);
  // The meter counts all messages.
  operation.noted = meter_.is_on() ? nullptr : trace_->exchange(operation.traced);
}

void Engine::run_plan(Operation& operation) {
  if (trace_ != nullptr) note_start(operation, operation.loaded->source_in(*trace_));
  if (const uint64_t bytes = operation.plan->role_bytes[static_cast<size_t>(Role::temporary)]; bytes > 0) {
    operation.temporary = temporary_.take(bytes);
    if (operation.temporary.data == nullptr) refuse_memory(operation, bytes);
  }
  operation.base[static_cast<size_t>(Role::temporary)] = operation.temporary.data;
  if (const Group& group = *operation.loaded->group; group.mismatched && ends(group, operation))
    operation.error = group.mismatch.error();
  ++unfinished_rounds_;
  at_once_ = kAtOnce;
  advance(operation);
}

// There is no temporary memory for it.
void Engine::refuse_memory(Operation& operation, uint64_t bytes) {
  operation.error = Error::memory;
  operation.error_peer = fabric_->rank();
  reasons_[operation.slot] = "no " + std::to_string(bytes) + " bytes of temporary memory: " + temporary_.why();
}

bool Engine::message(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag, bool sends) {
  TracedCall traced(*this, Trace::Call::start);
  enter();
  if (fabric_->alarmed()) libof_.look_around(true);
  Operation& operation = new_operation(slot);
  traced.starts(operation);
  operation.loaded.reset();
  operation.buffers[0] = std::move(buffer);
  operation.buffers[1] = {};  // see give_back()
  operation.context = group.context + 1;
  const Rank world = group.members[peer];
  if (group.revoked()) {
    refuse_message(operation);
    return after_start(slot);
  }
  run_message(operation, world, {group.context + 1, tag, count_of(group, world, tag, sends)++}, sends);
  return after_start(slot);
}

// Its communicator is revoked.
void Engine::refuse_message(Operation& operation) {
  operation.last_round = true;
  operation.error = Error::revoked;
  finish(operation);
}

void Engine::run_message(Operation& operation, Rank peer, const libof::MessageKey& key, bool sends) {
  if (trace_ != nullptr) note_start(operation, sends ? Trace::kSends : Trace::kReceives);
  operation.last_round = true;
  const Pinned& pin = operation.buffers[0];
  const bool complete = sends ? libof_.isend(operation, peer, key, pin.data, pin.bytes)
                              : libof_.irecv(operation, peer, key, pin.data, pin.bytes, libof::Length::at_most);
  if (sends) poll_for_rtr(operation, 0, options_.wait_on_send_us);
  if (complete) finish(operation);
}

bool Engine::isend(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag) {
  return message(group, slot, std::move(buffer), peer, tag, true);
}

bool Engine::irecv(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag) {
  return message(group, slot, std::move(buffer), peer, tag, false);
}

// --- persistent requests ---------------------------------------------------------------------------------------------

Engine::Operation& Engine::new_persistent(uint32_t slot, std::shared_ptr<Group> group) {
  Operation& operation = take_operation(slot);
  operation.persistent = true;
  for (Pinned& pin : operation.buffers) pin = {};  // see give_back()
  slots_->set(slot, static_cast<int32_t>(SlotState::done));
  persistent_[slot] = {&operation, std::move(group)};
  return operation;
}

void Engine::prepare(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive) {
  enter();
  if (fabric_->alarmed()) libof_.look_around(true);
  if (!plan->group->known) know(plan->group);
  Operation& operation = new_persistent(slot, plan->group);
  Group& group = *plan->group;
  operation.context = group.context + 2;
  operation.tag = group.next_tag++;
  operation.repetition = UINT32_MAX;  // the first start makes it 0
  operation.use(plan, std::move(send), std::move(receive));
  operation.is_of_its_plan(kPersistentCall);
  if (operation.signature != 0) group.inits[operation.tag] = operation.call();
  note_call(group, operation);
  advance_ready();
  fabric_->flush();
  leave();
}

void Engine::prepare_messages(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive,
                              uint32_t send_tag, uint32_t receive_tag) {
  enter();
  Operation& operation = new_persistent(slot, plan->group);
  operation.use(plan, std::move(send), std::move(receive));
  operation.use_tags(send_tag, receive_tag);
  leave();
}

void Engine::prepare_message(std::shared_ptr<Group> group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag,
                             bool sends) {
  enter();
  Operation& operation = new_persistent(slot, group);
  operation.loaded.reset();
  operation.context = group->context + 1;
  operation.tag = tag;
  operation.buffers[0] = std::move(buffer);
  Persistent& persistent = persistent_[slot];
  persistent.peer = group->members[peer];
  persistent.count = &count_of(*group, persistent.peer, tag, sends);
  persistent.sends = sends;
  leave();
}

Engine::Restart Engine::restart(uint32_t slot) {
  TracedCall traced(*this, Trace::Call::start);
  enter();
  const auto found = persistent_.find(slot);
  if (found == persistent_.end() || by_slot_[slot] != nullptr) {
    leave();
    return Restart::refused;
  }
  const Persistent& persistent = found->second;
  if (fabric_->alarmed()) libof_.look_around(true);
  Operation& operation = *persistent.operation;
  activate(operation);
  traced.starts(operation);
  if (operation.loaded == nullptr && persistent.group->revoked()) {
    refuse_message(operation);
  } else if (operation.loaded == nullptr) {
    run_message(operation, persistent.peer, {operation.context, operation.tag, (*persistent.count)++},
                persistent.sends);
  } else if (operation.loaded->messages) {
    run_messages(operation);
  } else {
    ++operation.repetition;
    operation.is_of_its_plan(kPersistentCall);
    run_plan(operation);
  }
  after_start(slot);
  return slots_->get(slot) == static_cast<int32_t>(SlotState::done) ? Restart::ended : Restart::pending;
}

void Engine::release(uint32_t slot) {
  enter();
  if (const auto found = persistent_.find(slot); found != persistent_.end()) {
    Operation& operation = *found->second.operation;
    operation.persistent = false;
    if (operation.loaded != nullptr && operation.loaded->call.signature != 0)
      found->second.group->inits.erase(operation.tag);
    if (by_slot_[slot] == nullptr) give_back(operation);
    persistent_.erase(found);
  }
  leave();
}

// The end of every start: test-on-init for all that is pending, and work that is too small to hand over.
bool Engine::after_start(uint32_t slot) {
  if (!mismatches_.empty()) advance_ready();
  fabric_->flush();
  if (by_slot_[slot] != nullptr && options_.libof.test_on_init) {
    pass(Effort::look);
    for (uint32_t i = 0; i < kShortPasses && has_short_work(); ++i) pass(Effort::pass);
  }
  // Without a progress thread, what the paper's network would do by itself is done here: data whose RTR was caught
  // moves. So is local work, which no other thread would do.
  if (!options_.progress_thread && (options_.wait_on_send_us > 0 || options_.startall_us > 0)) {
    while (has_work()) pass(Effort::pass);
  }
  Operation* const still = by_slot_[slot];
  if (still != nullptr) still->starting = false;
  const bool complete = still == nullptr && slots_->get(slot) == static_cast<int32_t>(SlotState::pending);
  leave();
  return complete;
}

void Engine::poll_for_rtr(Operation& operation, uint32_t target, uint32_t microseconds) {
  if (microseconds == 0 || operation.waiting_rtr <= target) return;
  const auto limit = Clock::now() + std::chrono::microseconds(microseconds);
  fabric_->flush();
  while (operation.waiting_rtr > target && Clock::now() < limit) {
    libof_.progress(Effort::pass);
    fabric_->flush();
    relax();
  }
  time_passes();
}

// --- telling ---------------------------------------------------------------------------------------------------------

RequestFailure Engine::failure(uint32_t slot) {
  enter();
  const auto it = failures_.find(slot);
  RequestFailure failure = it == failures_.end() ? RequestFailure() : it->second;
  if (failure.error == Error::calls_differ) {
    if (Group* group = group_of(failure.mismatch.context)) group->reported = true;
  }
  leave();
  return failure;
}

Trace::Lists Engine::read_trace() {
  if (trace_ == nullptr) return {};
  enter();
  try {
    Trace::Lists lists = trace_->read();
    leave();
    return lists;
  } catch (...) {
    leave();
    throw;
  }
}

void Engine::visit_counters(const CounterVisitor& visit) {
  enter();
  add_counters(visit);
  leave();
}

std::vector<Network> Engine::networks() {
  std::vector<Network> found(fabric_->size());
  enter();
  for (Rank peer = 0; peer < found.size(); ++peer) found[peer] = fabric_->network_to(peer);
  leave();
  return found;
}

void Engine::add_counters(const CounterVisitor& visit) const {
  const auto add = [&](Counter counter, uint64_t value) { visit(counter, static_cast<double>(value)); };
  const libof::Counters& l = libof_.counters();
  add(Counter::started, counters_.started);
  add(Counter::rounds, counters_.rounds);
  add(Counter::eager_sent, l.eager_sent);
  add(Counter::eager_stalled, l.eager_stalled);
  add(Counter::eager_unexpected, l.eager_unexpected);
  add(Counter::acks_piggybacked, l.acks_piggybacked);
  add(Counter::acks_explicit, l.acks_explicit);
  add(Counter::rtr_sent, l.rtr_sent);
  add(Counter::rtr_stalled, l.rtr_stalled);
  add(Counter::rtr_early, l.rtr_early);
  add(Counter::rts_sent, l.rts_sent);
  add(Counter::data_sent, l.data_sent);
  add(Counter::connections, l.connections);
  fabric_->visit_counters(visit);
  add(Counter::progress_wakeups, counters_.progress_wakeups);
  add(Counter::progress_passes, counters_.progress_passes);
  add(Counter::loop_wakeups, counters_.loop_wakeups);
  add(Counter::moves, placement_.moves());
  add(Counter::allocated_bytes, fabric_->memory()->used());
  const libof::Holdings holdings = libof_.holdings();
  add(Counter::mailbox_slots, holdings.mailbox_slots);
  add(Counter::held_messages, holdings.messages);
}

}  // namespace nbc
