/**
 * Who owns what, before and after a transposition. Pure arithmetic: no communication, no data.
 *
 * A dimension is cut into slabs of equal width, one a rank. Where its length is not divisible by the number of ranks,
 * the last slabs are narrower, or empty.
 */
export class Slabs {
  /** Indices of the widest slab; the last ranks may own fewer. */
  readonly width: number;

  constructor(
    readonly length: number,
    readonly ranks: number,
  ) {
    this.width = Math.ceil(length / ranks);
  }

  /** First index that `rank` owns. */
  first(rank: number): number {
    return Math.min(rank * this.width, this.length);
  }

  /** How many indices `rank` owns. */
  count(rank: number): number {
    return Math.min(this.width, this.length - this.first(rank));
  }
}

/** An n-dimensional box inside an array: what `strided` of node-nbc takes. */
export interface Box {
  shape: number[];
  strides: number[];
  offset: number;
}

/**
 * The memory layout of one pipelined transposition of *rows*, runs of complex numbers along x that stay together.
 *
 * Before it a rank owns a slab of `from` and, within it, every index of `to`; afterwards the reverse. The slab goes out
 * in chunks of at most `chunk` indices of `from`, one `ialltoallw` each. Both sides have their data in the order in
 * which they compute:
 *
 *     sent by a rank     [index in chunk][index of `to`][row]
 *     received by a rank [index of `from`][index in our slab of `to`][row]
 *
 * so nothing is copied before it is sent, or after it arrived. All offsets and lengths are in doubles.
 */
export class TransposeLayout {
  readonly chunks: number;
  /** Length of the buffer that a chunk is computed into. */
  readonly sendLength: number;
  readonly receiveLength: number;

  constructor(
    readonly rank: number,
    readonly from: Slabs,
    readonly to: Slabs,
    readonly rowLength: number,
    readonly chunk: number,
  ) {
    this.chunks = Math.ceil(from.width / chunk);
    this.sendLength = Math.min(chunk, from.width) * to.length * rowLength;
    this.receiveLength = from.length * to.count(rank) * rowLength;
  }

  /** Indices of `from` that a rank has in a chunk: `chunk`, but for the last ones. */
  sizeOf(chunk: number, rank = this.rank): number {
    return Math.max(0, Math.min(this.chunk, this.from.count(rank) - chunk * this.chunk));
  }

  /** What goes to a rank, in the send buffer of a chunk. */
  sendBox(chunk: number, rank: number): Box {
    const { to, rowLength } = this;
    return {
      shape: [this.sizeOf(chunk), to.count(rank) * rowLength],
      strides: [to.length * rowLength, 1],
      offset: to.first(rank) * rowLength,
    };
  }

  /** Where what a rank sends in a chunk goes, in the receive buffer. */
  receiveRange(chunk: number, rank: number): [begin: number, end: number] {
    const plane = this.to.count(this.rank) * this.rowLength;
    const first = this.from.first(rank) + Math.min(chunk * this.chunk, this.from.count(rank));
    return [first * plane, (first + this.sizeOf(chunk, rank)) * plane];
  }

  /** Where the row of each index of `to` goes in the send buffer of a chunk, for the chunk's `nth` index of `from`. */
  sendRows(nth: number): number[] {
    const { to, rowLength } = this;
    return Array.from({ length: to.length }, (_, index) => (nth * to.length + index) * rowLength);
  }

  /** Where the row of each index of `from` is in the receive buffer, for the `nth` index of our slab of `to`. */
  receivedRows(nth: number): number[] {
    const { from, to, rank, rowLength } = this;
    return Array.from({ length: from.length }, (_, index) => (index * to.count(rank) + nth) * rowLength);
  }
}
