/**
 * A job of many ranks: every operation of the tables once, with blocks of 8 bytes, whose data are checked on all ranks.
 *
 * `npx nbcrun -n 256 out/bench/many-ranks.js [--without ialltoallv,ialltoallw]`, or with `--threads` or `--threads=N`
 * in front of the program. What is left out is what the memory of the machine has no room for: where all ranks send to
 * all, it takes memory with the square of their number. Rank 0 prints how long the ranks
 * took to open and for each operation (the first call, with its plan and connections, until all ranks have checked it),
 * and the memory of all processes together at the end: the pages that they use, each counted once, and their page
 * tables. Nothing is given back before, so that is also the most that they had.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Communicator, init, SUM } from 'node-nbc';
import { hasNeighbors, OPS } from '#library/bench/nbcbench/operations.js';
import { fieldOf } from '#library/bench/nbcbench/proc.js';
import { Prepared } from '#library/bench/nbcbench/prepared.js';

const { values } = parseArgs({ options: { without: { type: 'string', default: '' } } });
const without = values.without.split(',');
const RUN = OPS.filter((op) => !without.includes(op));
const BYTES = 8;
const MIB = 1024 * 1024;

/** In bytes. */
const field = (file: string, name: string): number => fieldOf(readFileSync(`/proc/self/${file}`, 'latin1'), name);

/** Of all processes. Of the ranks of one process, the first reads. */
function memoryOf(world: Communicator): { processes: number; pages: number; tables: number } {
  const pids = new Int32Array(world.size);
  world.iallgather(Int32Array.of(process.pid), pids).wait();
  const first = pids.indexOf(process.pid) === world.rank;
  const mine = first ? [1, field('smaps_rollup', 'Pss'), field('status', 'VmPTE')] : [0, 0, 0];
  const all = new Float64Array(mine.length);
  world.iallreduce(Float64Array.from(mine), all, SUM).wait();
  const [processes, pages, tables] = all;
  return { processes, pages, tables };
}

const say = (world: Communicator, text: string): void => {
  if (world.rank === 0) console.log(text);
};
const seconds = (since: number): string => `${((performance.now() - since) / 1e3).toFixed(2)} s`;

const begun = performance.now();
const world = await init();
world.ibarrier().wait();
say(world, `${world.size} ranks are open: ${seconds(begun)} after the program of rank 0 began`);
const ring = (await world.cart({ dims: [world.size], periods: [true] }))!;
for (const op of RUN) {
  const since = performance.now();
  const prepared = new Prepared(hasNeighbors(op) ? ring : world, op, BYTES, 'plain', 'nonblocking');
  prepared.check();
  world.ibarrier().wait();
  say(world, `${op}: ${seconds(since)}`);
}
const { processes, pages, tables } = memoryOf(world);
say(
  world,
  `all ${RUN.length} operations are right: ${world.size} ranks in ${processes} processes, ${seconds(begun)}, ` +
    `${(pages / MIB).toFixed(0)} MiB, and ${(tables / MIB).toFixed(0)} MiB of page tables`,
);
await world.close();
