import type { Communicator } from 'node-nbc';
import type { Triple } from './geometry.js';
import { Lines } from './lines.js';
import type { Floats } from './precision.js';
import { RealLines } from './real.js';
import { Slabs, TransposeLayout } from './slab.js';
import { TransposePipeline, type CommunicationTimes, type PipelineOptions } from './transpose.js';

export interface TransformOptions extends PipelineOptions {
  /** Planes in one transpose. */
  planes: number;
  /** Most volumes that are sent in one direction before the first of them is received. */
  ahead: number;
}

/**
 * The 3D Fourier transform of real volumes, spread over the ranks of a communicator in slabs. There and back are two
 * steps each, with a transpose that travels by itself between them:
 *
 *     sendForward        a slab of z: plane by plane, transform x, then y; each chunk of planes leaves as soon as it is
 *                        computed
 *     receiveForward     a slab of y: transform z. The spectrum, in lines along z
 *     sendBackward       a slab of y: transform z back; each chunk of rows leaves as soon as it is computed
 *     receiveBackward    a slab of z: transform y, then x back
 *
 * Whatever else there is to compute, of another volume say, can be computed between the steps (smooth.ts). Up to
 * `ahead` volumes may be on their way in each direction.
 *
 * A real volume's spectrum is its own mirror image, so only x frequencies 0 to half the grid are computed, stored and
 * sent. The volume may be smaller than the grid it is transformed on; the rest of the grid counts as zero.
 */
export class ParallelFft3d {
  /** Planes z of the volume that each rank owns. */
  readonly planes: Slabs;
  /** Indices y of the spectrum that each rank owns. */
  readonly rows: Slabs;
  /** Frequencies along x. */
  readonly columns: number;
  /** Our slab of the spectrum, not scaled: [y in our slab][x][z], complex. */
  readonly spectrum: Float64Array;
  /** Of all transposes. */
  readonly times: CommunicationTimes = { start: 0, test: 0, wait: 0 };
  readonly #forward: TransposePipeline;
  readonly #backward: TransposePipeline;
  readonly #test: boolean;
  readonly #rank: number;
  /** One plane, transformed along x: [y of the volume][x], complex. */
  readonly #plane: Float64Array;
  readonly #planeRows: number[];
  readonly #alongX: RealLines;
  /** Along y and z. */
  readonly #there: readonly [Lines, Lines];
  readonly #back: readonly [Lines, Lines];

  /**
   * @param size voxels of the volume
   * @param grid points of the transform: powers of two, none smaller than `size`
   */
  constructor(
    communicator: Pick<Communicator, 'rank' | 'size' | 'ialltoallw'>,
    readonly size: Triple,
    readonly grid: Triple,
    options: TransformOptions,
  ) {
    const [gridX, gridY, gridZ] = grid;
    this.#rank = communicator.rank;
    this.#test = options.test;
    this.planes = new Slabs(size[2], communicator.size);
    this.rows = new Slabs(gridY, communicator.size);
    this.#alongX = new RealLines(gridX, size[0]);
    this.columns = this.#alongX.columns;
    const rowLength = 2 * this.columns;
    const pipeline = (from: Slabs, to: Slabs) => {
      const layout = this.layoutOf(communicator.rank, from, to, rowLength, options.planes);
      return new TransposePipeline(communicator, layout, options.ahead, this.times, options);
    };
    this.#forward = pipeline(this.planes, this.rows);
    this.#backward = pipeline(this.rows, this.planes);
    this.spectrum = new Float64Array(this.rows.width * this.columns * gridZ * 2);
    this.#plane = new Float64Array(size[1] * rowLength);
    this.#planeRows = Array.from({ length: size[1] }, (_, y) => y * rowLength);
    this.#there = [new Lines(gridY, 'forward'), new Lines(gridZ, 'forward')];
    this.#back = [new Lines(gridY, 'inverse'), new Lines(gridZ, 'inverse')];
  }

  /** Where the rows of a transpose are. Called by the constructor. */
  protected layoutOf(...of: ConstructorParameters<typeof TransposeLayout>): TransposeLayout {
    return new TransposeLayout(...of);
  }

  /** Number of transposes that a transform there and back takes. */
  get chunks(): number {
    return this.#forward.layout.chunks + this.#backward.layout.chunks;
  }

  /** Most bytes that a rank sends another in one transpose. */
  get blockBytes(): number {
    return this.#forward.blockBytes;
  }

  /** Length of a rank's part of the volume: [z in our slab][y][x], real, padded to equal size on all ranks. */
  get slabLength(): number {
    return this.planes.width * this.size[1] * this.size[0];
  }

  /** Sets the times to zero. */
  resetTimes(): void {
    Object.assign(this.times, { start: 0, test: 0, wait: 0 });
  }

  /**
   * Transforms `volume`, our slab of it, along x and y, and sends it. Collective.
   *
   * @param depth transposes in flight, 0 to `maxDepth`; 0: they have all arrived when this returns
   */
  sendForward(volume: Float64Array, depth: number): void {
    this.#forward.send(depth, (z, target, rows) => {
      this.#forwardPlane(volume, z, target, rows);
      this.#testAll();
    });
  }

  /** Waits for the volume that was sent forward next, and transforms it along z: the spectrum is there. */
  receiveForward(): void {
    const received = this.#forward.receive();
    const [, alongZ] = this.#there;
    for (let y = 0; y < this.rows.count(this.#rank); y++) {
      const planes = this.#forward.layout.receivedRows(y);
      this.#batches(alongZ, (x, count) => {
        alongZ.gather(received, planes, x, count);
        alongZ.transformColumnsInto(this.spectrum, this.#column(x, y), count);
      });
      this.#testAll();
    }
  }

  /** Transforms the spectrum back along z, and sends it. Collective. `depth` as above. */
  sendBackward(depth: number): void {
    const [, alongZ] = this.#back;
    this.#backward.send(depth, (y, target, planes) => {
      this.#batches(alongZ, (x, count) => {
        alongZ.transformColumnsFrom(this.spectrum, this.#column(x, y), count);
        alongZ.scatter(target, planes, x, count);
      });
      this.#testAll();
    });
  }

  /** Waits for the volume that was sent back next, and transforms it along y and x into `volume`, our slab of it. */
  receiveBackward(volume: Float64Array): void {
    const received = this.#backward.receive();
    for (let z = 0; z < this.planes.count(this.#rank); z++) {
      this.#backwardPlane(received, volume, z);
      this.#testAll();
    }
  }

  #forwardPlane(volume: Float64Array, z: number, target: Floats, rows: number[]): void {
    const [alongY] = this.#there;
    this.#pairs(z, (a, b, rowA, rowB) => this.#alongX.forward(volume, a, b, this.#plane, rowA, rowB));
    this.#batches(alongY, (x, count) => {
      alongY.gather(this.#plane, this.#planeRows, x, count);
      alongY.transformColumns(count);
      alongY.scatter(target, rows, x, count);
    });
  }

  #backwardPlane(received: Floats, volume: Float64Array, z: number): void {
    const [alongY] = this.#back;
    const rows = this.#backward.layout.receivedRows(z);
    this.#batches(alongY, (x, count) => {
      alongY.gather(received, rows, x, count);
      alongY.transformColumns(count);
      alongY.scatter(this.#plane, this.#planeRows, x, count);
    });
    this.#pairs(z, (a, b, rowA, rowB) => this.#alongX.inverse(this.#plane, rowA, rowB, volume, a, b));
  }

  /** The rows of plane z, two by two, in the volume and in the plane. An odd last one is its own neighbour. */
  #pairs(z: number, transform: (a: number, b: number, rowA: number, rowB: number) => void): void {
    const [sizeX, sizeY] = this.size;
    for (let y = 0; y < sizeY; y += 2) {
      const other = Math.min(y + 1, sizeY - 1);
      const [a, b] = [(z * sizeY + y) * sizeX, (z * sizeY + other) * sizeX];
      transform(a, b, this.#planeRows[y], this.#planeRows[other]);
    }
  }

  #batches(lines: Lines, transform: (x: number, count: number) => void): void {
    for (let x = 0; x < this.columns; x += lines.batch) transform(x, Math.min(lines.batch, this.columns - x));
  }

  /** Where a line along z is in the spectrum. */
  #column(x: number, y: number): number {
    return (y * this.columns + x) * this.grid[2] * 2;
  }

  #testAll(): void {
    if (!this.#test) return;
    this.#forward.test();
    this.#backward.test();
  }
}
