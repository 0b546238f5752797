import type { Communicator } from 'node-nbc';
import { gather } from './distribute.js';
import { product } from './geometry.js';
import type { SerialFft3d } from './serial.js';
import type { ParallelFft3d } from './transform.js';
import { energy, MaxError, parsevalError } from './verify.js';

/**
 * How far the spectrum of all ranks is from the serial one. One index y of every slab is compared at a time, so that
 * rank 0 needs little memory for it. Collective.
 *
 * @param serial on rank 0, the volume transformed by one process
 * @returns the largest relative error on rank 0; 0 elsewhere
 */
export function spectrumError(world: Communicator, fft: ParallelFft3d, serial: SerialFft3d | null): number {
  const [, , gridZ] = fft.grid;
  const length = fft.columns * gridZ * 2;
  const error = new MaxError();
  for (let local = 0; local < fft.rows.width; local++) {
    const parts = gather(world, fft.spectrum.subarray(local * length, (local + 1) * length));
    if (!parts || !serial) continue;
    for (let rank = 0; rank < world.size; rank++) {
      if (local >= fft.rows.count(rank)) continue;
      const y = fft.rows.first(rank) + local;
      let at = rank * length;
      for (let x = 0; x < fft.columns; x++) {
        for (let z = 0; z < gridZ; z++) {
          const index = serial.index(x, y, z);
          error.add(parts[at++], serial.re[index]);
          error.add(parts[at++], serial.im[index]);
        }
      }
    }
  }
  return error.relative;
}

/**
 * How far the spectrum is from having the volume's energy. Collective.
 *
 * @param volume our slab of the volume
 * @returns the relative error on rank 0; 0 elsewhere
 */
export function energyError(world: Communicator, fft: ParallelFft3d, volume: Float64Array): number {
  const { grid, spectrum, rows, columns } = fft;
  const length = 2 * grid[2];
  let own = 0;
  for (let line = 0; line < rows.count(world.rank) * columns; line++) {
    // All other frequencies along x have a mirror image with the same energy.
    const isAlone = line % columns === 0 || line % columns === columns - 1;
    own += (isAlone ? 1 : 2) * energy(spectrum.subarray(line * length, (line + 1) * length));
  }
  const inSpace = sum(gather(world, Float64Array.of(energy(volume))));
  const inSpectrum = sum(gather(world, Float64Array.of(own)));
  return parsevalError(inSpace, inSpectrum, product(grid));
}

/** The sum of numbers from all ranks, where they were gathered. */
export const sum = (numbers: Float64Array | null): number => numbers?.reduce((all, value) => all + value, 0) ?? 0;
