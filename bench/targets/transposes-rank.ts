/**
 * Smooths a volume by the 3D FFT of examples/fft3d, in turns with strided parts and with a packing loop: the same
 * volume, filter, kind of buffers and warm-up. Arguments: points of the grid in each dimension, repetitions. Rank 0 prints the
 * totals as JSON.
 */
import assert from 'node:assert/strict';
import { alloc, type Communicator, init, MAX } from 'node-nbc';
import { median } from '#library/bench/nbcbench/statistics.js';
import { scatterSlabs } from '../../examples/fft3d/distribute.js';
import { gaussianFilter, sigmaOf } from '../../examples/fft3d/filter.js';
import type { Triple } from '../../examples/fft3d/geometry.js';
import { phantom } from '../../examples/fft3d/phantom.js';
import { smooth } from '../../examples/fft3d/smooth.js';
import { ParallelFft3d } from '../../examples/fft3d/transform.js';
import { asAlltoall, PackedFft3d } from './packed.js';
import type { Totals } from './transposes.js';

const WARM_UP = 3;
/** Planes of a transpose: with one, a part would be contiguous. */
const PLANES = 4;
const VOXEL: Triple = [2, 2, 2];

const [points, repetitions] = process.argv.slice(2).map(Number);
const world = await init();
const grid: Triple = [points, points, points];
const options = {
  planes: PLANES,
  ahead: 1,
  maxDepth: Infinity,
  allocate: (length: number) => alloc(Float64Array, length),
  test: false,
  onChunk: () => {},
};
const filter = gaussianFilter(grid, grid, VOXEL, sigmaOf(8));
const variants = [
  new ParallelFft3d(world, grid, grid, options),
  new PackedFft3d(asAlltoall(world), grid, grid, options),
];
const volume = world.rank === 0 ? phantom(grid, VOXEL).data : null;
const slab = scatterSlabs(world, volume, variants[0].planes, points * points);
const results = variants.map((fft) => new Float64Array(fft.slabLength));
const totals = variants.map((): number[] => []);

for (let repetition = -WARM_UP; repetition < repetitions; repetition++) {
  for (let turn = 0; turn < variants.length; turn++) {
    const which = (turn + repetition + WARM_UP) % variants.length;
    const { total } = smooth(world, variants[which], filter, [slab], [results[which]], Infinity);
    const slowest = await latest(world, total);
    if (repetition >= 0) totals[which].push(slowest);
  }
}
assert.deepEqual(results[0], results[1], 'both compute the same');
await world.close();
const [strided, packed] = totals.map(median);
if (world.rank === 0) console.log(JSON.stringify({ strided, packed } satisfies Totals));

async function latest(all: Communicator, time: number): Promise<number> {
  const slowest = new Float64Array(1);
  await all.iallreduce(Float64Array.of(time), slowest, MAX);
  return slowest[0];
}
