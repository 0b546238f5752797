/**
 * Ranks that are stopped by SIGSTOP, for longer than NBC_PEER_TIMEOUT. Rank 1 is the one, rank 0 stops it and lets it
 * go on. Scenarios: `stopped` (3 ranks), `amid` (2 ranks), `computes` (2 ranks).
 */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { AbandonedError, type Communicator, init, PeerLostError, type Request, SUM } from 'node-nbc';
import { isAlive, stateOf } from '../support/hang.js';
import { until } from '../support/until.js';
import { play } from './scenario.js';

const VICTIM = 1;
const LARGE = 300_000;
const world = await init();
const pids = new Uint32Array(world.size);
await world.iallgather(Uint32Array.of(process.pid), pids);
// Everybody has a connection to everybody.
await world.ialltoall(new Uint8Array(world.size), new Uint8Array(world.size));
await play({ stopped, amid, computes });
await world.close();

/** Stops the victim, and waits until it has stopped. */
async function stop(): Promise<void> {
  process.kill(pids[VICTIM], 'SIGSTOP');
  await until('the rank is stopped', () => stateOf(pids[VICTIM]) === 'T');
}

function goOn(): void {
  process.kill(pids[VICTIM], 'SIGCONT');
}

/** It fails because the victim is lost, or a peer of the operation gave it up for that. */
async function assertLost(request: Request): Promise<void> {
  await assert.rejects(
    async () => await request,
    (error: unknown) => {
      if (error instanceof AbandonedError) {
        assert.deepEqual([error.origin, error.reason], [VICTIM, 'ERR_NBC_UNREACHABLE'], error.message);
        return true;
      }
      assert(error instanceof PeerLostError, String(error));
      assert.deepEqual([error.name, error.peer, error.reason], ['UnreachableError', VICTIM, 'unreachable']);
      assert.match(error.message, /rank 1 of the world.* did not answer for as long as option peerTimeout says/);
      return true;
    },
  );
}

/** On the rank that was given up. */
async function assertCountedLost(request: PromiseLike<unknown>): Promise<void> {
  await assert.rejects(async () => await request, {
    code: 'ERR_NBC_COUNTED_LOST',
    message: /this rank did not answer .*, so rank \d of the world has given it up/,
  });
}

async function exchange(comm: Communicator, other: number): Promise<void> {
  const received = new Uint8Array(LARGE);
  const sent = comm.isend(new Uint8Array(LARGE).fill(7), other, 9);
  await comm.irecv(received, other, 9);
  await sent;
  assert(received.every((byte) => byte === 7));
}

/** What waits for the stopped rank fails; the others agree on it, and go on. It learns of it when it goes on. */
async function stopped(): Promise<void> {
  if (world.rank === VICTIM) {
    const pending = [world.irecv(new Uint8Array(8), 0, 1), world.irecv(new Uint8Array(LARGE), 2, 1)];
    world.isend(Uint8Array.of(1), 0, 8).wait();
    for (const request of pending) await assertCountedLost(request);
    for (const other of [0, 2]) await assertCountedLost(world.irecv(new Uint8Array(8), other, 2));
    await assertCountedLost(world.agree(1));
    await assertCountedLost(world.shrink());
    return;
  }
  const [low, high] = [0, 2];
  const other = low + high - world.rank;
  if (world.rank === low) {
    world.irecv(new Uint8Array(1), VICTIM, 8).wait();
    await stop();
  }
  await exchange(world, other);
  const depend = [
    world.irecv(new Uint8Array(8), VICTIM, 3),
    world.irecv(new Uint8Array(LARGE), VICTIM, 4),
    world.isend(new Uint8Array(LARGE), VICTIM, 5),
    world.iallreduce(new Float64Array(1), new Float64Array(1), SUM),
  ];
  for (let round = 0; round < 3; round++) await exchange(world, other);
  for (const request of depend) await assertLost(request);
  await assertLost(world.irecv(new Uint8Array(8), VICTIM, 3));
  assert.deepEqual(await world.agree(world.rank | 4), { value: 4, lost: [VICTIM] });
  const next = await world.shrink();
  assert.equal(next.size, 2);
  const sum = new Float64Array(1);
  await next.iallreduce(Float64Array.of(world.rank), sum, SUM);
  assert.equal(sum[0], 2);
  if (world.rank === low) goOn();
  for (let round = 0; round < 3; round++) await exchange(next, 1 - next.rank);
}

/** In the middle of a large message of the stopped rank: what the receiver writes to its buffer afterwards stays. */
async function amid(): Promise<void> {
  const bytes = 128 << 20;
  if (world.rank === VICTIM) {
    await assertCountedLost(world.isend(new Uint8Array(bytes).fill(1), 0, 1));
    return;
  }
  const buffer = new Uint8Array(bytes);
  const request = world.irecv(buffer, VICTIM, 1);
  while (Atomics.load(buffer, 0) === 0) await setImmediate();
  await stop();
  const error = await request.then(
    () => undefined,
    (thrown: unknown) => thrown as PeerLostError,
  );
  if (error === undefined) {
    // The machine was too slow to stop it in time.
    goOn();
    return;
  }
  assert(error instanceof PeerLostError, String(error));
  if (error.buffersInUse !== true) buffer.fill(2);
  goOn();
  await until('the rank has ended', () => !isAlive(pids[VICTIM]));
  if (error.buffersInUse !== true)
    assert(
      buffer.every((byte) => byte === 2),
      'the stopped rank wrote on',
    );
}

/** A rank that computes for three times as long as the time-out is there all the same. */
async function computes(): Promise<void> {
  if (world.rank === VICTIM) {
    const end = performance.now() + 3 * Number(process.env['NBC_PEER_TIMEOUT']);
    while (performance.now() < end);
  }
  await world.ibarrier();
  await world.iallreduce(new Float64Array(1000), new Float64Array(1000), SUM);
}
