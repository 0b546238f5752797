// Calls that differ: what is known of the calls of a communicator, and what becomes of its operations when two of them
// are not the same. LibOF compares signatures (libof/calls.cc).
#include "engine/engine.h"
#include "fabric/clock.h"

#include <algorithm>

namespace nbc {
namespace {

// A round that has waited so long asks the peers that it waits for, once; in milliseconds.
constexpr int64_t kPatience = 100;

// A communicator takes four numbers (src/contexts.ts): collectives have the first, persistent ones the third.
constexpr uint64_t communicator_of(uint64_t context) { return context & ~uint64_t{3}; }
// With those of what it carries for itself, it takes sixteen.
constexpr uint64_t owner_of(uint64_t context) { return context & ~uint64_t{15}; }

// The call is before the next one. Tags wrap.
constexpr bool is_made(uint32_t tag, uint32_t next_tag) { return static_cast<int32_t>(tag - next_tag) < 0; }

// Communicators that were closed of which it is known how many calls they have had.
constexpr size_t kMostClosed = 4096;

}  // namespace

void Engine::know(const std::shared_ptr<Group>& group) {
  group->known = true;
  groups_[group->context] = group;
  if (const Mismatch* told = libof_.mismatch_of(group->context)) {
    group->mismatched = true;
    group->mismatch = *told;
  } else {
    libof_.compare_kept(group->context);
  }
}

void Engine::know_from_now(const std::shared_ptr<Group>& group) {
  enter();
  know(group);
  advance_ready();
  fabric_->flush();
  leave();
}

Group* Engine::open_group(uint64_t context) const {
  const auto found = groups_.find(communicator_of(context));
  return found == groups_.end() ? nullptr : found->second.get();
}

// What is pending when a communicator is closed goes on, and its group is known as long.
Group* Engine::group_of(uint64_t context) const {
  if (Group* const group = open_group(context)) return group;
  for (const auto& group : closed_groups_) {
    if (group->context == communicator_of(context)) return group.get();
  }
  return nullptr;
}

Group* Engine::group_of(const Operation& operation) const {
  return operation.loaded != nullptr ? operation.loaded->group.get() : group_of(operation.context);
}

bool Engine::is_pending(const Group& group) const {
  for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    if (communicator_of(operation->context) == group.context) return true;
  }
  return false;
}

void Engine::close_group(const Group& group) {
  std::erase_if(closed_groups_, [this](const auto& closed) { return !is_pending(*closed); });
  const auto found = groups_.find(group.context);
  if (found == groups_.end()) return;
  const std::shared_ptr<Group> closed = found->second;  // `group` may be it
  closed_calls_.push_back({closed->context, closed->next_tag});
  if (closed_calls_.size() > kMostClosed) closed_calls_.pop_front();
  if (is_pending(group)) closed_groups_.push_back(closed);
  groups_.erase(found);
  libof_.close_communicator(closed->context);
  // Peers may have asked about what it would have carried, and this rank has never opened.
  if (closed->context == owner_of(closed->context)) {
    for (uint64_t carried = 4; carried < 16; carried += 4) libof_.compare_kept(closed->context + carried);
  }
}

// Of a revoked communicator all operations end, of one with calls that differ those that are calls.
bool Engine::ends(const Group& group, const Operation& operation) {
  const LoadedPlan* loaded = operation.loaded.get();
  if (loaded != nullptr && loaded->group.get() != &group) return false;
  if (loaded == nullptr && communicator_of(operation.context) != group.context) return false;
  return group.revoked() || (group.mismatched && loaded != nullptr && !loaded->messages);
}

void Engine::revoke(Group& group) {
  enter();
  const Rank rank = fabric_->rank();
  libof_.end_communicator({group.context, 0, {rank, rank}, {0, 0}});
  advance_ready();
  fabric_->flush();
  leave();
}

// This rank is in the call. Tags begin at 0, so what is in `made` stays where it is when that grows.
void Engine::note_call(Group& group, const Operation& operation) {
  const uint32_t tag = operation.tag;
  const KnownCall own = operation.call();
  const size_t calls = group.made.size();
  if (calls == 0 || (tag == calls && calls < Group::kMostCalls))
    group.made.resize(calls == 0 ? Group::kFewestCalls : 2 * calls);
  group.made[tag & (group.made.size() - 1)] = own;  // a power of two
  if (group.told.empty()) return;
  const ToldCall& told = group.told[tag % group.told.size()];
  const Signature other = told.tag == tag ? own.other_than(told.call) : 0;
  if (other != 0)
    libof_.end_communicator({operation.context, tag, {fabric_->rank(), told.rank}, {own.signature, other}});
}

bool Engine::differs(const libof::MessageKey& key, Rank peer, const KnownCall& theirs, Mismatch& out) {
  Group* const group = open_group(key.context);
  if (group == nullptr) {
    out = {key.context, key.tag, {peer, fabric_->rank()}, {theirs.signature, 0}};
    return theirs.waits && is_closed_without(key.context, key.tag);
  }
  const uint32_t behind = group->next_tag - key.tag;  // calls that this rank has made from this one on
  const auto compare = [&](Rank rank, const KnownCall& known) {
    const Signature other = known.other_than(theirs);
    out = {key.context, key.tag, {rank, peer}, {known.signature, other}};
    return other != 0;
  };
  if (static_cast<int32_t>(behind) > 0) {
    const size_t calls = group->made.size();
    if (behind <= calls) return compare(fabric_->rank(), group->made[key.tag % calls]);
    const auto init = group->inits.find(key.tag);
    return init != group->inits.end() && compare(fabric_->rank(), init->second);
  }
  const uint32_t ahead = 0 - behind;
  if (ahead >= Group::kMostCalls) return false;
  if (ahead >= group->told.size()) grow_told(*group, ahead);
  ToldCall& told = group->told[key.tag % group->told.size()];
  const bool is_told = told.tag == key.tag && told.call.signature != 0;
  if (is_told && compare(told.rank, told.call)) return true;
  if (!is_told || theirs.waits) told = {key.tag, theirs, peer};
  return false;
}

// What a communicator carries for itself is closed with it, and need not have been opened.
bool Engine::is_closed_without(uint64_t context, uint32_t tag) const {
  const uint64_t communicator = communicator_of(context);
  const auto find = [&](uint64_t closed) {
    return std::find_if(closed_calls_.begin(), closed_calls_.end(),
                        [&](const ClosedCalls& one) { return one.context == closed; });
  };
  if (const auto found = find(communicator); found != closed_calls_.end()) return !is_made(tag, found->next_tag);
  return find(owner_of(context)) != closed_calls_.end();
}

void Engine::grow_told(Group& group, uint32_t ahead) {
  size_t length = Group::kFewestCalls;
  while (length <= ahead) length *= 2;
  std::vector<ToldCall> told(length);
  for (const ToldCall& call : group.told) {
    if (!is_made(call.tag, group.next_tag)) told[call.tag % length] = call;
  }
  group.told = std::move(told);
}

void Engine::mismatch(Mismatch& found, bool told) {
  Group* const group = group_of(found.context);
  if (group == nullptr) return;
  if (!found.revoked() && found.ranks[0] == fabric_->rank() && found.bytes == Mismatch::kUnknownBytes) {
    for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
      const bool is_it = operation->loaded != nullptr && operation->context == found.context &&
                         operation->tag == found.tag && operation->signature == found.calls[0];
      if (is_it) found.bytes = operation->loaded->bytes;
    }
  }
  group->mismatched = true;
  group->mismatch = found;
  mismatches_.push_back({found, told});
}

// Ends the operations: no peer counts on their messages any more. The rank that has found the mismatch tells all ranks;
// where it has closed the communicator and does not know them any more, that is the first rank of the two, which waits.
// Another one tells only those that learn from their messages that an operation of this rank has failed: they have to
// know why before.
void Engine::settle_mismatches() {
  while (!mismatches_.empty()) {
    const auto [found, told] = mismatches_.back();
    mismatches_.pop_back();
    Group* const group = group_of(found.context);
    if (group == nullptr) continue;
    if (!told || found.ranks[0] == fabric_->rank()) {
      for (const Rank member : group->members) libof_.tell(member, found);
    }
    std::vector<Operation*> pending;
    for (Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
      if (ends(*group, *operation)) pending.push_back(operation);
    }
    std::vector<Rank> peers;
    for (const Operation* operation : pending)
      libof_.visit_requests(*operation, [&](const libof::Request& request) { peers.push_back(request.peer); });
    for (const Rank peer : peers) libof_.tell(peer, found);
    for (Operation* operation : pending) {
      if (operation->error == Error::none) operation->error = found.error();
      // For a peer that data on its way is taken back from, and whose mailbox has no room for the notice.
      operation->poison = libof::poison_of(found.ranks[0], found.error());
      operation->told = true;
      end_failed(*operation);
    }
  }
}

// A peer has given up a message of the operation because calls differ, and has not said which. It has told it before,
// or will do so when this rank's mailbox has room: the operation goes on waiting for that, with all that it has. The
// peer may have ended, and so there is a limit.
bool Engine::awaits_notice(const Operation& operation) {
  const bool follows = operation.error == Error::abandoned && operation.loaded != nullptr &&
                       !operation.loaded->messages && libof::cause_of(operation.poison) == Error::calls_differ;
  if (!follows || libof_.is_closing()) return false;
  libof_.look_at(operation.error_peer);
  if (operation.loaded->group->mismatched) return false;
  const auto is_it = [&](const Awaiting& awaiting) { return awaiting.operation == &operation; };
  const auto found = std::find_if(awaiting_.begin(), awaiting_.end(), is_it);
  if (found != awaiting_.end()) return now_milliseconds() < found->until;
  awaiting_.push_back({&operation, now_milliseconds() + options_.libof.revoke_limit});
  asks_ = true;
  return true;
}

// Those that have waited for too long go on without. True: there is one.
bool Engine::stop_awaiting() {
  bool stops = false;
  for (const auto& [operation, until] : std::vector<Awaiting>(awaiting_)) {
    if (awaits_notice(*operation)) continue;
    end_failed(*by_slot_[operation->slot]);
    stops = true;
  }
  return stops;
}

// A rank that waits for messages of a call that the peer is not in may wait for ever, and nothing tells it. So it asks,
// when it has waited in a round for a while. True: something has come of it.
bool Engine::ask_peers() {
  const int64_t now = now_milliseconds();
  if (now < ask_at_) return false;
  if (libof_.look_around(false)) return true;  // so there is no hurry
  ask_at_ = now + kPatience;
  if (stop_awaiting()) return true;
  asks_ = !awaiting_.empty();
  for (Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    if (operation->signature == 0 || operation->asked == operation->round) continue;
    if (operation->waited != operation->round) {
      operation->waited = operation->round;
      asks_ = true;
      continue;
    }
    std::vector<Rank> peers;
    libof_.visit_requests(*operation, [&](const libof::Request& request) { peers.push_back(request.peer); });
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    // What was too far ahead when it came.
    if (operation->loaded->group->known) libof_.compare_kept(operation->loaded->group->context);
    bool asked = true;
    for (const Rank peer : peers) asked &= libof_.inquire(peer, operation->context, operation->tag, operation->call());
    if (asked) operation->asked = operation->round;
    asks_ |= !asked;
  }
  return false;
}

// A message that the schedule of an ended call has not received; or a call that peers speak of and this rank has not
// made. A persistent collective is left out of the first: the peer may have started it once more.
bool Engine::left_over(const Group& group, Mismatch& out) const {
  if (group.failed || group.mismatched) return false;
  const Rank rank = fabric_->rank();
  for (const libof::LibOF::Kept& kept : libof_.kept_messages(group.context)) {
    const auto& [peer, key, call] = kept;
    const Signature signature = call.signature;
    if (signature == 0 || (signature & kPersistentCall) != 0 || !is_made(key.tag, group.next_tag)) continue;
    bool pending = false;
    for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next)
      pending |= operation->context == key.context && operation->tag == key.tag;
    if (pending) continue;
    out = {key.context, key.tag, {peer, rank}, {signature, signature}};
    return true;
  }
  for (const ToldCall& told : group.told) {
    if (told.call.signature == 0 || is_made(told.tag, group.next_tag)) continue;
    out = {group.context, told.tag, {told.rank, rank}, {told.call.signature, 0}};
    return true;
  }
  return false;
}

RequestFailure Engine::last_look(const Group* of) {
  enter();
  libof_.look_around(fabric_->alarmed());
  pass(Effort::look);
  RequestFailure failure;
  for (const auto& [context, group] : groups_) {
    if (of != nullptr && group.get() != of) continue;
    Mismatch found = group->mismatch;
    const bool differ = group->mismatched && !group->revoked() && !group->reported;
    // Of several, one that is an error.
    const bool is_worst = failure.error == Error::none || failure.mismatch.calls[1] == 0;
    if (!is_worst || !(differ || left_over(*group, found))) continue;
    failure.error = Error::calls_differ;
    failure.mismatch = found;
  }
  if (of != nullptr) {
    end_waits(*of);
    close_group(*of);
    fabric_->flush();
  }
  leave();
  return failure;
}

// Peers wait in a call that this rank will not make any more.
void Engine::end_waits(const Group& group) {
  const auto waits = [&](const ToldCall& told) { return told.call.waits && !is_made(told.tag, group.next_tag); };
  const auto told = std::find_if(group.told.begin(), group.told.end(), waits);
  if (told == group.told.end()) return;
  libof_.end_communicator({group.context, told->tag, {told->rank, fabric_->rank()}, {told->call.signature, 0}});
  advance_ready();
}

}  // namespace nbc
