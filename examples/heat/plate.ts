import { strided, type Layout } from 'node-nbc';

/** Where a rank's block is in the plate: rows and columns of cells. */
export interface Block {
  row: number;
  column: number;
  height: number;
  width: number;
}

/** The part of `length` cells that belongs to number `index` of `parts`: as equal as can be. */
export function partOf(length: number, parts: number, index: number): [first: number, count: number] {
  const first = Math.floor((length * index) / parts);
  return [first, Math.floor((length * (index + 1)) / parts) - first];
}

/** The block of the rank at these coordinates of the grid. */
export function blockAt(size: readonly number[], dims: readonly number[], coords: readonly number[]): Block {
  const [row, height] = partOf(size[0], dims[0], coords[0]);
  const [column, width] = partOf(size[1], dims[1], coords[1]);
  return { row, column, height, width };
}

/** Temperature of what is beyond the upper edge of the plate; beyond the others it is 0. */
export const HOT = 100;

/**
 * The temperatures of a block, with a ghost layer around it: the cells next to it, which belong to its neighbours, or
 * the surroundings of the plate, which never change. Cell (0, 0) of the block is at row 1, column 1 of the array.
 */
export class Plate {
  readonly stride: number;
  readonly cells: Float64Array;
  /** What the neighbours need, in the order of a grid's neighbours: first row, last row, first column, last column. */
  readonly edges: Layout[];
  /** What comes from them, in the same order. */
  readonly ghosts: Layout[];
  /** The block without the ghost layer. */
  readonly inside: Layout;

  /** @param hot whether the upper edge of the plate is the upper edge of this block */
  constructor(
    readonly height: number,
    readonly width: number,
    hot: boolean,
  ) {
    this.stride = width + 2;
    this.cells = new Float64Array((height + 2) * this.stride);
    if (hot) this.cells.fill(HOT, 0, this.stride);
    const row = (y: number) => this.#part([width], [1], y, 1);
    const column = (x: number) => this.#part([height], [this.stride], 1, x);
    this.edges = [row(1), row(height), column(1), column(width)];
    this.ghosts = [row(0), row(height + 1), column(0), column(width + 1)];
    this.inside = this.#part([height, width], [this.stride, 1], 1, 1);
  }

  #part(shape: number[], strides: number[], y: number, x: number): Layout {
    return strided(this.cells, { shape, strides, offset: y * this.stride + x });
  }
}
