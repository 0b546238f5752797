/**
 * Ranks of which some are on one host and some on another, by NBC_HOST; see mixed.test.ts. Four ranks, two on each
 * host, except where it says otherwise.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { alloc, type Communicator, init, NbcError, type Request, waitAll } from 'node-nbc';
import { OPERATIONS } from 'node-nbc/schedules';
import { arrange, contribution, ORACLES, withOperator } from '../oracle.js';
import { codeWhereItBegan } from './codes.js';
import { piece } from './noise.js';
import { play, report } from './scenario.js';

await play({ collectives, algorithms, leaders, waking, killed, elsewhere, alone, twoWays });

/** All three collectives, small and large, from both kinds of memory; then which ways the bytes went. */
async function collectives(): Promise<void> {
  const world = await init();
  for (const make of [(n: number) => new Uint8Array(n), (n: number) => alloc(Uint8Array, n)]) {
    for (const block of [3, 5_000, 300_001]) {
      for (let root = 0; root < world.size; root += 3) checkRooted(world, make, block, root);
      checkAlltoall(world, make, block);
    }
  }
  const { mappedBytes, crossMemoryBytes, workRequests, framesReceived } = world.stats();
  const { peersByMemory = 0, peersByVerbs = 0, peersByTcp = 0 } = world.stats();
  const peers = [peersByMemory, peersByVerbs, peersByTcp];
  report({ mappedBytes, crossMemoryBytes, workRequests, framesReceived, peers, networks: world.peers() });
  // In the order of the ranks of a communicator.
  const backwards = await world.split(0, -world.rank);
  assert.deepEqual(backwards!.peers(), world.peers().reverse());
  await world.close();
}

function checkRooted(world: Communicator, make: (bytes: number) => Uint8Array, block: number, root: number): void {
  const { rank, size } = world;
  const message = make(block).fill(rank === root ? root + 100 : 0);
  const all = rank === root ? make(block * size) : null;
  waitAll([world.ibcast(message, root), world.igather(make(block).fill(rank + 1), all, root)]);
  assert(
    message.every((byte) => byte === root + 100),
    `broadcast of ${block} bytes from ${root}`,
  );
  assert(
    all === null || all.every((byte, at) => byte === Math.floor(at / block) + 1),
    `${block} bytes gathered by ${root}`,
  );
}

function checkAlltoall(world: Communicator, make: (bytes: number) => Uint8Array, block: number): void {
  const { rank, size } = world;
  const send = make(block * size);
  const receive = make(block * size);
  for (let to = 0; to < size; to++) send.fill(16 * rank + to, to * block, (to + 1) * block);
  world.ialltoall(send, receive).wait();
  assert(
    receive.every((byte, at) => byte === 16 * Math.floor(at / block) + rank),
    `all to all, ${block} bytes`,
  );
}

/** Every algorithm of every operation, in place or not, small and large; the roots take turns. */
async function algorithms(): Promise<void> {
  const world = await init();
  const { rank, size } = world;
  let cases = 0;
  for (const { name, algorithms } of OPERATIONS) {
    const oracle = ORACLES[name];
    for (const algorithm of [undefined, ...algorithms.map((row) => row.name)]) {
      for (const count of [0, 1, 255, 4_097, 40_000]) {
        const number = cases++;
        const root = oracle.rooted ? number % size : 0;
        const turn = number % 2 === 0;
        const given = { size, root, count, inPlace: oracle.inPlace && turn, gaps: oracle.listed && turn };
        const c = withOperator(given, number);
        const part = arrange(oracle, c, rank, (length) => new Uint8Array(length));
        const own = contribution(oracle, c, rank, part);
        own?.set(piece(number, rank, 0, own.length));
        const expected = part.recv?.slice();
        const lengthOf = (from: number): number => oracle.send(c, from) ?? oracle.recv(c, from)!;
        if (expected !== undefined) {
          oracle.result(c, rank, (from) => piece(number, from, 0, lengthOf(from)), expected);
        }
        const start = world[name].bind(world) as (...args: unknown[]) => Request;
        start(...part.args, ...(algorithm === undefined ? [] : [{ algorithm }])).wait();
        const what = `${name}, ${algorithm ?? 'chosen'}: ${JSON.stringify({ ...c, op: c.op.name })}`;
        if (expected !== undefined) assert(Buffer.compare(part.recv!, expected) === 0, what);
      }
    }
  }
  report({ cases });
  await world.close();
}

/**
 * Broadcasts from rank 0 and barriers, of all ranks or of all but rank 1 ('split'), by the default algorithm or
 * 'linear': who received frames for them?
 */
async function leaders(): Promise<void> {
  const world = await init();
  const CALLS = 40;
  const how = process.argv[3];
  const hint = how === 'linear' ? { algorithm: 'linear' as const } : undefined;
  const group = how === 'split' ? await world.split(world.rank === 1 ? undefined : 0) : world;
  const message = new Uint8Array(100);
  for (let call = 0; group !== null && call < CALLS / 2; call++) {
    group.ibcast(message.fill(group.rank === 0 ? call : 0), 0, hint).wait();
    assert(message.every((byte) => byte === call));
    group.ibarrier(hint).wait();
  }
  report({ calls: CALLS, framesReceived: world.stats().framesReceived });
  await world.close();
}

/**
 * Rank 0 waits for messages that come while it sleeps, of rank 1 on its host and of rank 2 on the other: in wait(), and
 * at the event loop, where the progress thread sleeps. A sender that is not sure that rank 0 slept sends again.
 */
async function waking(): Promise<void> {
  const world = await init();
  const SLEPT = 8;
  const PAUSE_MS = 20;
  const spent: Record<string, number> = {};
  for (const [how, sleeps] of [
    ['wait', () => world.stats().parks],
    ['await', () => world.stats().progressWakeups],
  ] as const) {
    for (const sender of [1, 2]) {
      const byte = new Uint8Array(1);
      if (world.rank === sender) {
        for (;;) {
          world.irecv(byte, 0, 1).wait();
          if (byte[0] === 0) break;
          const end = performance.now() + PAUSE_MS;
          while (performance.now() < end);
          world.isend(byte, 0, 2).wait();
        }
      } else if (world.rank === 0) {
        const begin = performance.now();
        for (let slept = 0; slept < SLEPT;) {
          const before = sleeps();
          world.isend(byte.fill(1), sender, 1).wait();
          const request = world.irecv(byte, sender, 2);
          if (how === 'wait') request.wait();
          else await request;
          if (sleeps() > before) slept++;
        }
        spent[`${how} for rank ${sender}`] = performance.now() - begin;
        world.isend(byte.fill(0), sender, 1).wait();
      }
    }
  }
  report(spent);
  await world.close();
}

/** Rank 2 is killed. What the other host had to do with it fails; everything else goes on. */
async function killed(): Promise<void> {
  const world = await init();
  const { rank } = world;
  checkAlltoall(world, (bytes) => new Uint8Array(bytes), 50_000);
  if (rank === 2) process.kill(process.pid, 'SIGKILL');
  if (rank === 3) {
    world.irecv(new Uint8Array(1), 0, 9).wait();
    report([]);
    await world.close();
    return;
  }
  const codes: string[] = [];
  for (const bytes of [8, 200_000]) {
    codes.push(codeOf(() => world.irecv(new Uint8Array(bytes), 2, 1).wait()));
    codes.push(await codeOfAwaited(world.irecv(new Uint8Array(bytes), 2, 2)));
  }
  codes.push(codeOf(() => world.ialltoall(new Uint8Array(400_000), new Uint8Array(400_000)).wait()));
  // Between the two that are left on this host, and with the one that is left on the other.
  for (const bytes of [8, 200_000]) {
    const back = new Uint8Array(bytes);
    waitAll([world.isend(new Uint8Array(bytes).fill(rank + 1), 1 - rank, 3), world.irecv(back, 1 - rank, 3)]);
    assert(back.every((byte) => byte === 2 - rank));
  }
  if (rank === 0) world.isend(new Uint8Array(1), 3, 9).wait();
  report(codes);
  await world.close();
}

/**
 * Two ranks of each host, and no network: the ranks of one host reach each other, and learn why they do not reach the
 * others.
 */
async function elsewhere(): Promise<void> {
  const world = await init();
  const mate = world.rank ^ 1;
  const other = (world.rank + 2) % 4;
  const errors: { code: string; message: string }[] = [];
  for (const start of [
    () => world.isend(new Uint8Array(8), other, 1),
    () => world.irecv(new Uint8Array(100_000), other, 1),
    () => world.ialltoall(new Uint8Array(16), new Uint8Array(16)),
  ]) {
    await start().then(
      () => assert.fail('that cannot have worked'),
      (error: unknown) => {
        assert(error instanceof NbcError);
        errors.push({ code: error.code, message: error.message });
      },
    );
  }
  const back = new Uint8Array(100_000);
  waitAll([world.isend(back.slice().fill(world.rank + 1), mate, 2), world.irecv(back, mate, 2)]);
  assert(back.every((byte) => byte === mate + 1));
  report(errors);
  await world.close();
}

/** No host has a name: what the process has opened. */
async function alone(): Promise<void> {
  const world = await init();
  checkAlltoall(world, (bytes) => alloc(Uint8Array, bytes), 100_000);
  const loaded = readFileSync('/proc/self/maps', 'utf8').includes('libibverbs');
  report({ loaded, counts: 'workRequests' in world.stats() });
  await world.close();
}

/** Ranks with different transports: both sides learn it. Two ranks. */
async function twoWays(): Promise<void> {
  const world = await init({ transport: process.env['NBC_RANK'] === '0' ? 'auto' : 'shm' });
  report(await codeOfAwaited(world.irecv(new Uint8Array(8), 1 - world.rank, 1)));
  await world.close();
}

function codeOf(call: () => void): string {
  try {
    call();
    return 'fulfilled';
  } catch (error) {
    return codeWhereItBegan(error);
  }
}

async function codeOfAwaited(request: Request): Promise<string> {
  return request.then(
    () => 'fulfilled',
    (error: unknown) => codeWhereItBegan(error),
  );
}
