/**
 * Plain buffers over verbs: what the registration cache serves, and what it must not. Two ranks; needs `--expose-gc`.
 * Rank 0's cache is looked at: every message is received into a buffer and sent back from it; rank 1 uses memory of
 * alloc(), which needs no cache.
 */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { alloc, ArgumentError, type InitOptions, init } from 'node-nbc';
import { WasmMemory } from '../support/wasm.js';
import { assertBytes, piece } from './noise.js';
import { play } from './scenario.js';

const MIB = 1 << 20;
/** Tags. */
const ORDER = 1;
const DATA = 2;
const SMALL = 3;
/** What rank 1 is to do. */
const ENOUGH = 0;

const gc = globalThis.gc!;
const limits: Record<string, InitOptions> = { bounded: { verbs: { cacheEntries: 4, cacheBytes: 3 * MIB } } };
const world = await init(limits[process.argv[2]]);

/** Counters, by names that are made here. */
const counts = (): Record<string, number> => world.stats();

/** How much the counters with these names, without "cache" in front, have grown; starts again with each look. */
class Gains {
  private before = counts();

  take(...names: string[]): Record<string, number> {
    const now = counts();
    const gains = names.map((name): [string, number] => [name, now[`cache${name}`] - this.before[`cache${name}`]]);
    this.before = now;
    return Object.fromEntries(gains);
  }
}

let number = 0;

/** Rank 0: a message comes into the buffer and goes back from it. */
async function use(buffer: Uint8Array): Promise<void> {
  number++;
  await world.isend(Int32Array.of(buffer.length), 1, ORDER);
  const receive = world.irecv(buffer, 1, DATA);
  await receive;
  assertBytes(buffer, piece(number, 1, 0, buffer.length), `message ${number}`);
  await world.isend(buffer, 1, DATA);
}

/** Rank 1: sends what is asked for, and checks that it comes back, until there is enough. */
async function serve(): Promise<void> {
  for (;;) {
    const order = new Int32Array(1);
    await world.irecv(order, 0, ORDER);
    const [bytes] = order;
    if (bytes === ENOUGH) return;
    number++;
    const memory = alloc(Uint8Array, bytes);
    memory.set(piece(number, 1, 0, bytes));
    await world.isend(memory, 0, DATA);
    memory.fill(0);
    await world.irecv(memory, 0, DATA);
    assertBytes(memory, piece(number, 1, 0, bytes), `message ${number}, sent back`);
  }
}

function withServer(act: (gains: Gains) => Promise<void>): () => Promise<void> {
  return async () => {
    if (world.rank === 1) return serve();
    await act(new Gains());
    await world.isend(Int32Array.of(ENOUGH), 1, ORDER);
  };
}

/**
 * Buffers that are dropped, collected and freed; sooner or later a new one gets the address of an old one that is still
 * in the cache.
 */
const freed = withServer(async (gains) => {
  let rounds = 0;
  const before = counts()['cacheStale'];
  while (rounds < 300 && counts()['cacheStale'] < before + 5) {
    await useAndDrop();
    rounds++;
    gc();
    await setImmediate();
  }
  const { Stale, Hits, Misses, Expired } = gains.take('Stale', 'Hits', 'Misses', 'Expired');
  assert(Stale >= 5, `in ${rounds} rounds an address was used again ${Stale} times`);
  // Each buffer was registered when it received and found when it sent; no other was ever found in its place.
  assert.deepEqual([Misses, Hits], [rounds, rounds]);
  assert(Expired >= Stale, `${Expired} entries of freed buffers were dropped`);

  async function useAndDrop(): Promise<void> {
    await use(new Uint8Array(MIB));
  }
});

/** A buffer that is transferred lives on as another object; one that is transferred to a worker ends with it. */
const transferred = withServer(async (gains) => {
  const view = new Uint8Array(MIB);
  await use(view);
  gains.take();
  const moved = structuredClone(view, { transfer: [view.buffer] });
  assert.throws(() => world.isend(view, 1, DATA), ArgumentError);
  assert.throws(() => world.irecv(view, 1, DATA), ArgumentError);
  // The memory has been the same all the time, and so has its registration.
  await use(moved);
  assert.deepEqual(gains.take('Hits', 'Misses'), { Hits: 2, Misses: 0 });

  const worker = new Worker("require('node:worker_threads').parentPort.once('message', () => {})", { eval: true });
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  worker.postMessage(moved, [moved.buffer]);
  await ended;
  assert.throws(() => world.isend(moved, 1, DATA), ArgumentError);
  for (let count = 1; count <= 5; count++) {
    await use(new Uint8Array(MIB));
    assert.deepEqual(gains.take('Hits', 'Misses'), { Hits: 1, Misses: 1 });
  }
});

/**
 * A WebAssembly memory that grows: its buffer is detached, and a larger one begins at the same address, or elsewhere.
 */
const grown = withServer(async (gains) => {
  const memory = new WasmMemory({ initial: 4 });
  const small = new Uint8Array(memory.buffer);
  await use(small);
  assert.deepEqual(gains.take('Hits', 'Misses'), { Hits: 1, Misses: 1 });
  memory.grow(12);
  assert.throws(() => world.isend(small, 1, DATA), ArgumentError);
  // What was registered is too short for it, and may be other memory.
  await use(new Uint8Array(memory.buffer));
  assert.deepEqual(gains.take('Hits', 'Misses'), { Hits: 1, Misses: 1 });
});

/** More buffers in turns than the cache may hold: see `limits`. */
const bounded = withServer(async (gains) => {
  const buffers = (count: number, bytes: number): Uint8Array[] =>
    Array.from({ length: count }, () => new Uint8Array(bytes));
  const inTurns = async (some: Uint8Array[], turns: number): Promise<Record<string, number>> => {
    for (let turn = 0; turn < turns; turn++) for (const buffer of some) await use(buffer);
    return gains.take('Hits', 'Misses', 'Evictions');
  };
  // Four entries hold four buffers, and none of six in turns (beyond that a buffer is sent from as soon as it has
  // received).
  const four = buffers(4, 100_000);
  assert.deepEqual(await inTurns(four, 3), { Hits: 20, Misses: 4, Evictions: 0 });
  const six = buffers(6, 100_000);
  assert.deepEqual(await inTurns(six, 3), { Hits: 18, Misses: 18, Evictions: 18 });
  // Three MiB hold three of one MiB: the four small ones leave, and then there is one too many in each turn.
  const megabytes = buffers(4, MIB);
  assert.deepEqual(await inTurns(megabytes, 3), { Hits: 12, Misses: 12, Evictions: 13 });
  assert(four.concat(six, megabytes).every(({ length }) => length > 0)); // none was collected meanwhile
});

/** What stats() says about writes, receives and events. */
async function counters(): Promise<void> {
  const names = ['workRequests', 'chains', 'inlinedWrites', 'signalledWrites', 'receivesRefilled', 'events', 'probes'];
  let before = counts();
  const gained = (): Record<string, number> => {
    const now = counts();
    const gains = Object.fromEntries(names.map((name) => [name, now[name] - before[name]]));
    before = now;
    return gains;
  };
  const COUNT = 200;
  const other = 1 - world.rank;
  const tell = async (): Promise<void> => {
    const request = world.irecv(new Uint8Array(1), other, ORDER);
    await world.isend(new Uint8Array(1), other, ORDER);
    await request;
  };

  await tell();
  gained();
  if (world.rank === 0) {
    const small = Array.from({ length: COUNT }, () => world.isend(new Uint8Array(64), 1, SMALL));
    for (const request of small) await request;
    await world.irecv(new Uint8Array(1), 1, ORDER);
    const of = gained();
    assert(of['workRequests'] >= COUNT && of['workRequests'] <= 2 * COUNT, JSON.stringify(of));
    assert(of['chains'] <= of['workRequests'], JSON.stringify(of));
    // All are small, but for the questions whether a silent peer is there, which are empty.
    assert.equal(of['inlinedWrites'], of['workRequests'] - of['probes'], JSON.stringify(of));
    // One of any 32, and every question.
    assert(of['signalledWrites'] >= Math.floor(COUNT / 32), JSON.stringify(of));
    assert(of['signalledWrites'] <= of['workRequests'] / 32 + of['probes'] + 1, JSON.stringify(of));

    const buffer = new Uint8Array(100_000);
    for (let round = 0; round < 20; round++) await world.isend(buffer, 1, DATA);
    await world.irecv(new Uint8Array(1), 1, ORDER);
    const large = gained();
    // The data of each is one write, not inlined and signalled.
    assert.equal(large['workRequests'] - large['inlinedWrites'] - large['probes'], 20, JSON.stringify(large));
    assert(large['signalledWrites'] >= 20, JSON.stringify(large));
  } else {
    for (let round = 0; round < COUNT; round++) await world.irecv(new Uint8Array(64), 0, SMALL);
    // Each took one of the receives, which are replaced 32 at a time; rank 0 may have sent a few of other kinds.
    const { receivesRefilled } = gained();
    assert(receivesRefilled > COUNT - 32 && receivesRefilled <= COUNT + 32, `${receivesRefilled} receives`);
    await world.isend(new Uint8Array(1), 0, ORDER);
    const buffer = new Uint8Array(100_000);
    for (let round = 0; round < 20; round++) await world.irecv(buffer, 0, DATA);
    await world.isend(new Uint8Array(1), 0, ORDER);
  }

  // An event wakes a rank that sleeps until something comes. Rank 1 says that it is about to; then it has half a second
  // to fall asleep.
  gained();
  if (world.rank === 0) {
    await world.irecv(new Uint8Array(1), 1, ORDER);
    await new Promise((resolve) => setTimeout(resolve, 500));
    await world.isend(new Uint8Array(1), 1, DATA);
  } else {
    await world.isend(new Uint8Array(1), 0, ORDER);
    world.irecv(new Uint8Array(1), 0, DATA).wait();
    assert(gained()['events'] >= 1, 'nothing woke it');
  }
  await tell();
}

await play({ freed, transferred, grown, bounded, counters });
await world.close();
