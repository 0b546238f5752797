/** Persistent requests; see persistent.test.ts. */
import assert from 'node:assert/strict';
import {
  ActiveError,
  alloc,
  ArgumentError,
  ClosedError,
  type Communicator,
  init,
  PeerClosedError,
  type PersistentRequest,
  startAll,
  SUM,
  TruncatedError,
  waitAll,
} from 'node-nbc';
import { OPERATIONS } from 'node-nbc/schedules';
import { arrange, type Case, contribution, ORACLES, withOperator } from '../oracle.js';
import { assertBytes, piece } from './noise.js';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;
const peer = (rank + 1) % size;
const before = (rank + size - 1) % size;

type Init = (...args: unknown[]) => PersistentRequest;

/** The persistent form of an operation of the table. */
function initOf(communicator: Communicator, name: string): Init {
  const method = (communicator as unknown as Record<string, Init>)[`${name.slice(1)}Init`];
  assert.equal(typeof method, 'function', `${name} has a persistent form`);
  return method.bind(communicator);
}

/** Another order on each rank and in each round. */
function shuffled<T>(list: readonly T[], seed: number): T[] {
  const keys = new Map(list.map((item, index) => [item, ((index + 1) * 2654435761 * (seed + 1)) % 4294967291]));
  return [...list].sort((a, b) => keys.get(a)! - keys.get(b)!);
}

await play({
  /** All operations of the table, prepared in one order and started in another one by each rank, three times over. */
  operations() {
    const parts = [];
    for (const [index, { name }] of OPERATIONS.entries()) {
      for (const count of [1, 300, 20_000]) {
        for (const inPlace of ORACLES[name].inPlace ? [false, true] : [false]) {
          const root = (index + count) % size;
          const c = withOperator({ size, root, count, inPlace, gaps: false }, index + count) satisfies Case;
          const make = count === 300 ? (n: number) => alloc(Uint8Array, n) : (n: number) => new Uint8Array(n);
          const part = arrange(ORACLES[name], c, rank, make);
          parts.push({ name, c, part, request: initOf(world, name)(...part.args) });
        }
      }
    }
    for (const { request } of parts) assert.equal(request.test(), true, 'complete before the first start');
    for (let round = 0; round < 3; round++) {
      const expected = parts.map(({ name, c, part }, index) => {
        const oracle = ORACLES[name];
        const number = round * 1000 + index;
        const lengthOf = (from: number): number => oracle.send(c, from) ?? oracle.recv(c, from)!;
        part.send?.fill(0);
        part.recv?.fill(0xee);
        const own = contribution(oracle, c, rank, part);
        own?.set(piece(number, rank, 0, own.length));
        const result = part.recv?.slice();
        if (result !== undefined) {
          oracle.result(c, rank, (from) => piece(number, from, 0, lengthOf(from)), result);
        }
        return result;
      });
      const requests = parts.map(({ request }) => request);
      startAll(shuffled(requests, rank + round * size));
      waitAll(requests);
      for (const [index, { name, c, part }] of parts.entries()) {
        const what = `round ${round}, ${name}, ${JSON.stringify({ ...c, op: c.op.name })}, rank ${rank}`;
        if (expected[index] !== undefined) assertBytes(part.recv!, expected[index], what);
      }
    }
    for (const { request } of parts) request.free();
  },

  /** Ranks that only send run ahead of those that receive; each start has messages of its own. */
  ahead() {
    for (const elements of [1, 2000]) {
      const data = new Float64Array(elements);
      const root = 0;
      const request = world.bcastInit(data, root, { algorithm: 'linear' });
      const sums = new Float64Array(1);
      const sum = world.allreduceInit(Float64Array.of(rank), sums, SUM);
      for (let step = 1; step <= 3000; step++) {
        data.fill(rank === root ? step : 0);
        request.start();
        request.wait();
        assert.equal(data[elements - 1], step);
        if (step % 500 !== 0) continue;
        sum.start();
        sum.wait();
        assert.equal(sums[0], (size * (size - 1)) / 2);
      }
    }
  },

  /**
   * Rank 1 holds so many messages that nobody receives yet that it asks for the others by RTR, small as they are. Some
   * of these RTRs arrive when their message has left by the mailbox, and are cancelled: the next start must not take
   * them for its own.
   */
  congested() {
    const [EARLY, LARGE] = [7, 8];
    const many = 600;
    const large = new Uint8Array(100_000);
    const word = new Float64Array(1);
    const request = world.bcastInit(word, 0);
    const requests = [];
    if (rank === 0) {
      for (let i = 0; i < many; i++) requests.push(world.isend(Uint8Array.of(i), 1, EARLY));
      requests.push(world.isend(large, 1, LARGE)); // rank 0 looks for RTRs from now on
    }
    for (let step = 1; step <= 5000; step++) {
      word[0] = rank === 0 ? step : 0;
      request.start();
      request.wait();
      assert.equal(word[0], step);
    }
    if (rank === 1) {
      for (let i = 0; i < many; i++) requests.push(world.irecv(new Uint8Array(1), 0, EARLY));
      requests.push(world.irecv(large, 0, LARGE));
    }
    waitAll(requests);
  },

  /** Messages match those of isend and irecv, in order, and tell their sizes. */
  messages() {
    for (const bytes of [0, 8, 5000, 100_000]) {
      const [out, into] = [new Uint8Array(bytes), new Uint8Array(bytes + 10)];
      const send = world.sendInit(out, peer, 3);
      const recv = world.recvInit(into, before, 3);
      assert.equal(recv.bytes, undefined);
      for (let step = 0; step < 5; step++) {
        out.fill(step + rank);
        into.fill(0xee);
        if (step === 3) waitAll([world.irecv(into, before, 3), world.isend(out, peer, 3)]);
        else startAll([recv, send]);
        waitAll([recv, send]);
        assert.deepEqual(into.subarray(0, bytes), new Uint8Array(bytes).fill(step + before));
        assert.deepEqual(into.subarray(bytes), new Uint8Array(10).fill(0xee));
        if (step !== 3) assert.deepEqual([send.bytes, recv.bytes], [bytes, bytes]);
      }
      const short = world.recvInit(new Uint8Array(bytes), before, 4);
      startAll([short, send]);
      const long = world.isend(new Uint8Array(bytes + 1), peer, 4);
      assert.throws(() => short.wait(), TruncatedError);
      assert.throws(() => short.test(), TruncatedError);
      assert.equal(short.bytes, undefined);
      world.irecv(into, before, 3).wait();
      send.wait();
      try {
        long.wait();
      } catch (error) {
        assert(error instanceof TruncatedError);
      }
      // It can be started again after the failure.
      short.start();
      world.isend(out, peer, 4).wait();
      short.wait();
      assert.equal(short.bytes, bytes);
      for (const request of [send, recv, short]) request.free();
    }
  },

  /** Awaited requests, also while others are pending. */
  async awaited() {
    const [out, into] = [new Float64Array(4), new Float64Array(4)];
    const request = world.allreduceInit(out, into, SUM);
    await request;
    for (let step = 1; step <= 200; step++) {
      out.fill(step);
      request.start();
      const other = step % 3 === 0 ? world.ibarrier() : undefined;
      await request;
      assert.deepEqual([...into], new Array(4).fill(step * size));
      await other;
    }
  },

  /** What cannot be done, and by which error it is told. */
  async states() {
    const [out, into] = [new Uint8Array(8), new Uint8Array(8)];
    const recv = world.recvInit(into, before, 1);
    assert.equal(recv.done, true);
    assert.equal(recv.test(), true);
    recv.wait();
    await recv;
    recv.start();
    assert.equal(recv.done, false);
    assert.throws(() => recv.start(), ActiveError);
    assert.throws(() => recv.free(), { name: 'ActiveError', code: 'ERR_NBC_ACTIVE', operation: 'recvInit' });
    assert.throws(() => startAll([recv]), ActiveError);
    await world.ibarrier(); // the peer's message comes later than all of this
    world.isend(out, peer, 1).wait();
    recv.wait();
    assert.throws(() => startAll([recv, recv]), ArgumentError);
    assert.throws(() => startAll([world.ibarrier() as never]), ArgumentError);
    assert.throws(() => startAll(recv as never), ArgumentError);
    assert.equal(recv.done, true, 'none of these has started it');
    recv.free();
    recv.free();
    assert.equal(recv.test(), true);
    assert.throws(() => recv.start(), ClosedError);

    // Refused by the Init method, as by the plain one.
    assert.throws(() => world.bcastInit(into, size), { name: 'ArgumentError', argument: 'root' });
    assert.throws(() => world.allreduceInit(out, out, SUM), { name: 'ArgumentError', argument: 'recv' });
    assert.throws(() => world.sendInit(null as never, peer, 1), { name: 'ArgumentError', argument: 'buffer' });
    assert.throws(() => world.sendInit(out, peer, -1), { name: 'ArgumentError', argument: 'tag' });
    assert.throws(() => world.recvInit(out, size), { name: 'ArgumentError', argument: 'source' });

    // A buffer that goes away in between.
    const lost = new Uint8Array(64);
    const without = [world.sendInit(lost, peer, 2), world.bcastInit(lost, 0), world.recvInit(lost, before, 2)];
    structuredClone(null, { transfer: [lost.buffer] });
    for (const request of without) {
      assert.throws(() => request.start(), { name: 'ArgumentError', argument: 'buffer' });
      assert.throws(() => startAll([request]), { name: 'ArgumentError', argument: 'buffer' });
      request.free();
    }

    // The communicator ends: what is active goes on.
    const own = await world.dup();
    const [first, second] = [own.recvInit(into, before, 1), own.sendInit(out.fill(7), peer, 1)];
    const idle = own.barrierInit();
    startAll([first, second]);
    await own.close();
    waitAll([first, second]);
    assert.equal(into[0], 7);
    for (const request of [first, second, idle]) {
      assert.throws(() => request.start(), ClosedError);
      request.free();
    }
    await world.ibarrier();
  },

  /** Rank 1 ends with requests of rank 0 unanswered: they fail, each time, and nothing else happens. */
  async gone() {
    const data = new Uint8Array(100_000);
    if (rank === 0) {
      const requests = [
        world.recvInit(data.subarray(0, 8), 1, 5),
        world.recvInit(data, 1, 6),
        world.bcastInit(data, 1),
        world.barrierInit(),
      ];
      for (let step = 0; step < 2; step++) {
        startAll(requests);
        for (const request of requests) assert.throws(() => request.wait(), PeerClosedError);
      }
      for (const request of requests) request.free();
    }
    await world.close();
    if (rank === 1) return;
    assert.throws(() => world.barrierInit(), ClosedError);
  },

  /** The world ends with an active request and an inactive one; both can be dropped or freed. */
  async closed() {
    const active = world.recvInit(new Uint8Array(8), before, 5);
    const idle = world.allreduceInit(new Float64Array(1), new Float64Array(1), SUM);
    active.start();
    await world.ibarrier();
    await world.close();
    // The other rank may have closed first.
    assert.throws(
      () => active.wait(),
      (error) => error instanceof ClosedError || error instanceof PeerClosedError,
    );
    for (const request of [active, idle]) {
      assert.throws(() => request.start(), ClosedError);
      request.free();
    }
  },

  /** Requests that are dropped give their memory back; needs --expose-gc. */
  async dropped() {
    const MIB = 1 << 20;
    const many = 64;
    const held = (): number => process.memoryUsage().arrayBuffers / MIB;
    const start = held();
    const make = (): void => {
      for (let i = 0; i < many; i++) world.sendInit(new Uint8Array(MIB), peer, 1);
      for (let i = 0; i < many; i++) world.recvInit(new Uint8Array(8), before, 1).free();
    };
    make();
    assert(held() > start + many / 2, 'they hold their buffers');
    for (let i = 0; i < 100 && held() > start + many / 4; i++) {
      (globalThis as unknown as { gc(): void }).gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert(held() <= start + many / 4, `${held()} MiB are held after collection, ${start} before`);
    // An active one is not collected: it goes on, and its buffer stays.
    const into = new Uint8Array(8);
    world.recvInit(into, before, 9).start();
    for (let i = 0; i < 10; i++) {
      (globalThis as unknown as { gc(): void }).gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    world.isend(new Uint8Array(8).fill(4), peer, 9).wait();
    // What the barrier sends comes behind it.
    world.ibarrier().wait();
    world.ibarrier().wait();
    assert.equal(into[7], 4);
  },
});
await world.close();
