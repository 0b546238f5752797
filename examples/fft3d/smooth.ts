import type { Communicator } from 'node-nbc';
import { barrier } from './distribute.js';
import { correctBorder, filterSpectrum, type GaussianFilter } from './filter.js';
import type { Timing } from './report.js';
import type { ParallelFft3d } from './transform.js';

/**
 * Smooths a volume once: there, filter, and back. Collective; all ranks begin together.
 *
 * @param volume our slab of the volume
 * @param result our slab of the filtered volume
 * @param depth transposes in flight; 0 is the blocking variant
 * @param inspect may look at the spectrum before it is filtered; the clock stands still meanwhile
 */
export function smooth(
  world: Communicator,
  fft: ParallelFft3d,
  filter: GaussianFilter,
  volume: Float64Array,
  result: Float64Array,
  depth: number,
  inspect?: () => void,
): Timing {
  fft.pipeline.reset();
  barrier(world);
  const forward = timed(() => fft.forward(volume, depth));
  inspect?.();
  // Again together: a rank that was late from inspecting must not count as communication.
  if (inspect) barrier(world);
  const backward = timed(() => {
    filterSpectrum(fft.spectrum, filter, fft.rows.first(world.rank), fft.rows.count(world.rank));
    fft.backward(result, depth);
    correctBorder(result, filter, fft.planes.first(world.rank), fft.planes.count(world.rank));
  });
  return { total: forward + backward, ...fft.pipeline.times };
}

/** How long something takes, in milliseconds. */
function timed(action: () => void): number {
  const begin = performance.now();
  action();
  return performance.now() - begin;
}
