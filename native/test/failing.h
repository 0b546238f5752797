// Operations that fail while other transfers of theirs are pending.
#pragma once
#include "test/ranks.h"

namespace nbc::check {

// Three ranks. Rank 0 gathers a block from each other rank; rank 2 sends one of a wrong size at once, rank 1 the right
// one, but only after rank 0 has its error and has used the buffer again. Nothing may be written to the buffer then.
// Rank 1 does nothing in the meantime, and the ranks can still talk afterwards.
inline void late_block(TestRank& me, Meeting& meeting, size_t block, bool in_arena, bool progress_thread) {
  Schedule schedule(block, 2 * block);
  schedule.round();
  if (me.rank == 0) schedule.receive(1, Role::receive, 0, block).receive(2, Role::receive, block, block);
  if (me.rank == 1) schedule.send(0, Role::send, 0, block);
  if (me.rank == 2) schedule.send(0, Role::send, 0, block / 2);
  const auto plan = me.load(schedule);
  const Pinned send = me.filled(block, in_arena, 10 + me.rank);
  const Pinned receive = me.memory(2 * block, in_arena);
  // Without a progress thread only calls answer a peer.
  const std::function<void()> drive = [&] {
    if (!progress_thread) me.engine->test();
  };
  const auto use_again = [&] { fill(receive.data, receive.bytes, 77); };
  if (me.rank == 0) {
    const uint32_t request = me.start(plan, send, receive);
    meeting.meet();
    CHECK_EQ(me.failure(request), Error::truncated);
    use_again();
    meeting.meet();
    meeting.meet(drive);  // rank 1 sends meanwhile
  } else {
    meeting.meet();
    uint32_t request = kNoRequest;
    if (me.rank == 2) request = me.start(plan, send, receive);
    meeting.meet(me.rank == 2 ? drive : std::function<void()>([] {}));
    if (me.rank == 1) request = me.start(plan, send, receive);
    if (request != kNoRequest) {
      const Error error = me.failure(request);
      // A block that has left before its sender hears that nobody wants it is dropped.
      CHECK(error == Error::none || error == (me.rank == 2 ? Error::truncated : Error::abandoned));
    }
    meeting.meet();
  }
  // All that was sent before these has arrived when they have.
  const Pinned in = me.plain(block);
  for (Rank peer = 0; peer < me.size; ++peer) {
    if (peer == me.rank) continue;
    const uint32_t from = me.irecv(in, peer, 5);
    me.wait(me.isend(me.filled(block, in_arena, me.rank), peer, 5));
    me.wait(from);
    check_data(in, peer);
  }
  if (me.rank == 0) check_data(receive, 77);
  meeting.meet();
}

// When the sender of the right block begins: before the other block has failed the gather, at the same time, or after.
enum class Begins { before, meanwhile, after };

// Three ranks. Rank 0 gathers a block from each other rank. One of them, `good`, sends the right size, the other one
// not. Nothing may be written to the buffer after the error.
inline void revoked_block(TestRank& me, Meeting& meeting, size_t block, bool in_arena, Begins begins, Rank good) {
  Schedule schedule(block, 2 * block);
  schedule.round();
  if (me.rank == 0) schedule.receive(1, Role::receive, 0, block).receive(2, Role::receive, block, block);
  if (me.rank != 0) schedule.send(0, Role::send, 0, me.rank == good ? block : block / 2);
  const auto plan = me.load(schedule);
  const Pinned receive = me.memory(2 * block, in_arena);
  const std::function<void()> drive = [&] { me.engine->test(); };
  const auto part = [&] { return me.start(plan, me.filled(block, in_arena, me.rank), receive); };
  uint32_t request = kNoRequest;
  if (me.rank == 0) request = part();
  meeting.meet(drive);
  if (me.rank == good && begins == Begins::before) request = part();
  if (begins == Begins::before) meeting.meet(drive);
  if (me.rank != 0 && (me.rank != good || begins == Begins::meanwhile)) request = part();
  if (me.rank == 0) {
    CHECK_EQ(me.failure(request), Error::truncated);
    fill(receive.data, receive.bytes, 77);
  }
  meeting.meet(drive);
  if (me.rank == good && begins == Begins::after) request = part();
  if (me.rank != 0 && request != kNoRequest) {
    const Error error = me.failure(request);
    // A block may have left before its sender hears of the failure.
    CHECK(error == Error::none || error == (me.rank == good ? Error::abandoned : Error::truncated));
  }
  meeting.meet(drive);
  // What was sent before these has arrived when they have.
  for (Rank peer = 0; peer < me.size; ++peer) {
    if (peer == me.rank) continue;
    const Pinned in = me.memory(block, in_arena);
    const uint32_t from = me.irecv(in, peer, 5);
    me.wait(me.isend(me.filled(block, in_arena, me.rank), peer, 5));
    me.wait(from);
    check_data(in, peer);
  }
  if (me.rank == 0) check_data(receive, 77);
  meeting.meet(drive);
}

// A binomial tree with its root at rank 0, over a power of two of ranks: the parent of a rank is the rank without its
// lowest bit. The nearest children come first, so a failure at rank 4 of 8 comes before rounds that have not begun.
inline std::vector<Rank> children_of(Rank rank, Rank size) {
  std::vector<Rank> children;
  for (Rank bit = 1; bit < size && (rank & bit) == 0; bit *= 2) children.push_back(rank + bit);
  return children;
}
inline Rank parent_of(Rank rank) { return rank & (rank - 1); }

// A round for each message, from the root to the leaves. `expected`: what this rank receives.
inline Schedule tree_broadcast(Rank rank, Rank size, uint64_t block, uint64_t expected) {
  Schedule schedule(0, block);
  if (rank != 0) schedule.round().receive(parent_of(rank), Role::receive, 0, expected);
  for (const Rank child : children_of(rank, size)) schedule.round().send(child, Role::receive, 0, block);
  return schedule;
}

// From the leaves to the root. `expected`: what this rank receives from each of its children.
inline Schedule tree_gather(Rank rank, Rank size, uint64_t block, uint64_t expected) {
  Schedule schedule(block, block);
  for (const Rank child : children_of(rank, size)) schedule.round().receive(child, Role::receive, 0, expected);
  if (rank != 0) schedule.round().send(parent_of(rank), Role::send, 0, block);
  return schedule;
}

// Eight ranks. Rank 4 expects another size than is sent. All that need its data learn of it, and where it began, while
// nobody closes; and then all ranks go on.
inline void failing_tree(TestRank& me, Meeting& meeting, size_t block, bool to_root) {
  constexpr Rank kFailing = 4;
  const auto tree = to_root ? tree_gather : tree_broadcast;
  const Pinned send = me.filled(block, false, 1);
  const auto run = [&](uint64_t expected) {
    return me.start(me.load(tree(me.rank, me.size, block, expected)), send,
                    me.rank == 0 && !to_root ? send : me.plain(block));
  };
  const uint32_t request = run(me.rank == kFailing ? block / 2 : block);
  // Rank 5 is the first child of rank 4, and learns it only where its message is large.
  const bool needs = to_root ? me.rank == 0 || me.rank == kFailing : me.rank >= kFailing;
  if (request != kNoRequest) {
    CHECK(me.engine->wait(&request, 1, true, -1));
    const Error error = me.error(request);
    const RequestFailure failure = me.engine->failure(request);
    if (me.rank == kFailing) {
      CHECK_EQ(error, Error::truncated);
    } else if (needs) {
      CHECK_EQ(error, Error::abandoned);
    }
    if (error == Error::abandoned) {
      // A rank between learns it from its peer, and the peer may have been the other side of the disagreement.
      CHECK_EQ(failure.cause, Error::truncated);
      CHECK(failure.origin == kFailing || failure.origin == (to_root ? 5u : 0u));
    }
    if (error == Error::none) me.finish(request);
  } else {
    CHECK(!needs);
  }
  meeting.meet([&] { me.engine->test(); });
  const uint32_t again = run(block);
  if (again != kNoRequest) me.wait(again);
  meeting.meet([&] { me.engine->test(); });
}

}  // namespace nbc::check
