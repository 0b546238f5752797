/**
 * What the JavaScript side of an operation costs: time, bytes of heap and calls of native code for start, test, wait,
 * await and the look-up of plans.
 *
 * Runs as a job of two ranks (`npm run bench` does that). Rank 0 measures; in cases that need both, rank 1 does the
 * same operations beside it, told how many by a broadcast. Cases that need no other rank use a communicator of one, on
 * which every operation is complete when `start` returns: what they cost is argument checks, plan look-up, one native
 * call and the request.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Communicator, init, type Request, waitAll } from 'node-nbc';
import { Bench } from 'tinybench';

const { values } = parseArgs({
  options: { time: { type: 'string', default: '300' }, filter: { type: 'string' }, json: { type: 'string' } },
});

/** Operations in one sample: a clock reading costs as much as the cheaper ones. */
const PER_SAMPLE = 1000;
/**
 * Operations of which the heap is weighed: what they leave behind fits in the youngest generation without a collection.
 */
const PER_WEIGHING = 500;
const WEIGHINGS = 41;

interface Case {
  name: string;
  /** Both ranks do it. */
  joint: boolean;
  /** Whether it returns to the event loop. */
  async: boolean;
  run(count: number): void | Promise<void>;
}

interface Figures {
  name: string;
  /** Median of one operation, in ns. */
  ns: number;
  /** Median absolute deviation of the same. */
  ns_mad: number;
  /** JavaScript heap that one operation takes until the next collection. */
  heap_bytes: number;
  /** Calls of the addon that one operation makes. */
  native_calls: number;
}

/** Where every result goes, so that the optimiser cannot prove a request unused and leave it out. */
export let last: unknown;

function cases(world: Communicator, alone: Communicator): Case[] {
  const block = new Uint8Array(8);
  const other = new Uint8Array(16);
  const send = new Uint8Array(8 * world.size);
  const recv = new Uint8Array(8 * world.size);
  const word = new Uint8Array(8);
  const peer = 1 - world.rank;
  const persistent = alone.bcastInit(block, 0);
  const persistentBcast = world.bcastInit(word, 0);
  const persistentAlltoall = world.alltoallInit(send, recv);
  const complete = alone.ibcast(block, 0);
  complete.wait();
  // Never answered: rank 1 sends nothing with this tag. Closing the world ends it.
  const pending = world.rank === 0 ? world.irecv(new Uint8Array(8), peer, 99) : complete;

  const repeated = (name: string, joint: boolean, operation: () => unknown): Case => ({
    name,
    joint,
    async: false,
    run(count) {
      for (let i = 0; i < count; i++) last = operation();
    },
  });
  const awaited = (name: string, joint: boolean, operation: () => Request): Case => ({
    name,
    joint,
    async: true,
    async run(count) {
      for (let i = 0; i < count; i++) await operation();
    },
  });

  return [
    repeated('start, complete at once: ibcast', false, () => alone.ibcast(block, 0)),
    {
      name: 'start, another shape each time: ibcast (plan look-up)',
      joint: false,
      async: false,
      run(count) {
        for (let i = 0; i < count; i++) last = alone.ibcast((i & 1) === 0 ? block : other, 0);
      },
    },
    repeated('start, algorithm named: ibcast', false, () => alone.ibcast(block, 0, { algorithm: 'linear' })),
    repeated('start, complete at once: bcastInit', false, () => persistent.start()),
    repeated('test, complete', false, () => complete.test()),
    repeated('test, pending', false, () => pending.test()),
    repeated('done, pending', false, () => pending.done),
    repeated('wait, complete', false, () => complete.wait()),
    awaited('await, complete', false, () => complete),
    repeated('start + wait: ibcast of 8 B', true, () => world.ibcast(word, 0).wait()),
    repeated('start + wait: ialltoall of 8 B', true, () => world.ialltoall(send, recv).wait()),
    repeated('start + wait: bcastInit of 8 B', true, () => {
      persistentBcast.start();
      persistentBcast.wait();
    }),
    repeated('start + wait: alltoallInit of 8 B', true, () => {
      persistentAlltoall.start();
      persistentAlltoall.wait();
    }),
    awaited('start + await: ialltoall of 8 B', true, () => world.ialltoall(send, recv)),
    repeated('isend + irecv + waitAll: 8 B', true, () =>
      waitAll([world.irecv(block, peer, 1), world.isend(word, peer, 1)]),
    ),
  ];
}

/** Rank 1 repeats what rank 0 says: which case, and how often. A case of -1 ends it. */
const order = new Float64Array(2);

async function follow(world: Communicator, all: readonly Case[]): Promise<void> {
  for (;;) {
    world.ibcast(order, 0).wait();
    if (order[0] < 0) return;
    await all[order[0]].run(order[1]);
  }
}

function announce(world: Communicator, index: number, count: number): void {
  order[0] = index;
  order[1] = count;
  world.ibcast(order, 0).wait();
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/**
 * Bytes of heap that one operation leaves behind: the median of several weighings, since optimising code allocates,
 * too.
 */
async function weigh(run: (count: number) => void | Promise<void>): Promise<number> {
  const found: number[] = [];
  for (let i = 0; i < WEIGHINGS; i++) {
    collect();
    const before = getHeapStatistics().used_heap_size;
    await run(PER_WEIGHING);
    found.push((getHeapStatistics().used_heap_size - before) / PER_WEIGHING);
  }
  return found.sort((a, b) => a - b)[WEIGHINGS >> 1];
}

/** Calls of the addon's functions that one operation makes. Those that the event loop makes meanwhile count, too. */
async function countCalls(world: Communicator, run: (count: number) => void | Promise<void>): Promise<number> {
  // All communicators of a world share this object.
  const inner = (world as unknown as { world: { native: Record<string, (...args: unknown[]) => unknown> } }).world;
  const { native } = inner;
  let calls = 0;
  const counted: typeof native = {};
  // The addon's functions are inherited ones.
  for (const name in native) {
    const call = native[name];
    counted[name] = (...args) => {
      calls++;
      return call(...args);
    };
  }
  inner.native = counted;
  try {
    await run(PER_WEIGHING);
  } finally {
    inner.native = native;
  }
  return calls / PER_WEIGHING;
}

async function lead(world: Communicator, all: readonly Case[]): Promise<Figures[]> {
  const chosen = all.filter(({ name }) => values.filter === undefined || name.includes(values.filter));
  if (chosen.length === 0) throw new Error(`no case has "${values.filter}" in its name`);
  const bench = new Bench({ time: Number(values.time), warmupTime: Number(values.time) / 2 });
  const runOf = (one: Case) => (count: number) => {
    if (one.joint) announce(world, all.indexOf(one), count);
    return one.run(count);
  };
  for (const one of chosen) bench.add(one.name, () => runOf(one)(PER_SAMPLE), { async: one.async });
  bench.addEventListener('cycle', ({ task }) => process.stderr.write(`  ${task.name}\n`));
  await bench.run();

  const figures: Figures[] = [];
  // What a weighing takes by itself.
  const nothing = await weigh(() => {});
  for (const one of chosen) {
    const result = bench.getTask(one.name)?.result;
    if (result?.state !== 'completed') throw new Error(`${one.name} did not complete`);
    const { p50, mad } = result.latency;
    const ns = (milliseconds: number) => (milliseconds * 1e6) / PER_SAMPLE;
    const heap_bytes = Math.max(0, (await weigh(runOf(one))) - nothing);
    figures.push({ name: one.name, ns: ns(p50), ns_mad: ns(mad), heap_bytes, native_calls: 0 });
  }
  // At the end: code that has met another object in place of the addon is compiled again.
  for (const [index, one] of chosen.entries()) {
    // What rank 0 tells rank 1 is no part of it.
    if (one.joint) announce(world, all.indexOf(one), PER_WEIGHING);
    figures[index].native_calls = await countCalls(world, (count) => one.run(count));
  }
  announce(world, -1, 0);
  return figures;
}

function print(figures: readonly Figures[]): void {
  const width = Math.max(...figures.map(({ name }) => name.length));
  console.log(`${''.padEnd(width)}        ns     (±)  heap B  calls`);
  for (const { name, ns, ns_mad, heap_bytes, native_calls } of figures) {
    const columns = [
      ns.toFixed(1).padStart(9),
      `(${ns_mad.toFixed(1)})`.padStart(9),
      heap_bytes.toFixed(0).padStart(7),
      native_calls.toFixed(1).padStart(7),
    ];
    console.log(`${name.padEnd(width)} ${columns.join('')}`);
  }
}

const world = await init();
if (world.size !== 2) throw new Error('micro runs on two ranks: npm run bench, or nbcrun -n 2 out/bench/micro.js');
const alone = await world.split(world.rank);
if (alone === null) throw new Error('no communicator of one');
const all = cases(world, alone);
if (world.rank === 0) {
  const figures = await lead(world, all);
  print(figures);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures, null, 2)}\n`);
} else {
  await follow(world, all);
}
await world.close();
