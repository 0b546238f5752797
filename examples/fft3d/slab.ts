/**
 * Who owns what, before and after a transposition. Pure arithmetic: no communication, no data.
 *
 * A dimension is cut into slabs of equal width, one a rank. Where its length is not divisible by the number of ranks,
 * the last slabs are partly (or wholly) padding: it travels with the rest, because an alltoall moves equal blocks, but
 * no rank reads it.
 */
export class Slabs {
  /** Indices a rank has room for; the last ranks may own fewer. */
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

/**
 * The memory layout of one pipelined transposition of *rows*, runs of complex numbers along x that stay together.
 *
 * Before it a rank owns a slab of `from` and, within it, every index of `to`; afterwards the reverse. The slab goes out
 * in chunks of at most `chunk` indices of `from`, one `ialltoall` each:
 *
 *     sent by a rank     [destination][index in chunk][index in the destination's slab of `to`][row]
 *     received by a rank [chunk][source][index in chunk][index in our slab of `to`][row]
 *
 * so that a chunk is received in its final place and nothing is copied after it arrived. All offsets and lengths are in
 * doubles.
 */
export class TransposeLayout {
  readonly chunks: number;
  readonly receiveLength: number;

  constructor(
    readonly from: Slabs,
    readonly to: Slabs,
    readonly rowLength: number,
    readonly chunk: number,
  ) {
    this.chunks = Math.ceil(from.width / chunk);
    this.receiveLength = from.ranks * from.width * to.width * rowLength;
  }

  /** Indices of `from` in a chunk: `chunk`, but for the last. */
  sizeOf(chunk: number): number {
    return Math.min(this.chunk, this.from.width - chunk * this.chunk);
  }

  /** Length of what a rank sends, and of what it receives, in a chunk. */
  lengthOf(chunk: number): number {
    return this.from.ranks * this.sizeOf(chunk) * this.to.width * this.rowLength;
  }

  /** Where a chunk begins in the receive buffer. */
  receiveOffset(chunk: number): number {
    return chunk * this.lengthOf(0);
  }

  /** Where the row of each index of `to` goes in the send buffer of a chunk, for the chunk's `nth` index of `from`. */
  sendRows(chunk: number, nth: number): number[] {
    const { to, rowLength } = this;
    const size = this.sizeOf(chunk);
    return Array.from({ length: to.length }, (_, index) => {
      const destination = Math.floor(index / to.width);
      return ((destination * size + nth) * to.width + (index % to.width)) * rowLength;
    });
  }

  /** Where the row of each index of `from` is in the receive buffer, for the `nth` index of our slab of `to`. */
  receivedRows(nth: number): number[] {
    const { from, to, rowLength } = this;
    return Array.from({ length: from.length }, (_, index) => {
      const source = Math.floor(index / from.width);
      const inSlab = index % from.width;
      const chunk = Math.floor(inSlab / this.chunk);
      const row = (source * this.sizeOf(chunk) + (inSlab % this.chunk)) * to.width + nth;
      return this.receiveOffset(chunk) + row * rowLength;
    });
  }
}
