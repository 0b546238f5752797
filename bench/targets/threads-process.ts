/**
 * Measures threads of this process, for threads.ts, and prints JSON. Arguments:
 *
 *     start THREADS TURNS   bare workers and runRanks() in turns: how long until they have done something
 *     bare THREADS          what is resident for each bare worker
 *     ranks THREADS         the same for each rank of runRanks(), after some all-to-alls
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Resident, Starts, What } from './threads.js';

const [what, ...numbers] = process.argv.slice(2);
const [threads, turns] = numbers.map(Number);
const KERNEL = new URL('./threads-kernel.js', import.meta.url);
const BARE = `require('node:worker_threads').parentPort.on('message', () => {}).postMessage(0)`;
/** Of the memory that is resident: the system counts it up with a delay. */
const SETTLE_MS = 300;

/** Workers that have said something, and wait. */
async function bareWorkers(): Promise<Worker[]> {
  const workers = Array.from({ length: threads }, () => new Worker(BARE, { eval: true }));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  return workers;
}

const ended = (workers: readonly Worker[]): Promise<unknown> =>
  Promise.all(workers.map(async (worker) => worker.terminate()));

/** In ms, as threads-kernel.ts has it. */
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

async function starts(): Promise<Starts> {
  const { runRanks } = await import('node-nbc');
  const found: Starts = { bare: [], given: [], ranks: [] };
  // The first turn reads files for the first time, and does not count.
  for (let turn = 0; turn <= turns; turn++) {
    const begun = now();
    const workers = await bareWorkers();
    const bare = now() - begun;
    await ended(workers);
    const called = now();
    const given = await runRanks<number>(KERNEL, { size: threads });
    const ranks = now() - called;
    if (turn === 0) continue;
    found.bare.push(bare);
    found.given.push(Math.max(...given) - called);
    found.ranks.push(ranks);
  }
  return found;
}

/** What becomes resident for each thread. `begin`: returns when they wait, with what ends them. */
async function resident(begin: () => Promise<() => Promise<unknown>>): Promise<Resident> {
  await sleep(SETTLE_MS);
  const before = process.memoryUsage.rss();
  const end = await begin();
  await sleep(SETTLE_MS);
  const perThread = (process.memoryUsage.rss() - before) / threads;
  await end();
  return { perThread };
}

async function waitingRanks(): Promise<() => Promise<unknown>> {
  const { runRanks } = await import('node-nbc');
  const words = new Int32Array(new SharedArrayBuffer(8));
  const running = runRanks(KERNEL, { size: threads, data: words });
  while (Atomics.load(words, 0) < threads) await sleep(10);
  return () => {
    Atomics.store(words, 1, 1);
    Atomics.notify(words, 1);
    return running;
  };
}

const MEASURE: Record<What, () => Promise<Starts | Resident>> = {
  start: starts,
  bare: () =>
    resident(async () => {
      const workers = await bareWorkers();
      return () => ended(workers);
    }),
  ranks: () => resident(waitingRanks),
};
console.log(JSON.stringify(await MEASURE[what as What]()));
