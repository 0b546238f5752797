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

// What is pending when a communicator is closed goes on, and keeps its group.
Group* Engine::group_of(uint64_t context) const {
  if (Group* const group = open_group(context)) return group;
  for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    const LoadedPlan* loaded = operation->loaded.get();
    if (loaded != nullptr && loaded->group->context == communicator_of(context)) return loaded->group.get();
  }
  return nullptr;
}

// This rank is in the call.
void Engine::note_call(Group& group, const Operation& operation) {
  const auto [tag, signature] = std::pair(operation.tag, operation.signature);
  if (signature == 0) return;
  KnownCall& call = group.calls[tag % Group::kCalls];
  if (call.signature != 0 && call.tag == tag && call.signature != signature) {
    return libof_.end_communicator(
        {operation.context, tag, {fabric_->rank(), call.rank}, {signature, call.signature}});
  }
  call = {tag, signature, fabric_->rank()};
}

bool Engine::differs(const libof::MessageKey& key, Rank peer, Signature theirs, Mismatch& out) {
  Group* const group = open_group(key.context);
  if (group == nullptr) return false;
  KnownCall& entry = group->calls[key.tag % Group::kCalls];
  KnownCall call = entry;
  if (call.signature == 0 || call.tag != key.tag) {
    const auto init = group->inits.find(key.tag);
    if (init == group->inits.end()) {
      // Perhaps the peer is ahead. What this rank remembers of calls before is lost at worst.
      if (call.signature == 0 || static_cast<int32_t>(key.tag - call.tag) > 0) entry = {key.tag, theirs, peer};
      return false;
    }
    call = {key.tag, init->second, fabric_->rank()};
  }
  if (call.signature == theirs) return false;
  out = {key.context, key.tag, {call.rank, peer}, {call.signature, theirs}};
  return true;
}

void Engine::mismatch(Mismatch& found, bool told) {
  Group* const group = group_of(found.context);
  if (group == nullptr) return;
  if (found.ranks[0] == fabric_->rank() && found.bytes == Mismatch::kUnknownBytes) {
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

// Ends the operations: no peer counts on their messages any more. The rank that has found the mismatch tells all ranks.
// Another one tells only those that learn from their messages that an operation of this rank has failed: they have to
// know why before.
void Engine::settle_mismatches() {
  while (!mismatches_.empty()) {
    const auto [found, told] = mismatches_.back();
    mismatches_.pop_back();
    Group* const group = group_of(found.context);
    if (group == nullptr) continue;
    if (!told) {
      for (const Rank member : group->members) libof_.tell(member, found);
    }
    std::vector<Operation*> pending;
    for (Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
      const LoadedPlan* loaded = operation->loaded.get();
      if (loaded != nullptr && !loaded->messages && loaded->group.get() == group) pending.push_back(operation);
    }
    std::vector<Rank> peers;
    for (const Operation* operation : pending)
      libof_.visit_requests(*operation, [&](const libof::Request& request) { peers.push_back(request.peer); });
    for (const Rank peer : peers) libof_.tell(peer, found);
    for (Operation* operation : pending) {
      if (operation->error == Error::none) operation->error = Error::calls_differ;
      operation->told = true;
      end_failed(*operation);
    }
  }
}

// A rank that waits for messages of a call that the peer is not in may wait for ever, and nothing tells it. So it asks,
// when it has waited in a round for a while. True: it has found something in mailboxes.
bool Engine::ask_peers() {
  const int64_t now = now_milliseconds();
  if (now < ask_at_) return false;
  if (libof_.look_around(false)) return true;  // so there is no hurry
  ask_at_ = now + kPatience;
  asks_ = false;
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
    bool asked = true;
    for (const Rank peer : peers)
      asked &= libof_.inquire(peer, {operation->context, operation->tag, 0}, operation->signature);
    if (asked) operation->asked = operation->round;
    asks_ |= !asked;
  }
  return false;
}

RequestFailure Engine::last_look(const Group* of) {
  enter();
  libof_.look_around(fabric_->alarmed());
  pass(Effort::look);
  RequestFailure failure;
  for (const auto& [context, group] : groups_) {
    if ((of != nullptr && group.get() != of) || !group->mismatched || group->reported) continue;
    failure.error = Error::calls_differ;
    failure.mismatch = group->mismatch;
  }
  if (of != nullptr) groups_.erase(of->context);
  leave();
  return failure;
}

}  // namespace nbc
