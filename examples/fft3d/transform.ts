import type { Communicator } from 'node-nbc';
import type { Triple } from './geometry.js';
import { Lines } from './lines.js';
import { Slabs, TransposeLayout } from './slab.js';
import { TransposePipeline, type PipelineOptions } from './transpose.js';

export interface TransformOptions extends PipelineOptions {
  /** Planes in one transpose. */
  planes: number;
}

/**
 * The 3D Fourier transform of a real volume, spread over the ranks of a communicator in slabs.
 *
 *     a slab of z           plane by plane: transform x, then y
 *       -> transpose ->     each chunk of planes leaves as soon as it is computed
 *     a slab of y           transform z: the spectrum, in lines along z
 *
 * and backwards the same way. The volume may be smaller than the grid it is transformed on; the rest of the grid counts as zero.
 */
export class ParallelFft3d {
  /** Planes z of the volume that each rank owns. */
  readonly planes: Slabs;
  /** Indices y of the spectrum that each rank owns. */
  readonly rows: Slabs;
  /** Our slab of the spectrum, not scaled: [y in our slab][x][z], complex. */
  readonly spectrum: Float64Array;
  readonly pipeline: TransposePipeline;
  readonly forwardLayout: TransposeLayout;
  readonly backwardLayout: TransposeLayout;
  readonly #rank: number;
  readonly #received: Float64Array;
  /** One plane, transformed along x: [y of the volume][x of the grid], complex. */
  readonly #plane: Float64Array;
  readonly #planeRows: number[];
  readonly #forward: readonly [Lines, Lines, Lines];
  readonly #inverse: readonly [Lines, Lines, Lines];

  /**
   * @param size voxels of the volume
   * @param grid points of the transform: powers of two, none smaller than `size`
   */
  constructor(
    communicator: Pick<Communicator, 'rank' | 'size' | 'ialltoall'>,
    readonly size: Triple,
    readonly grid: Triple,
    options: TransformOptions,
  ) {
    this.#rank = communicator.rank;
    this.planes = new Slabs(size[2], communicator.size);
    this.rows = new Slabs(grid[1], communicator.size);
    const rowLength = 2 * grid[0];
    this.forwardLayout = new TransposeLayout(this.planes, this.rows, rowLength, options.planes);
    this.backwardLayout = new TransposeLayout(this.rows, this.planes, rowLength, options.planes);
    this.pipeline = new TransposePipeline(communicator, [this.forwardLayout, this.backwardLayout], options);
    // Both directions receive as much, and forward's is read before backward's arrives.
    this.#received = options.allocate(this.forwardLayout.receiveLength);
    this.spectrum = new Float64Array(this.rows.width * grid[0] * grid[2] * 2);
    this.#plane = new Float64Array(size[1] * rowLength);
    this.#planeRows = Array.from({ length: size[1] }, (_, y) => y * rowLength);
    const lines = (direction: 'forward' | 'inverse') =>
      [new Lines(grid[0], direction), new Lines(grid[1], direction), new Lines(grid[2], direction)] as const;
    this.#forward = lines('forward');
    this.#inverse = lines('inverse');
  }

  /** Number of transposes that a transform there and back takes. */
  get chunks(): number {
    return this.forwardLayout.chunks + this.backwardLayout.chunks;
  }

  /** Length of a rank's part of the volume: [z in our slab][y][x], real, padded to equal size on all ranks. */
  get slabLength(): number {
    return this.planes.width * this.size[1] * this.size[0];
  }

  /** Transforms `volume`, our slab of it, into `spectrum`. Collective. */
  forward(volume: Float64Array, depth: number): void {
    const [, , alongZ] = this.#forward;
    const [gridX, , gridZ] = this.grid;
    this.pipeline.run(this.forwardLayout, this.#received, depth, (z, send, rows) => {
      if (z < this.planes.count(this.#rank)) this.#forwardPlane(volume, z, send, rows);
    });
    for (let y = 0; y < this.rows.count(this.#rank); y++) {
      const planes = this.forwardLayout.receivedRows(y);
      for (let x = 0; x < gridX; x += alongZ.batch) {
        const count = Math.min(alongZ.batch, gridX - x);
        alongZ.gather(this.#received, planes, x, count);
        alongZ.transformColumnsInto(this.spectrum, (y * gridX + x) * gridZ * 2, count);
      }
    }
  }

  /** Transforms `spectrum` back into `volume`, our slab of it. Collective. */
  backward(volume: Float64Array, depth: number): void {
    const [, , alongZ] = this.#inverse;
    const [gridX, , gridZ] = this.grid;
    this.pipeline.run(this.backwardLayout, this.#received, depth, (y, send, planes) => {
      if (y >= this.rows.count(this.#rank)) return;
      for (let x = 0; x < gridX; x += alongZ.batch) {
        const count = Math.min(alongZ.batch, gridX - x);
        alongZ.transformColumnsFrom(this.spectrum, (y * gridX + x) * gridZ * 2, count);
        alongZ.scatter(send, planes, x, count);
      }
    });
    for (let z = 0; z < this.planes.count(this.#rank); z++) this.#backwardPlane(volume, z);
  }

  #forwardPlane(volume: Float64Array, z: number, send: Float64Array, rows: number[]): void {
    const [alongX, alongY] = this.#forward;
    const [sizeX, sizeY] = this.size;
    const [gridX] = this.grid;
    const line = new Float64Array(gridX);
    for (let y = 0; y < sizeY; y++) {
      const begin = (z * sizeY + y) * sizeX;
      line.set(volume.subarray(begin, begin + sizeX));
      alongX.transformReal(this.#planeRow(y), line);
    }
    for (let x = 0; x < gridX; x += alongY.batch) {
      const count = Math.min(alongY.batch, gridX - x);
      alongY.gather(this.#plane, this.#planeRows, x, count);
      alongY.transformColumns(count);
      alongY.scatter(send, rows, x, count);
    }
  }

  #backwardPlane(volume: Float64Array, z: number): void {
    const [alongX, alongY] = this.#inverse;
    const [sizeX, sizeY] = this.size;
    const [gridX] = this.grid;
    const rows = this.backwardLayout.receivedRows(z);
    for (let x = 0; x < gridX; x += alongY.batch) {
      const count = Math.min(alongY.batch, gridX - x);
      alongY.gather(this.#received, rows, x, count);
      alongY.transformColumns(count);
      alongY.scatter(this.#plane, this.#planeRows, x, count);
    }
    const line = new Float64Array(2 * gridX);
    for (let y = 0; y < sizeY; y++) {
      alongX.transform(line, this.#planeRow(y));
      const begin = (z * sizeY + y) * sizeX;
      for (let x = 0; x < sizeX; x++) volume[begin + x] = line[2 * x];
    }
  }

  #planeRow(y: number): Float64Array {
    return this.#plane.subarray(this.#planeRows[y], this.#planeRows[y] + 2 * this.grid[0]);
  }
}
