/**
 * Rank 0 names the algorithm that is expected, and the others leave it to the library. One that takes another one gets
 * a MismatchError.
 */
import assert from 'node:assert/strict';
import { type Communicator, createOp, init, SUM } from 'node-nbc';
import { play } from './scenario.js';

const COUNT = 3;

interface Taken {
  barrier: 'linear' | 'dissemination';
  reduce: 'linear' | 'binomial';
  allreduce: 'linear' | 'recursive-doubling';
  scatter: 'linear' | 'recursive-halving';
  scan: 'central' | 'recursive-doubling';
  exchange: 'central' | 'linear';
}

const CENTRAL: Taken = {
  ...{ barrier: 'linear', reduce: 'linear', allreduce: 'linear', scatter: 'linear', scan: 'central' },
  exchange: 'central',
};
const OTHERS: Taken = {
  ...{ barrier: 'dissemination', reduce: 'binomial', allreduce: 'recursive-doubling' },
  ...{ scatter: 'recursive-halving', scan: 'recursive-doubling', exchange: 'linear' },
};

/** Every operation that has such an algorithm, on a communicator. */
async function every(world: Communicator, taken: Taken): Promise<void> {
  const { rank, size } = world;
  const named = <Name extends string>(algorithm: Name): { algorithm?: Name } => (rank === 0 ? { algorithm } : {});
  const send = Int32Array.from({ length: COUNT }, (_, index) => (rank + 1) * (index + 1));
  /** What ranks 0 to `last` contribute together. */
  const sum = (last: number): number[] => [1, 2, 3].map((factor) => (factor * (last + 1) * (last + 2)) / 2);
  const recv = new Int32Array(COUNT);
  const check = (expected: number[] | undefined, what: string): void => {
    if (expected !== undefined) assert.deepEqual([...recv], expected, `${what}, rank ${rank} of ${size}`);
    recv.fill(0);
  };
  await world.ibarrier(named(taken.barrier));
  await world.ireduce(send, recv, SUM, 0, named(taken.reduce));
  check(rank === 0 ? sum(size - 1) : undefined, 'ireduce');
  await world.iallreduce(send, recv, SUM, named(taken.allreduce));
  check(sum(size - 1), 'iallreduce');
  await world.iscan(send, recv, SUM, named(taken.scan));
  check(sum(rank), 'iscan');
  await world.iexscan(send, recv, SUM, named(taken.scan));
  check(rank === 0 ? [0, 0, 0] : sum(rank - 1), 'iexscan');
  const all = Int32Array.from({ length: size * COUNT }, (_, index) => send[index % COUNT]);
  await world.ireduceScatterBlock(all, recv, SUM, named(taken.scatter));
  check(sum(size - 1), 'ireduceScatterBlock');
  const counts = new Array<number>(size).fill(COUNT);
  await world.ireduceScatter(all, recv, counts, SUM, named(taken.scatter));
  check(sum(size - 1), 'ireduceScatter');
  const recvAll = new Int32Array(size * COUNT);
  const gathered = Array.from(recvAll, (_, index) => (Math.floor(index / COUNT) + 1) * ((index % COUNT) + 1));
  await world.iallgather(send, recvAll, named(taken.exchange));
  assert.deepEqual([...recvAll], gathered, `iallgather, rank ${rank} of ${size}`);
  // In the opposite order, with an element between two blocks that stays as it is.
  const spread = new Int32Array(size * (COUNT + 1)).fill(-1);
  const displs = counts.map((_, from) => (size - 1 - from) * (COUNT + 1));
  await world.iallgatherv(send, spread, counts, displs, named(taken.exchange));
  const blocks = displs.flatMap((displ) => [...spread.subarray(displ, displ + COUNT)]);
  assert.deepEqual(blocks, gathered, `iallgatherv, rank ${rank} of ${size}`);
  assert(
    displs.every((displ) => spread[displ + COUNT] === -1),
    'iallgatherv writes only into the blocks',
  );
  const exchanged = Int32Array.from({ length: size * COUNT }, (_, index) => rank * 1000 + index);
  await world.ialltoall(exchanged, recvAll, named(taken.exchange));
  const expected = Array.from(recvAll, (_, i) => Math.floor(i / COUNT) * 1000 + rank * COUNT + (i % COUNT));
  assert.deepEqual([...recvAll], expected, `ialltoall, rank ${rank} of ${size}`);
  // Functions of the program's own run on all ranks.
  const add = createOp((a: Int32Array, b: Int32Array) => b.forEach((value, i) => (b[i] = a[i] + value)));
  await world.iallreduce(send, recv, add, named('recursive-doubling'));
  check(sum(size - 1), 'iallreduce with a function');
}

async function both(taken: Taken): Promise<void> {
  const world = await init();
  await every(world, taken);
  // Communicators of some ranks take what the job as a whole has.
  const some = await world.split(Math.floor(world.rank / 5), world.rank);
  if (some!.size === 5) await every(some!, taken);
  await some!.close();
  await world.close();
}

await play({ central: () => both(CENTRAL), others: () => both(OTHERS) });
