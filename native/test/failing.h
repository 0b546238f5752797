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

}  // namespace nbc::check
