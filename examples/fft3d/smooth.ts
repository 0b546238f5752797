import type { Communicator } from 'node-nbc';
import { barrier } from './distribute.js';
import { correctBorder, filterSpectrum, type GaussianFilter } from './filter.js';
import type { Timing } from './report.js';
import type { ParallelFft3d } from './transform.js';

/** Volumes of a series that `smooth` has on their way in one direction at once. */
export const AHEAD = 2;

/**
 * Smooths the volumes of a series, each there, filtered, and back. Three of them are on their way at any time, in one
 * step each, so that while anything travels there is something to compute:
 *
 *     volume n       x and y, and off it goes
 *     volume n - 1   has arrived: z, the filter, z again, and back it goes
 *     volume n - 2   is back: y and x
 *
 * Collective; all ranks begin together.
 *
 * @param volumes our slab of each volume
 * @param results get our slab of each filtered volume
 * @param depth transposes of one step in flight; 0 is the blocking variant
 * @param inspect may look at the spectrum of a volume before it is filtered
 */
export function smooth(
  world: Communicator,
  fft: ParallelFft3d,
  filter: GaussianFilter,
  volumes: Float64Array[],
  results: Float64Array[],
  depth: number,
  inspect?: (index: number) => void,
): Timing {
  const { planes, rows, columns } = fft;
  fft.resetTimes();
  barrier(world);
  const begin = performance.now();
  for (let n = 0; n < volumes.length + 2; n++) {
    if (n < volumes.length) fft.sendForward(volumes[n], depth);
    if (n >= 1 && n <= volumes.length) {
      fft.receiveForward();
      inspect?.(n - 1);
      filterSpectrum(fft.spectrum, filter, columns, rows.first(world.rank), rows.count(world.rank));
      fft.sendBackward(depth);
    }
    if (n >= 2) {
      fft.receiveBackward(results[n - 2]);
      correctBorder(results[n - 2], filter, planes.first(world.rank), planes.count(world.rank));
    }
  }
  return { total: performance.now() - begin, ...fft.times };
}
