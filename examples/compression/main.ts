#!/usr/bin/env node
/**
 * Parallel compression, after the kernel of Hoefler and Lumsdaine's paper: every rank compresses its share of real files, rank 0 gathers all into one archive.
 *
 *     nbcrun -n 4 out/examples/compression/main.js DIRECTORY
 */
import { init, type Communicator } from 'node-nbc';
import { ArchiveWriter, unpack } from './archive.js';
import { cut, listFiles, readRange, shareOf, totalBytes, type File } from './files.js';
import { parseOptions, type Options, type Variant } from './options.js';
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
const share = shareOf(total, world.rank, world.size);
const blocks = cut(readRange(files, ...share), options.block);
const rounds = largest(world, blocks.length);
say(
  `${files.length} files, ${mib(total)} MiB; ${world.size} ranks, ${rounds} blocks of ${options.block / 1024} KiB each`,
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
  verify(files, options);
  for (const variant of variants) report(variant);
  if (variants.length === 2) {
    const [blocking, non] = variants.map((variant) => median(found[variant].map((times) => overhead(times))));
    say(`communication overhead removed: ${((1 - non / blocking) * 100).toFixed(1)} %`);
  }
}
await world.close();

function run(variant: Variant): Times {
  const archive = world.rank === 0 ? new ArchiveWriter(options.archive) : undefined;
  largest(world, 0); // all begin together
  const { level } = options;
  const depth = variant === 'blocking' ? 0 : options.depth;
  const times = compressAll({ world, blocks, rounds, level, depth, archive });
  archive?.close(files);
  return times;
}

/** The largest number that a rank has. */
function largest(communicator: Communicator, mine: number): number {
  const all = new Float64Array(communicator.size);
  communicator.ialltoall(new Float64Array(communicator.size).fill(mine), all).wait();
  return Math.max(...all);
}

/** What the root's time has beyond its compressing. */
function overhead({ communicating }: Times): number {
  return communicating;
}

function report(variant: Variant): void {
  const of = (which: keyof Times): string => median(found[variant].map((times) => times[which])).toFixed(1);
  say(
    `${TITLES[variant].padEnd(12)}  whole ${of('whole')} ms, compressing ${of('compressing')} ms, communication ${of('communicating')} ms`,
  );
}

/** The archive holds what the files hold, byte by byte. */
function verify(expected: readonly File[], { archive }: Options): void {
  const { files: stored, content } = unpack(archive);
  if (JSON.stringify(stored) !== JSON.stringify(expected)) throw new Error(`${archive} names other files`);
  const original = readRange(expected, 0, total);
  if (Buffer.compare(content, original) !== 0) throw new Error(`${archive} does not hold what the files hold`);
  say(`${archive}: verified, all ${total} bytes are as in the files`);
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}

function mib(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}
