/** Ranks that agree and shrink while others are killed. Scenarios: `killed` (6 ranks), the others for 3 ranks. */
import assert from 'node:assert/strict';
import { ClosedError, type Communicator, init, SUM } from 'node-nbc';
import { generator } from '../support/random.js';
import { play, report } from './scenario.js';

const world = await init();
await play({ killed, revoked, different, closed, stuck, arguments: wrongArguments });
await world.close();

/**
 * Each round one rank kills itself a random number of turns of the event loop after it has begun to agree, or before.
 * Those that are left must agree on the same, and on a communicator that works. Two are left at the end.
 */
async function killed(): Promise<void> {
  const { rank: worldRank } = world;
  const random = generator(Number(process.env['NBC_TEST_SEED'] ?? 1));
  // A message between two that live, which depends on nobody else; the last two always live.
  const apart = new Uint8Array(8);
  const [low, high] = [world.size - 2, world.size - 1];
  const kept = worldRank === low ? world.irecv(apart, high, 7) : null;
  let comm = world;
  const agreed: unknown[] = [];
  for (let round = 0; comm.size > 2; round++) {
    const victim = Math.floor(random() * (comm.size - 2));
    const turns = Math.floor(random() * 30);
    const before = comm.isend(new Uint8Array(1), (comm.rank + 1) % comm.size, 1);
    comm.irecv(new Uint8Array(1), (comm.rank + comm.size - 1) % comm.size, 1).wait();
    before.wait();
    const value = comm.rank === 0 ? 0b110 : 0b011;
    if (comm.rank === victim) await killSelf(turns, round, () => comm.agree(value));
    const first = await comm.agree(value);
    const next = await comm.shrink();
    if (next.size === comm.size) {
      // The victim has agreed, and died after that.
      await next.close();
      continue;
    }
    assert.equal(first.value, first.lost.includes(0) ? 0b011 : 0b010);
    assert.equal(next.size, comm.size - 1);
    const survivors = Array.from({ length: comm.size }, (_, rank) => rank).filter((rank) => rank !== victim);
    assert.equal(survivors[next.rank], comm.rank, 'in the old order');
    const sum = new Float64Array(1);
    await next.iallreduce(Float64Array.of(worldRank), sum, SUM);
    agreed.push([first, await next.values.allgather(worldRank), sum[0]]);
    comm = next;
  }
  if (worldRank === high) world.isend(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8), low, 7).wait();
  if (kept !== null) {
    await kept;
    assert.deepEqual(apart, Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  }
  report(agreed);
  await comm.ibarrier();
}

async function killSelf(turns: number, round: number, agree: () => Promise<unknown>): Promise<never> {
  const begun = round % 4 === 3 ? undefined : agree();
  begun?.catch(() => undefined);
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  process.kill(process.pid, 'SIGKILL');
  for (;;) await new Promise((resolve) => setTimeout(resolve, 1000));
}

/** All that goes on after revoke(): the others learn that it is revoked, agree all the same, and go on. */
async function revoked(): Promise<void> {
  const comm = await world.dup();
  const pending = comm.irecv(new Uint8Array(8), (comm.rank + 1) % comm.size);
  if (comm.rank === 1) comm.revoke();
  await assert.rejects(async () => await pending, { code: 'ERR_NBC_REVOKED' });
  const values = [0xffff_ffff, -1, 0x8000_0001];
  const { value, lost } = await comm.agree(values[comm.rank]);
  assert.deepEqual([value, lost], [0x8000_0001 | 0, []]);
  // Two at once are in the order of the calls.
  const [next, { value: zero }] = await Promise.all([comm.shrink(), comm.agree(comm.rank)]);
  assert.deepEqual([next.size, next.rank, zero], [comm.size, comm.rank, 0]);
  await next.ibarrier();
  await next.close();
  await comm.close();
  await assert.rejects(comm.agree(1), { code: 'ERR_NBC_CLOSED' });
}

/** Some shrink where others agree: all hear of it, and the next agreement works. */
async function different(): Promise<void> {
  const call = world.rank === 1 ? world.shrink() : world.agree(1);
  await assert.rejects(call, { name: 'MismatchError', message: /agree, and others shrink/ });
  assert.deepEqual(await world.agree(world.rank | 4), { value: 4, lost: [] });
}

/**
 * What a rank has called before it closes the communicator completes as usual, once the others call it, too: they count
 * on it. Rank 0 calls long before the others, and queues a call behind another.
 */
async function closed(): Promise<void> {
  const calls: [
    name: string,
    call: (comm: Communicator) => Promise<unknown>,
    expected: (result: unknown) => unknown,
  ][] = [
    ['agree', (comm) => comm.agree(~(1 << comm.rank)), (result) => assert.deepEqual(result, { value: ~7, lost: [] })],
    ['shrink', (comm) => comm.shrink(), works],
    ['dup', (comm) => comm.dup(), works],
    ['split', (comm) => comm.split(0, -comm.rank), works],
    ['cart', (comm) => comm.cart({ dims: [3] }), works],
    ['allgather', (comm) => comm.values.allgather(comm.rank), (result) => assert.deepEqual(result, [0, 1, 2])],
  ];
  for (const [name, call, check] of calls) {
    const comm = await world.dup();
    if (world.rank !== 0) await world.irecv(new Uint8Array(1), 0);
    const begun = [call(comm), call(comm)];
    await comm.close();
    await assert.rejects(async () => call(comm), { code: 'ERR_NBC_CLOSED' }, name);
    for (let peer = 1; world.rank === 0 && peer < 3; peer++) await world.isend(new Uint8Array(1), peer);
    for (const result of await Promise.all(begun)) await check(result);
  }
}

async function works(made: unknown): Promise<void> {
  const comm = made as Communicator;
  assert.equal(comm.size, 3);
  await comm.ibarrier();
  await comm.close();
}

/** Rank 2 calls nothing. What is stuck on the others ends with the world, on a communicator that is closed, too. */
async function stuck(): Promise<void> {
  const comms = [await world.dup(), await world.dup()];
  for (let peer = 0; world.rank === 2 && peer < 2; peer++) {
    await assert.rejects(async () => await world.irecv(new Uint8Array(1), peer), { code: 'ERR_NBC_PEER_CLOSED' });
  }
  const begun = world.rank === 2 ? [] : comms.flatMap((comm) => [comm.agree(1), comm.shrink()]);
  const ends = Promise.allSettled(begun);
  await comms[0].close();
  await world.close();
  for (const end of await ends) {
    assert.equal(end.status, 'rejected');
    assert(end.reason instanceof ClosedError, String(end.reason));
  }
}

async function wrongArguments(): Promise<void> {
  for (const value of [0.5, NaN, 2 ** 32, -(2 ** 31) - 1, '1', null, undefined, 1n]) {
    await assert.rejects(world.agree(value as number), { name: 'ArgumentError', argument: 'value' });
  }
  assert.deepEqual(await world.agree(1), { value: 1, lost: [] });
}
