/** Operations on values; see values.test.ts. */
import assert from 'node:assert/strict';
import { ArgumentError, ClosedError, init, PeerClosedError, ValueError } from 'node-nbc';
import { play } from './scenario.js';

const world = await init();
const { rank, size } = world;
const { values } = world;
const peer = (rank + 1) % size;
const before = (rank + size - 1) % size;
const ranks = Array.from({ length: size }, (_, index) => index);

/** A value of some kinds, different on each rank and of different size. */
function valueOf(from: number, to = 0): Record<string, unknown> {
  const value: Record<string, unknown> = {
    text: 'π'.repeat(from * 1000 + to),
    map: new Map([[from, new Set([to])]]),
    when: new Date(from),
    data: Float64Array.of(from, to, NaN),
    big: 2n ** 70n,
    nothing: undefined,
  };
  value['self'] = value;
  return value;
}

const notCloneable = (): unknown => ({ inside: () => 0 });

await play({
  async collectives() {
    for (const root of ranks) {
      assert.deepEqual(await values.bcast(rank === root ? valueOf(root) : undefined, root), valueOf(root));
      const gathered = await values.gather(valueOf(rank), root);
      assert.deepEqual(gathered, rank === root ? ranks.map((from) => valueOf(from)) : null);
      const all = rank === root ? ranks.map((to) => valueOf(root, to)) : null;
      assert.deepEqual(await values.scatter(all, root), valueOf(root, rank));
      const order = await values.reduce([rank], (a, b) => [...a, ...b], root);
      assert.deepEqual(order, rank === root ? ranks : null);
    }
    assert.deepEqual(
      await values.allgather(valueOf(rank)),
      ranks.map((from) => valueOf(from)),
    );
    assert.deepEqual(
      await values.alltoall(ranks.map((to) => valueOf(rank, to))),
      ranks.map((from) => valueOf(from, rank)),
    );
    assert.deepEqual(await values.allreduce([rank], (a, b) => [...a, ...b]), ranks);
    for (const value of [undefined, null, 0, '', NaN, [], -0]) {
      assert.deepEqual(await values.allgather(value), Array(size).fill(value));
    }
  },

  /** Many at once, started in one order, beside operations on buffers and on other communicators. */
  async atOnce() {
    const other = await world.dup();
    const bytes = new Uint8Array(100);
    const started = [
      values.allgather(rank),
      values.bcast(rank, size - 1),
      other.values.allgather(`${rank}`),
      Promise.resolve(world.ibcast(bytes.fill(rank === 0 ? 5 : 0), 0)),
      values.allreduce(rank, Math.max),
      values.recv(before, 1),
      values.recv(before, 1),
      values.recv(before),
      values.send('zero', peer),
      values.send('first', peer, 1),
      values.send('second'.repeat(10_000), peer, 1),
    ];
    const ends = await Promise.all(started);
    assert.deepEqual(ends.slice(0, 3), [ranks, size - 1, ranks.map(String)]);
    assert.deepEqual(ends.slice(4, 8), [size - 1, 'first', 'second'.repeat(10_000), 'zero']);
    assert.equal(bytes[99], 5);
    await other.close();
    await assert.rejects(async () => other.values.allgather(1), ClosedError);
  },

  /** A value that cannot be cloned: an error on all ranks that names it, and the next operation works. */
  async failures() {
    const bad = size - 1;
    const one = (): unknown => (rank === bad ? notCloneable() : rank);
    const list = (): unknown[] => (rank === bad ? ranks.map((to) => (to === 0 ? notCloneable() : to)) : ranks);
    const calls: Record<string, () => Promise<unknown>> = {
      bcast: () => values.bcast(one(), bad),
      gather: () => values.gather(one(), 0),
      scatter: () => values.scatter(rank === bad ? list() : null, bad),
      allgather: () => values.allgather(one()),
      alltoall: () => values.alltoall(list()),
      reduce: () => values.reduce(one(), (a) => a, 0),
      allreduce: () => values.allreduce(one(), (a) => a),
    };
    for (const [operation, call] of Object.entries(calls)) {
      await assert.rejects(call, (error: unknown) => {
        assert(error instanceof ValueError, String(error));
        assert.deepEqual([error.code, error.operation, error.peer], ['ERR_NBC_VALUE', `values.${operation}`, bad]);
        assert.equal(error.cause instanceof Error, rank === bad);
        return true;
      });
      assert.deepEqual(await values.allgather(rank), ranks, `after ${operation}`);
    }
    await assert.rejects(values.send(notCloneable(), peer), ValueError);

    const broken = (): never => {
      throw new RangeError('broken');
    };
    await assert.rejects(values.allreduce(rank, broken), { name: 'ValueError', peer: 0 });
    await assert.rejects(
      values.allreduce(rank, () => notCloneable() as never),
      { name: 'ValueError', peer: 0 },
    );
    const reduced = values.reduce(rank, broken, 0);
    if (rank === 0) await assert.rejects(reduced, (error: Error) => (error.cause as Error).message === 'broken');
    else assert.equal(await reduced, null);

    // Wrong arguments concern this rank only: nothing was sent.
    for (const wrong of [-1, size, 0.5, '0', undefined]) {
      await assert.rejects(values.bcast(1, wrong as never), ArgumentError);
      await assert.rejects(values.recv(wrong as never), ArgumentError);
      if (wrong !== undefined) await assert.rejects(values.send(1, 0, (wrong === size ? 40_000 : wrong) as never));
    }
    for (const tag of [Symbol('tag'), {}, Object.create(null), '1', -1]) {
      await assert.rejects(values.recv(rank, tag as never), { name: 'ArgumentError', argument: 'tag' });
    }
    await assert.rejects(values.alltoall([1]), { name: 'ArgumentError', argument: 'values' });
    await assert.rejects(values.scatter(7 as never, rank), { name: 'ArgumentError', argument: 'values' });
    await assert.rejects(values.allreduce(1, null as never), { name: 'ArgumentError', argument: 'fn' });
    assert.deepEqual(await values.allgather(rank), ranks);
  },

  /** A peer that has gone fails what needs it. */
  async gone() {
    if (rank === 0) {
      await assert.rejects(values.recv(1), PeerClosedError);
      await assert.rejects(values.allgather(1), PeerClosedError);
    }
  },
});
await world.close();
