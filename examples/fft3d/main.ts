#!/usr/bin/env node
/**
 * A parallel 3D FFT: smooths a volume by a Gaussian in Fourier space, on any number of ranks.
 *
 *     nbcrun -n 4 out/examples/fft3d/main.js --input brain.nii.gz
 *
 * What is parallel is in transform.ts; how its transposes overlap its computation, in transpose.ts.
 */
import { AbandonedError, alloc, type Communicator, init, PeerClosedError } from 'node-nbc';
import { broadcast, gather, scatterSlabs } from './distribute.js';
import { Expected } from './expected.js';
import { gaussianFilter, paddedGrid, periodicGrid, sigmaOf, type GaussianFilter } from './filter.js';
import { AXES, format, product, UsageError, volumesOf, type Series, type Triple } from './geometry.js';
import { energyError, spectrumError, sum } from './inspect.js';
import { parseOptions, type Options, type Variant } from './options.js';
import { phantoms } from './phantom.js';
import type { Floats } from './precision.js';
import { Progress } from './progress.js';
import { checkLines, pack, summarise, timingLines, unpack, type Timing } from './report.js';
import { writeResults } from './results.js';
import { AHEAD, smooth } from './smooth.js';
import { ParallelFft3d } from './transform.js';
import { check, MaxError, type Check } from './verify.js';
import { readNifti, type NiftiSeries } from './volume.js';

const TITLES: Record<Variant, string> = { blocking: 'blocking', nonblocking: 'non-blocking' };

/** What rank 0 knows at first, and every rank in the end. */
interface Shape {
  size: Triple;
  voxel: Triple;
  grid: Triple;
}

/** Does this process speak for the job? Known before the job is joined, so that a mistake is told once. */
const speaker = (process.env.NBC_RANK ?? '0') === '0';

function say(...lines: string[]): void {
  if (speaker) process.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

/** Memory of a transpose. */
function allocate({ buffers, precision }: Options, length: number): Floats {
  if (buffers === 'plain') return precision === 'single' ? new Float32Array(length) : new Float64Array(length);
  return precision === 'single' ? alloc(Float32Array, length) : alloc(Float64Array, length);
}

/** Reads or makes the volumes, and decides on the grid. */
function load({ input, grid: phantomSize, voxel: distance, volumes, slice, border, fwhm }: Options): {
  series: Series;
  shape: Shape;
} {
  const series =
    input === undefined ? phantoms(phantomSize, [distance, distance, distance], volumes) : readNifti(input, volumes);
  const { size, voxel } = series;
  if (slice !== undefined && slice >= size[2]) {
    throw new UsageError(`--slice ${slice}: the volume's planes are 0 to ${size[2] - 1}`);
  }
  for (const note of notesOn(series, fwhm)) say(`note: ${note}`);
  const grid = border === 'periodic' ? periodicGrid(size) : paddedGrid(size, voxel, sigmaOf(fwhm));
  return { series, shape: { size, voxel, grid } };
}

/** What the reader of the result should know. */
function notesOn(volume: Series | NiftiSeries, fwhm: number): string[] {
  const notes = 'notes' in volume ? volume.notes : [];
  const coarse = AXES.filter((_, axis) => fwhm > 0 && fwhm < 2 * volume.voxel[axis]);
  if (coarse.length === 0) return notes;
  return [...notes, `the Gaussian is narrower than two voxels along ${coarse.join(', ')}: expect ringing at edges`];
}

/** Tells every rank what rank 0 knows. Collective. */
function share(world: Communicator, shape: Shape | undefined): Shape {
  const numbers = new Float64Array(9);
  if (shape) numbers.set([...shape.size, ...shape.voxel, ...shape.grid]);
  const [sx, sy, sz, vx, vy, vz, gx, gy, gz] = broadcast(world, numbers);
  return { size: [sx, sy, sz], voxel: [vx, vy, vz], grid: [gx, gy, gz] };
}

function describe(options: Options, { size, voxel, grid }: Shape, fft: ParallelFft3d, ranks: number): void {
  const depth = Number.isFinite(options.depth) ? options.depth : 'all';
  say(
    `${options.input ?? 'phantom of a head'}: ${format(size)} voxels of ${format(voxel)} mm` +
      (options.volumes > 1 ? `, ${options.volumes} volumes` : ''),
    `Gaussian of ${options.fwhm} mm FWHM on a grid of ${format(grid)}, ${options.border} border; ranks: ${ranks}`,
    `transposes: ${fft.chunks} there and back, up to ${(fft.blockBytes / 1024).toFixed(1)} KiB to each rank, ` +
      `${depth} in flight, ${options.precision} precision, ${options.buffers} buffers`,
    '',
  );
}

interface Measurement {
  /** By variant: all ranks' repetitions, the first rank's first. Only on rank 0. */
  timings: Timing[][] | null;
  checks: Check[];
  /** Our slab of each filtered volume. */
  results: Float64Array[];
}

/**
 * Runs all variants in turn, once to warm up and to check the spectrum, and then measured; checks that all repetitions
 * agree. Collective.
 */
function measure(
  world: Communicator,
  fft: ParallelFft3d,
  filter: GaussianFilter,
  volumes: Float64Array[],
  expected: Expected | null,
  { check: how, repetitions, depth, precision }: Options,
  variants: Variant[],
  progress: Progress,
): Measurement {
  const checks: Check[] = [];
  const timings = variants.map((): Timing[] => []);
  const results = volumes.map(() => new Float64Array(fft.slabLength));
  let first: Buffer | undefined;
  let deviating = 0;
  for (let repetition = 0; repetition <= repetitions; repetition++) {
    variants.forEach((variant, which) => {
      const title = TITLES[variant];
      progress.stage(repetition === 0 ? `${title}, warm-up` : `${title}, repetition ${repetition} of ${repetitions}`);
      const inspect = (index: number) => {
        const what = `spectrum${volumes.length > 1 ? ` ${index + 1}` : ''}, ${title}`;
        if (how === 'serial')
          checks.push(
            check(`${what}, against serial`, spectrumError(world, fft, expected?.spectrum(index) ?? null), precision),
          );
        checks.push(check(`${what}, energy by Parseval`, energyError(world, fft, volumes[index]), precision));
      };
      const used = variant === 'blocking' ? 0 : depth;
      // Where time does not count: what travels meanwhile would cost none.
      const timing = smooth(world, fft, filter, volumes, results, used, repetition === 0 ? inspect : undefined);
      if (repetition > 0) timings[which].push(timing);
      // All do the same operations in the same order, so they agree to the last bit, whatever travelled meanwhile.
      const bytes = Buffer.concat(results.map(({ buffer }) => Buffer.from(buffer)));
      first ??= bytes;
      if (!first.equals(bytes)) deviating++;
    });
  }
  checks.push(
    check('slabs of a repetition that deviate from the first', sum(gather(world, Float64Array.of(deviating)))),
  );
  const gathered = timings.map((own) => gather(world, pack(own)));
  return { timings: world.rank === 0 ? gathered.map((numbers) => unpack(numbers!)) : null, checks, results };
}

/** @returns whether all results are right (rank 0; the others don't know) */
async function run(options: Options): Promise<boolean> {
  // Before joining the job: what is wrong with the input should be the first and only thing to be said.
  const loaded = speaker ? load(options) : undefined;
  const world = await init();
  const shape = share(world, loaded?.shape);
  const { size, voxel, grid } = shape;
  const filter = gaussianFilter(size, grid, voxel, sigmaOf(options.fwhm));
  const variants: Variant[] = options.variant === 'both' ? ['blocking', 'nonblocking'] : [options.variant];

  const progress = new Progress(speaker);
  const fft = new ParallelFft3d(world, size, grid, {
    planes: options.planes,
    ahead: Math.min(options.volumes, AHEAD),
    maxDepth: variants.includes('nonblocking') ? options.depth : 0,
    allocate: (length) => allocate(options, length),
    test: options.test,
    onChunk: () => progress.step(),
  });
  describe(options, shape, fft, world.size);
  progress.start(fft.chunks * options.volumes * variants.length * (options.repetitions + 1));

  const volumes = Array.from({ length: options.volumes }, (_, index) =>
    scatterSlabs(world, loaded?.series.volumes[index] ?? null, fft.planes, size[0] * size[1]),
  );
  progress.stage('serial transform, to check against');
  const expected = loaded && options.check === 'serial' ? new Expected(volumesOf(loaded.series), grid) : null;
  expected?.spectrum(0);
  const { timings, checks, results } = measure(world, fft, filter, volumes, expected, options, variants, progress);
  const gathered = results.map((result) => gather(world, result));
  progress.stage('checking and writing the result');
  await world.close();

  let written: [string, string][] = [];
  if (loaded) {
    // Without what pads the last slabs.
    const filtered = { size, voxel, volumes: gathered.map((whole) => whole!.subarray(0, product(size))) };
    if (expected) {
      const error = new MaxError();
      filtered.volumes.forEach((data, index) => error.addAll(data, expected.result(index, filter, options.fwhm)));
      checks.push(check('result against serial', error.relative, options.precision));
    }
    written = writeResults(options, loaded.series, filtered);
  }
  progress.stop();
  if (!timings) return true;

  const summaries = timings.map((all, index) => ({
    title: TITLES[variants[index]],
    timing: summarise(all, options.repetitions),
  }));
  say(...timingLines(summaries), '', ...checkLines(checks), '');
  for (const [file, content] of written) say(`${file}: ${content}`);
  return checks.every(({ ok }) => ok);
}

try {
  const ok = await run(parseOptions(process.argv, speaker));
  say('', ok ? 'verified' : 'NOT verified: see the lines marked WRONG');
  if (!ok) process.exitCode = 1;
} catch (error) {
  process.exitCode = 1;
  if (error instanceof UsageError) {
    process.stderr.write(`fft3d: ${error.message}\n`);
  } else if (!(error instanceof PeerClosedError || error instanceof AbandonedError)) {
    // Of these two, another rank is the cause. It says why it ended.
    throw error;
  }
}
