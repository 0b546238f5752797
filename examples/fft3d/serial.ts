import { cfft, cifft } from 'fourier-transform';
import { product, type Triple, type Volume } from './geometry.js';

/**
 * The same filter by one process, to check the parallel one against. It shares as little with it as possible: another
 * library for the 1D transforms, real and imaginary parts in arrays of their own, padding stored in full, no slabs, no
 * batches.
 */
export class SerialFft3d {
  readonly re: Float64Array;
  readonly im: Float64Array;

  /** @param grid points of the transform: powers of two, none smaller than the volume */
  constructor(
    readonly volume: Volume,
    readonly grid: Triple,
  ) {
    const [sizeX, sizeY, sizeZ] = volume.size;
    this.re = new Float64Array(product(grid));
    this.im = new Float64Array(product(grid));
    for (let z = 0; z < sizeZ; z++) {
      for (let y = 0; y < sizeY; y++) {
        const begin = (z * sizeY + y) * sizeX;
        this.re.set(volume.data.subarray(begin, begin + sizeX), this.index(0, y, z));
      }
    }
  }

  /** Where point (x, y, z) of the grid is in `re` and `im`. */
  index(x: number, y: number, z: number): number {
    return (z * this.grid[1] + y) * this.grid[0] + x;
  }

  /** From space to frequencies, not scaled. */
  forward(): void {
    this.#transform(cfft);
  }

  /** From frequencies to space. */
  inverse(): void {
    this.#transform(cifft);
  }

  /** Multiplies every frequency by exp(−2π²σ²|f|²). `sigma` in mm. */
  filter(sigma: number): void {
    const [gridX, gridY, gridZ] = this.grid;
    const [voxelX, voxelY, voxelZ] = this.volume.voxel;
    const frequency = (index: number, points: number, voxel: number) =>
      (index < points / 2 ? index : index - points) / (points * voxel);
    for (let z = 0; z < gridZ; z++) {
      for (let y = 0; y < gridY; y++) {
        const yz = frequency(z, gridZ, voxelZ) ** 2 + frequency(y, gridY, voxelY) ** 2;
        for (let x = 0; x < gridX; x++) {
          const factor = Math.exp(-2 * Math.PI ** 2 * sigma ** 2 * (frequency(x, gridX, voxelX) ** 2 + yz));
          const at = this.index(x, y, z);
          this.re[at] *= factor;
          this.im[at] *= factor;
        }
      }
    }
  }

  /** The real part where the volume is: [z][y][x]. */
  crop(): Float64Array {
    const [sizeX, sizeY, sizeZ] = this.volume.size;
    const result = new Float64Array(product(this.volume.size));
    for (let z = 0; z < sizeZ; z++) {
      for (let y = 0; y < sizeY; y++) {
        const begin = this.index(0, y, z);
        result.set(this.re.subarray(begin, begin + sizeX), (z * sizeY + y) * sizeX);
      }
    }
    return result;
  }

  #transform(transform: (re: Float64Array, im: Float64Array) => void): void {
    const [gridX, gridY, gridZ] = this.grid;
    const lines = (points: number, stride: number, begins: Iterable<number>) => {
      const [re, im] = [new Float64Array(points), new Float64Array(points)];
      for (const begin of begins) {
        for (let index = 0; index < points; index++) {
          re[index] = this.re[begin + index * stride];
          im[index] = this.im[begin + index * stride];
        }
        transform(re, im);
        for (let index = 0; index < points; index++) {
          this.re[begin + index * stride] = re[index];
          this.im[begin + index * stride] = im[index];
        }
      }
    };
    lines(gridX, 1, range(0, this.re.length, gridX));
    for (let z = 0; z < gridZ; z++) lines(gridY, gridX, range(z * gridX * gridY, z * gridX * gridY + gridX, 1));
    lines(gridZ, gridX * gridY, range(0, gridX * gridY, 1));
  }
}

function* range(begin: number, end: number, step: number): Generator<number> {
  for (let value = begin; value < end; value += step) yield value;
}
