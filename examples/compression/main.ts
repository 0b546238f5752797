#!/usr/bin/env node
/**
 * Parallel compression, after the kernel of Hoefler and Lumsdaine's paper: every rank compresses its share of real
 * files, rank 0 gathers all into one archive.
 *
 *     nbcrun -n 4 out/examples/compression/main.js DIRECTORY
 */
import { init, type Communicator } from 'node-nbc';
import { ArchiveWriter, verify } from './archive.js';
import { blocksOf, listFiles, readRange, totalBytes } from './files.js';
import { parseOptions, type Variant } from './options.js';
import { compressAll, type Times } from './pipeline.js';

const TITLES: Record<Variant, string> = { blocking: 'blocking', nonblocking: 'non-blocking' };

const options = parseOptions(process.argv, (process.env.NBC_RANK ?? '0') === '0');
// What cannot be read or written ends this rank, and with it the job.
process.on('uncaughtException', ({ message }) => {
  process.stderr.write(`compression: ${message}\n`);
  process.exit(1);
});
const files = listFiles(options.directory, options.archive);
const world = await init();
const say = (line: string): void => {
  if (world.rank === 0) process.stdout.write(`${line}\n`);
};

const total = totalBytes(files);
const blocks = blocksOf(total, options.block, world.rank, world.size).map((range) => readRange(files, ...range));
const rounds = largest(world, blocks.length);
say(
  `${files.length} files, ${mib(total)} MiB; ${world.size} ranks, ${rounds} blocks of up to ${options.block / 1024} KiB each`,
);

const variants: Variant[] = options.variant === 'both' ? ['blocking', 'nonblocking'] : [options.variant];
// In turns, and once before anything counts.
const found: Record<Variant, Times[]> = { blocking: [], nonblocking: [] };
for (let repetition = 0; repetition <= options.repetitions; repetition++) {
  for (const variant of variants) {
    const times = run(variant);
    if (repetition > 0) found[variant].push(times);
  }
}
if (world.rank === 0) {
  const bytes = verify(options.archive, files);
  say(`${options.archive}: verified, all ${bytes} bytes are as in the files`);
  for (const variant of variants) report(variant);
  if (variants.length === 2) {
    const [blocking, non] = variants.map((variant) => median(found[variant].map(overhead)));
    say(`communication overhead removed: ${((1 - non / blocking) * 100).toFixed(1)} %`);
  }
}
await world.close();

/** Times of the slowest rank, and of the one that had most to do. */
function run(variant: Variant): Times {
  const archive = world.rank === 0 ? new ArchiveWriter(options.archive) : undefined;
  largest(world, 0); // all begin together
  const { level } = options;
  const depth = variant === 'blocking' ? 0 : options.depth;
  const times = compressAll({ world, blocks, rounds, level, depth, archive });
  archive?.close(files);
  return { whole: largest(world, times.whole), working: largest(world, times.working) };
}

/** The largest number that a rank has. */
function largest(communicator: Communicator, mine: number): number {
  const all = new Float64Array(communicator.size);
  communicator.ialltoall(new Float64Array(communicator.size).fill(mine), all).wait();
  return Math.max(...all);
}

/**
 * What the job took beyond the work of the rank that had most: moving data, and waiting for each other more than once.
 */
function overhead({ whole, working }: Times): number {
  return whole - working;
}

function report(variant: Variant): void {
  const of = (what: (times: Times) => number): string => median(found[variant].map(what)).toFixed(1);
  const [whole, working] = [of((times) => times.whole), of((times) => times.working)];
  say(`${TITLES[variant].padEnd(12)}  whole ${whole} ms, most work ${working} ms, communication ${of(overhead)} ms`);
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}

function mib(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}
