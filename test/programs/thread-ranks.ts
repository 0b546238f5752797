/** What ranks do that are threads: scenarios of threads.test.ts, which names one in `data`. */
import assert from 'node:assert/strict';
import { threadId } from 'node:worker_threads';
import { alloc, type Communicator, createOp, init, NbcError, runRanks, SUM } from 'node-nbc';
import { allowedHere } from '../support/allowed-here.js';
import { runCollectives, type Cases } from './all-collectives.js';

/** Words of `data.shared`. */
export const READY = 0;
export const GO = 1;
export const LOST = 2;

export type Data =
  | ({ scenario: 'collectives' } & Cases)
  | { scenario: 'sums' | 'greet' | 'operators' | 'nested' | 'second' | 'uncopied' | 'clutter' | 'processors' }
  | { scenario: 'leave'; how: 'exit' | 'throw' | 'uncaught'; shared: Int32Array }
  | { scenario: 'later'; shared: Int32Array }
  | { scenario: 'hang'; how: 'wait' | 'await' | 'compute' | 'copy'; shared: Int32Array }
  | { scenario: 'view'; bytes: Uint8Array }
  | { scenario: 'fail'; failing: number };

const LEAVER = 1;
const BYTES = 1 << 20;

export default async function run(world: Communicator, data: Data): Promise<unknown> {
  switch (data.scenario) {
    case 'collectives':
      return runCollectives(world, data);
    case 'sums':
      return sums(world);
    case 'greet':
      return { rank: world.rank, size: world.size, thread: threadId };
    case 'operators':
      return operators(world);
    case 'processors':
      return allowedHere();
    case 'nested':
      return runRanks(import.meta.url, { size: 2, data: { scenario: 'greet' } });
    case 'second':
      return init().catch((error: unknown) => (error as NbcError).code);
    case 'uncopied':
      return world.rank === 1 ? () => 1 : 1;
    case 'clutter':
      setInterval(() => undefined, 1000);
      return world.rank;
    case 'leave':
      return leave(world, data);
    case 'later':
      if (world.rank === LEAVER) endLater(data.shared);
      return world.ibarrier();
    case 'hang':
      return hang(world, data);
    case 'view':
      return view(world, data.bytes);
    case 'fail':
      if (world.rank === data.failing) throw new RangeError(`of rank ${world.rank}`);
      return world.ibarrier();
  }
}

/** Plain memory and memory of alloc(), small and large. */
async function sums(world: Communicator): Promise<number> {
  const { rank, size } = world;
  for (const make of [(length: number) => new Float64Array(length), (length: number) => alloc(Float64Array, length)]) {
    for (const length of [1, 1000, BYTES / 8]) {
      const send = make(length).fill(rank + 1);
      const recv = make(length);
      await world.iallreduce(send, recv, SUM);
      assert(recv.every((value) => value === (size * (size + 1)) / 2));
    }
  }
  return world.stats().crossMemoryBytes ?? -1;
}

async function operators(world: Communicator): Promise<number> {
  const recv = new Float64Array(2);
  const send = Float64Array.of(1, world.rank);
  const own = createOp((a: Float64Array, b: Float64Array) => b.forEach((value, i) => (b[i] = value + a[i])), {
    commutative: true,
  });
  await world.iallreduce(send, recv, own);
  const plus = createOp(new URL('./operators/plus.js', import.meta.url), { commutative: true });
  const again = new Float64Array(2);
  await world.iallreduce(send, again, plus);
  assert.deepEqual(again, recv);
  return recv[1];
}

/** Parts of one SharedArrayBuffer: rank 0 sends the first one, and the others receive at places that overlap it. */
async function view(world: Communicator, bytes: Uint8Array): Promise<number> {
  const { rank, size } = world;
  const part = bytes.length / size;
  const own = bytes.subarray(rank * part, (rank + 1) * part);
  if (rank === 0) own.fill(42);
  await world.ibcast(own, 0);
  await world.ibarrier();
  // Wrong of the program, and still nothing that ends the process.
  const overlapping = bytes.subarray(rank * 64, rank * 64 + part);
  await world.ibcast(overlapping, 0);
  await world.ibarrier();
  own.fill(rank);
  return own[0];
}

/**
 * Rank 1 leaves in the middle, while the thread that called runRanks() is blocked: nobody but the rank's own end tells
 * the others.
 */
async function leave(world: Communicator, { how, shared }: Extract<Data, { scenario: 'leave' }>): Promise<void> {
  const mine = new Uint8Array(BYTES);
  const requests = [0, 1, 2].filter((peer) => peer !== world.rank).map((peer) => world.irecv(mine, peer, 1));
  for (const request of requests) request.then(undefined, () => undefined);
  await world.ibarrier();
  Atomics.add(shared, READY, 1);
  if (world.rank === LEAVER) {
    Atomics.wait(shared, GO, 0);
    if (how === 'exit') process.exit(7);
    if (how === 'throw') throw new RangeError('of the test');
    setImmediate(() => {
      throw new RangeError('of the test');
    });
    await new Promise(() => undefined);
  }
  try {
    await world.irecv(new Uint8Array(BYTES), LEAVER, 2);
  } catch (error) {
    if ((error as NbcError).code === 'ERR_NBC_PEER_CLOSED') Atomics.add(shared, LOST, 1);
    Atomics.notify(shared, LOST);
    throw error;
  }
}

/** Ends the thread when the run is over, and the test says so. */
function endLater(shared: Int32Array): void {
  setInterval(() => {
    if (Atomics.load(shared, GO) === 1) process.exit(3);
  }, 5);
}

async function hang(world: Communicator, { how, shared }: Extract<Data, { scenario: 'hang' }>): Promise<void> {
  const request = world.irecv(alloc(Uint8Array, BYTES), (world.rank + 1) % world.size, 3);
  Atomics.add(shared, READY, 1);
  if (how === 'wait') request.wait();
  if (how === 'await') await request;
  const [send, recv] = [new Uint8Array(world.size * BYTES), new Uint8Array(world.size * BYTES)];
  while (how === 'copy') await world.ialltoall(send, recv);
  for (;;);
}
