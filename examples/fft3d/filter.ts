import FFT from 'fft.js';
import { AXES, UsageError, type Triple } from './geometry.js';

/**
 * The Gaussian is cut off after so many standard deviations, as customary for image filters: beyond them lie 0.006 % of
 * its weight. So far, at least, the grid must reach over the volume, or one face would bleed into the opposite one.
 */
const REACH = 4;

/** Standard deviation of a Gaussian of a given full width at half maximum, both in the same unit. */
export const sigmaOf = (fwhm: number): number => fwhm / Math.sqrt(8 * Math.log(2));

/**
 * The grid on which a volume is transformed: room for the reach of the filter beyond its far faces, rounded up to
 * powers of two, which is what the 1D library transforms. The transform is periodic, so that room serves the near faces
 * too.
 */
export function paddedGrid(size: Triple, voxel: Triple, sigma: number): Triple {
  return triple((axis) => {
    const needed = Math.max(2, size[axis] + Math.ceil((REACH * sigma) / voxel[axis]));
    return 2 ** Math.ceil(Math.log2(needed));
  });
}

/** The grid without padding: the filter reaches over each face into the opposite one. */
export function periodicGrid(size: Triple): Triple {
  const axis = size.findIndex((length) => length < 2 || !Number.isInteger(Math.log2(length)));
  if (axis < 0) return size;
  throw new UsageError(
    `--border periodic: sizes must be powers of two from 2 on, but along ${AXES[axis]} it is ${size[axis]}`,
  );
}

/** A Gaussian low-pass, as three factors in Fourier space and what corrects the border in space. */
export interface GaussianFilter {
  /** By axis and index of frequency: the factor exp(−2π²σ²f²), with f in cycles per millimetre. */
  transfer: readonly [Float64Array, Float64Array, Float64Array];
  /**
   * By axis and voxel: how much of the Gaussian around that voxel lies inside the volume. Outside it there is nothing
   * to average, so results are divided by these weights (normalised convolution); without that, borders would darken.
   */
  inside: readonly [Float64Array, Float64Array, Float64Array];
}

/**
 * @param size voxels of the volume
 * @param grid points of the transform
 * @param voxel distance of voxels in mm
 * @param sigma standard deviation of the Gaussian in mm
 */
export function gaussianFilter(size: Triple, grid: Triple, voxel: Triple, sigma: number): GaussianFilter {
  const transfer = triple((axis) => {
    const extent = grid[axis] * voxel[axis];
    return Float64Array.from({ length: grid[axis] }, (_, index) => {
      const frequency = Math.min(index, grid[axis] - index) / extent;
      return Math.exp(-2 * (Math.PI * sigma * frequency) ** 2);
    });
  });
  return { transfer, inside: triple((axis) => filteredBox(size[axis], transfer[axis])) };
}

/** A box of ones, filtered along one axis. */
function filteredBox(size: number, transfer: Float64Array): Float64Array {
  const fft = new FFT(transfer.length);
  const [box, spectrum] = [new Float64Array(2 * transfer.length), new Float64Array(2 * transfer.length)];
  for (let index = 0; index < size; index++) box[2 * index] = 1;
  fft.transform(spectrum, box);
  for (let index = 0; index < spectrum.length; index++) spectrum[index] *= transfer[index >> 1];
  fft.inverseTransform(box, spectrum);
  return Float64Array.from({ length: size }, (_, index) => box[2 * index]);
}

/**
 * Filters our slab of a spectrum in place.
 *
 * @param spectrum [y in our slab][x][z], complex
 * @param columns frequencies along x that it has, from 0 on
 * @param firstY the first y of our slab
 * @param countY how many we own
 */
export function filterSpectrum(
  spectrum: Float64Array,
  { transfer: [alongX, alongY, alongZ] }: GaussianFilter,
  columns: number,
  firstY: number,
  countY: number,
): void {
  let at = 0;
  for (let y = 0; y < countY; y++) {
    for (let x = 0; x < columns; x++) {
      const factor = alongY[firstY + y] * alongX[x];
      for (let z = 0; z < alongZ.length; z++) {
        spectrum[at++] *= factor * alongZ[z];
        spectrum[at++] *= factor * alongZ[z];
      }
    }
  }
}

/**
 * Corrects the border of our slab of a filtered volume in place.
 *
 * @param volume [z in our slab][y][x]
 * @param firstZ the first plane of our slab
 * @param countZ how many we own
 */
export function correctBorder(
  volume: Float64Array,
  { inside: [alongX, alongY, alongZ] }: GaussianFilter,
  firstZ: number,
  countZ: number,
): void {
  let at = 0;
  for (let z = 0; z < countZ; z++) {
    for (let y = 0; y < alongY.length; y++) {
      const factor = alongZ[firstZ + z] * alongY[y];
      for (let x = 0; x < alongX.length; x++) volume[at++] /= factor * alongX[x];
    }
  }
}

function triple<T>(make: (axis: 0 | 1 | 2) => T): readonly [T, T, T] {
  return [make(0), make(1), make(2)];
}
