/** Calls that are remembered, and calls that look like them; see plans.test.ts. Ranks are symmetric. */
import assert from 'node:assert/strict';
import { ArgumentError, ClosedError, IN_PLACE, init, MAX, strided, SUM, waitAll, type Communicator } from 'node-nbc';
import { WasmMemory } from '../support/wasm.js';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;
const all = Array.from({ length: size }, (_, peer) => peer);

/** An exchange of bytes in which every rank uses the same counts and places; `places` of all blocks in `recv`. */
function exchange(on: Communicator, counts: readonly number[], displs: readonly number[] | null, seed: number): void {
  const places = displs ?? counts.map((_, block) => counts.slice(0, block).reduce((sum, count) => sum + count, 0));
  const total = Math.max(...counts.map((count, block) => places[block] + count));
  const recv = new Uint8Array(total).fill(255);
  const send = new Uint8Array(counts[rank]).fill(seed + rank);
  on.iallgatherv(send, recv, counts, displs).wait();
  const right = new Uint8Array(total).fill(255);
  counts.forEach((count, block) => right.fill(seed + block, places[block], places[block] + count));
  assert.deepEqual(recv, right, `counts ${String(counts)}, displs ${String(displs)}`);
}

/** Parts of one byte for each rank, at these places of two memories or one. */
function exchangeParts(send: Uint8Array, sendAt: readonly number[], recv: Uint8Array, recvAt: readonly number[]): void {
  const before = recv.slice();
  sendAt.forEach((at, peer) => (send[at] = 16 * rank + peer));
  const right = send.buffer === recv.buffer ? recv.slice() : before;
  recvAt.forEach((at, peer) => (right[at] = 16 * peer + rank));
  const partsOf = (view: Uint8Array, places: readonly number[]) => places.map((at) => view.subarray(at, at + 1));
  world.ialltoallw(partsOf(send, sendAt), partsOf(recv, recvAt)).wait();
  assert.deepEqual(recv, right, `from ${String(sendAt)} to ${String(recvAt)}`);
}

await play({
  /** One array of counts, which the program changes between calls; and more shapes than are remembered, in turns. */
  counts() {
    const counts = Array.from({ length: size }, () => 3);
    for (let round = 0; round < 3; round++) {
      exchange(world, counts, null, 10 * round);
      exchange(world, counts, null, 10 * round + 1);
      counts[size - 1] += 2;
      exchange(world, counts, null, 10 * round + 2);
      counts[0]++;
      exchange(world, counts, null, 10 * round + 3);
      // For the other ranks, buffers of the same sizes.
      [counts[0], counts[1]] = [counts[1], counts[0]];
      exchange(world, counts, null, 10 * round + 4);
    }
    const apart = counts.map((_, block) => 20 * block);
    for (const displs of [null, apart, [...apart].reverse(), null, apart]) exchange(world, counts, displs, 7);
    const shapes = Array.from({ length: 10 }, (_, shape) => counts.map((_, block) => 1 + ((shape + block) % 11)));
    for (const shape of [...shapes, ...shapes, ...shapes.reverse()]) exchange(world, shape, null, 3);
  },

  /** After a call that was right, what is wrong is found as before, on this rank alone. */
  refused() {
    const counts: unknown[] = Array.from({ length: size }, () => 2);
    const call = (given: unknown, recv: Uint8Array = new Uint8Array(2 * size)) =>
      world.iallgatherv(new Uint8Array(2), recv, given as number[], null);
    call(counts).wait();
    const wrong = (argument: string) => ({ name: 'ArgumentError', argument });
    for (const value of [-2, 2.5, '2', 2n, null, NaN, 3]) {
      assert.throws(() => call(counts.with(rank, value)), wrong('counts'), String(value));
    }
    assert.throws(() => call([...counts, 2]), wrong('counts'));
    assert.throws(() => call(counts.slice(1)), wrong('counts'));
    assert.throws(() => call(null), wrong('counts'));
    assert.throws(() => call(2 * size), wrong('counts'));
    assert.throws(() => call(counts, new Uint8Array(2 * size - 1)), wrong('counts'));
    assert.throws(() => call(counts, new Float32Array(size) as never), ArgumentError);
    const shared = new Uint8Array(2 * size);
    assert.throws(() => world.iallgatherv(shared.subarray(0, 2), shared, counts as number[], null), wrong('recv'));
    call(counts).wait();
    call(Int32Array.from(counts as number[])).wait();
  },

  /** Parts that move in their memory or to another one, and the distance between both buffers. */
  parts() {
    const moved = all.map((at) => at + 5);
    const spread = all.map((at) => 3 * at);
    const [one, two, three] = [0, 0, 0].map(() => new Uint8Array(64));
    const turns = [all, moved, spread, [...all].reverse(), all, spread, moved];
    for (const sendAt of turns) for (const recvAt of turns) exchangeParts(one, sendAt, two, recvAt);
    for (const sendAt of turns) exchangeParts(three, sendAt, one, moved);
    // One part in another memory, at the same place.
    for (const other of [false, true, false]) {
      const sends = all.map((at) =>
        (other && at === 1 ? two : one).fill(at === 1 && other ? 99 : 1).subarray(at, at + 1),
      );
      three.fill(0);
      world
        .ialltoallw(
          sends,
          all.map((at) => three.subarray(at, at + 1)),
        )
        .wait();
      assert.deepEqual(
        [...three.subarray(0, size)],
        all.map(() => (other && rank === 1 ? 99 : 1)),
      );
    }
    // In one memory, one behind the other and the other way round, and with another distance.
    for (const distance of [20, 21, 30, 20]) {
      const far = all.map((at) => at + distance);
      exchangeParts(one, all, one, far);
      exchangeParts(one, far, one, all);
    }
  },

  /** Parts of another form in memory that is the same. */
  forms() {
    const memory = new Uint8Array(64);
    const recv = new Uint8Array(64);
    const bytes = (view: Uint8Array, length: number) =>
      Array.from({ length: size }, (_, peer) => view.subarray(8 * peer, 8 * peer + length));
    // Four of eight bytes: 0, 2, 5, 7 or 0, 3, 4, 7.
    const boxes = (strides: number[]) =>
      Array.from({ length: size }, (_, peer) => strided(memory, { shape: [2, 2], strides, offset: 8 * peer }));
    for (let round = 0; round < 2; round++) {
      for (const strides of [
        [5, 2],
        [4, 3],
        [5, 2],
      ]) {
        const second = strides[1];
        memory.fill(0);
        for (let peer = 0; peer < size; peer++) memory[8 * peer + second] = 1 + 16 * rank + peer;
        recv.fill(0);
        world.ialltoallw(boxes(strides), bytes(recv, 4)).wait();
        const right = new Uint8Array(64);
        for (let peer = 0; peer < size; peer++) right[8 * peer + 1] = 1 + 16 * peer + rank;
        assert.deepEqual(recv, right, `strides ${String(strides)}`);
      }
    }
    // Nothing for the next rank, and nothing from the one before.
    const without = (parts: Uint8Array[], peer: number) => parts.map((part, index) => (index === peer ? null : part));
    const [next, previous] = [(rank + 1) % size, (rank - 1 + size) % size];
    for (const none of [false, true, false]) {
      const sends = bytes(memory, 4);
      const recvs = bytes(recv.fill(255), 4);
      world.ialltoallw(none ? without(sends, next) : sends, none ? without(recvs, previous) : recvs).wait();
      assert.equal(recv[8 * previous + 2], none ? 255 : 1 + 16 * previous + rank);
    }
    // In place after apart, and the other way round.
    world.ialltoallw(IN_PLACE, bytes(recv.fill(rank), 4)).wait();
    for (let peer = 0; peer < size; peer++) assert.equal(recv[8 * peer], peer);
    world.ialltoallw(bytes(memory, 4), bytes(recv, 4)).wait();
  },

  /** In a grid of one rank: parts for neighbours that there are not lie anywhere. */
  async alone() {
    const self = await world.split(rank);
    const grid = await self!.cart({ dims: [1], periods: [false] });
    const memory = Uint8Array.from({ length: 64 }, (_, at) => at);
    const before = memory.slice();
    const partsAt = (at: number) => [memory.subarray(at, at + 4), memory.subarray(at + 8, at + 12)];
    for (const at of [8, 3, 20, 0]) grid!.ineighborAlltoallw(partsAt(at), partsAt(at + 20)).wait();
    assert.deepEqual(memory, before);
    await grid!.close();
    await self!.close();
  },

  /** After a call that was right, memory that may not be used is found as before. */
  memory() {
    const partsOf = (view: Uint8Array) => Array.from({ length: size }, (_, peer) => view.subarray(peer, peer + 1));
    const send = new Uint8Array(size);
    world.ialltoallw(partsOf(send), partsOf(new Uint8Array(size))).wait();
    const wrong = (argument: string) => ({ name: 'ArgumentError', argument });
    const gone = partsOf(new Uint8Array(size));
    structuredClone(gone[0].buffer, { transfer: [gone[0].buffer as ArrayBuffer] });
    assert.throws(() => world.ialltoallw(gone, partsOf(new Uint8Array(size))), wrong('sends'));
    assert.throws(() => world.ialltoallw(partsOf(send), gone), wrong('recvs'));
    const lost = new Uint8Array(2 * size);
    const boxes = all.map((offset) => strided(lost, { shape: [1], strides: [1], offset }));
    structuredClone(lost.buffer, { transfer: [lost.buffer] });
    assert.throws(() => world.ialltoallw(boxes, partsOf(new Uint8Array(size))), wrong('sends'));
    const Resizable = ArrayBuffer as unknown as new (bytes: number, options: object) => ArrayBuffer;
    const growing = partsOf(new Uint8Array(new Resizable(size, { maxByteLength: 64 })));
    assert.throws(() => world.ialltoallw(growing, partsOf(new Uint8Array(size))), wrong('sends'));
    assert.throws(() => world.ialltoallw(partsOf(send), growing), wrong('recvs'));
    const same = new Uint8Array(size).subarray(0, 1);
    const overlapping = Array.from({ length: size }, () => same);
    assert.throws(() => world.ialltoallw(partsOf(send), overlapping), wrong('recvs'));
    assert.throws(() => world.ialltoallw(partsOf(send), partsOf(send)), wrong('recvs'));
    assert.throws(() => world.ialltoallw(partsOf(send), partsOf(new Uint8Array(size)).slice(1)), wrong('recvs'));
    const undefinedPart = [...partsOf(send).slice(1), undefined as never];
    assert.throws(() => world.ialltoallw(undefinedPart, partsOf(new Uint8Array(size))), wrong('sends'));
    world.ialltoallw(partsOf(send), partsOf(new Uint8Array(size))).wait();
  },

  /** The very views of an earlier call: in small memory, and in memory that is too large to be kept. */
  same() {
    for (const bytes of [64, 100_000]) {
      const [send, recv, other] = [0, 0, 0].map(() => new Uint8Array(bytes));
      const partsOf = (view: Uint8Array) => all.map((peer) => view.subarray(peer, peer + 1));
      const [sends, recvs] = [partsOf(send), partsOf(recv)];
      let turn = 0;
      const exchangeSame = (into = recv, from = send) => {
        turn++;
        all.forEach((peer) => (from[peer] = turn + 16 * rank + peer));
        into.fill(0);
        world.ialltoallw(sends, recvs).wait();
        assert.deepEqual(
          [...into.subarray(0, size)],
          all.map((peer) => turn + 16 * peer + rank),
        );
      };
      for (let i = 0; i < 3; i++) exchangeSame();
      // The program changes its arrays.
      recvs.splice(0, size, ...partsOf(other));
      exchangeSame(other);
      const before = all.map((peer) => turn - 1 + 16 * peer + rank);
      assert.deepEqual([...recv.subarray(0, size)], before, 'nothing comes to where parts were before');
      sends.splice(0, size, ...partsOf(recv));
      exchangeSame(other, recv);
      const wrong = (argument: string) => ({ name: 'ArgumentError', argument });
      const [next, previous] = [(rank + 1) % size, (rank - 1 + size) % size];
      const [nextPart, previousPart] = [sends[next], recvs[previous]];
      (sends as unknown[])[next] = undefined;
      assert.throws(() => world.ialltoallw(sends, recvs), wrong('sends'));
      // No part for the next rank, and then the same one again.
      (sends as unknown[])[next] = null;
      (recvs as unknown[])[previous] = null;
      other.fill(255);
      world.ialltoallw(sends, recvs).wait();
      assert.equal(other[previous], 255);
      [sends[next], recvs[previous]] = [nextPart, previousPart];
      exchangeSame(other, recv);
      recvs.push(recvs[0]);
      assert.throws(() => world.ialltoallw(sends, recvs), wrong('recvs'));
      recvs.pop();
      // In place, with the same list, and apart again.
      other.fill(rank);
      world.ialltoallw(IN_PLACE, recvs).wait();
      assert.deepEqual([...other.subarray(0, size)], all);
      exchangeSame(other, recv);
      // The memory goes to another object: the views have none, and the new ones are as good as any.
      const moved = new Uint8Array(structuredClone(other.buffer, { transfer: [other.buffer] }));
      assert.throws(() => world.ialltoallw(sends, recvs), wrong('recvs'));
      recvs.splice(0, size, ...partsOf(moved));
      exchangeSame(moved, recv);
      structuredClone(recv.buffer, { transfer: [recv.buffer] });
      assert.throws(() => world.ialltoallw(sends, recvs), wrong('sends'));
      sends.splice(0, size, ...partsOf(send));
      exchangeSame(moved);
    }
  },

  /** The very views of earlier calls, which native code holds if their memory is small. */
  views() {
    for (const length of [1, 2, 5_000]) {
      const [a, b, c] = [0, 0, 0].map(() => new Float64Array(length));
      const [wide, other] = [0, 0].map(() => new Float64Array(length * size));
      const counts = all.map(() => length);
      const displs = all.map((block) => block * length);
      const sum = (size * (size - 1)) / 2;
      for (let turn = 0; turn < 40; turn++) {
        // Buffers, roots, operators and counts in turns, with periods that differ.
        const [from, into] = turn % 3 === 0 ? [a, b] : turn % 3 === 1 ? [b, a] : [c, b];
        from.fill(100 * turn + rank);
        world.iallreduce(from, into, turn % 5 === 0 ? MAX : SUM).wait();
        assert.equal(into[length - 1], turn % 5 === 0 ? 100 * turn + size - 1 : 100 * turn * size + sum);
        from.fill(turn + rank);
        world.ibcast(from, turn % size).wait();
        assert.equal(from[length - 1], turn + (turn % size));
        const wideNow = turn % 2 === 0 ? wide : other;
        wideNow.fill(-1);
        from.fill(turn + 10 * rank);
        world.iallgather(from, wideNow).wait();
        assert.deepEqual(
          all.map((peer) => wideNow[peer * length]),
          all.map((peer) => turn + 10 * peer),
        );
        for (let block = 0; block < size; block++) wideNow[rank * length + block] = turn - rank;
        world.iallgather(IN_PLACE, wideNow).wait();
        assert.equal(wideNow[((rank + 1) % size) * length], turn - ((rank + 1) % size));
        counts[turn % size] = turn % 4 === 3 ? 0 : length;
        wideNow.fill(-1);
        world.igatherv(from.subarray(0, counts[rank]), rank === 0 ? wideNow : null, counts, null, 0).wait();
        world
          .igatherv(
            from,
            rank === 1 ? wideNow : null,
            all.map(() => length),
            null,
            1,
          )
          .wait();
        if (rank === 1) assert.equal(wideNow[size * length - 1], turn + 10 * (size - 1));
        if (turn % 7 === 3) displs.reverse();
        world
          .iallgatherv(
            from,
            wide,
            displs.map(() => length),
            displs,
          )
          .wait();
        assert.equal(wide[displs[0]], turn);
        world.ibarrier().wait();
      }
      // Held by a persistent request, too, and by two starts at a time.
      const request = world.bcastInit(a, 0);
      for (let turn = 0; turn < 3; turn++) {
        a.fill(rank === 0 ? turn : -1);
        request.start();
        request.wait();
        assert.equal(a[0], turn);
        const both = [world.ibcast(a, 0), world.ibcast(b, 0)];
        waitAll(both);
        assert.equal(a[0], turn);
      }
      request.free();
    }
  },

  /** The same views, whose memory has gone away since. */
  async gone() {
    const wasm = new WasmMemory({ initial: 1 });
    const views = {
      array: new Float64Array(2),
      part: new Uint8Array(new ArrayBuffer(64), 8, 16),
      data: new DataView(new ArrayBuffer(16)),
    };
    for (const view of Object.values(views)) {
      const into = new Uint8Array(16);
      const wide = new Uint8Array(16 * size);
      const call = () => {
        world.ibcast(view, 0).wait();
        world.iallgather(view, wide).wait();
        world.ibcast(into, 0).wait();
      };
      for (let turn = 0; turn < 30; turn++) call();
      const moved = structuredClone(view.buffer, { transfer: [view.buffer] });
      const before = new Uint8Array(moved).slice();
      assert.throws(() => world.ibcast(view, 0), { name: 'ArgumentError', argument: 'buffer' });
      assert.throws(() => world.iallgather(view, wide), { name: 'ArgumentError', argument: 'send' });
      into.fill(99 + rank);
      world.ibcast(into, 0).wait();
      assert.equal(into[15], 99);
      assert.deepEqual(new Uint8Array(moved), before);
    }
    const inWasm = new Uint8Array(wasm.buffer, 0, 16);
    for (let turn = 0; turn < 30; turn++) world.ibcast(inWasm, 0).wait();
    wasm.grow(1);
    assert.throws(() => world.ibcast(inWasm, 0), { name: 'ArgumentError', argument: 'buffer' });

    // What a closed communicator has held is free again.
    const comm = await world.dup();
    const held = (() => {
      const view = new Float64Array(1000);
      for (let turn = 0; turn < 30; turn++) comm.ibcast(view, 0).wait();
      return new WeakRef(view);
    })();
    await comm.close();
    for (let i = 0; i < 100 && held.deref() !== undefined; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      globalThis.gc!();
    }
    assert.equal(held.deref(), undefined);
  },

  /** A communicator that was closed has forgotten all calls. */
  async closed() {
    const other = await world.dup();
    const counts = Array.from({ length: size }, () => 1);
    const parts = () => Array.from({ length: size }, (_, peer) => new Uint8Array(size).subarray(peer, peer + 1));
    const calls = [
      () => other.ibcast(new Uint8Array(4), 0),
      () => other.iallgatherv(new Uint8Array(1), new Uint8Array(size), counts, null),
      () => other.ialltoallw(parts(), parts()),
    ];
    for (const call of calls) {
      call().wait();
      call().wait();
    }
    await other.close();
    for (const call of calls) assert.throws(call, ClosedError);
  },
});
await world.close();
