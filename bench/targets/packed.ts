/**
 * The 3D FFT of examples/fft3d with a packing loop: rows are computed into the order in which an `ialltoall` sends
 * them, and read from the order in which it receives them. It needs slabs of equal width, and chunks that fill them.
 *
 *     sent by a rank     [destination][index in chunk][index in the destination's slab of `to`][row]
 *     received by a rank [chunk][source][index in chunk][index in our slab of `to`][row]
 */
import type { Communicator, Data, Layout, Request } from 'node-nbc';
import { type Box, TransposeLayout } from '../../examples/fft3d/slab.js';
import { ParallelFft3d } from '../../examples/fft3d/transform.js';

class PackedLayout extends TransposeLayout {
  /** Length of what a rank sends another in a chunk. */
  private get block(): number {
    return this.chunk * this.to.width * this.rowLength;
  }

  override sendBox(_chunk: number, rank: number): Box {
    return { shape: [this.block], strides: [1], offset: rank * this.block };
  }

  override receiveRange(chunk: number, rank: number): [begin: number, end: number] {
    const begin = (chunk * this.from.ranks + rank) * this.block;
    return [begin, begin + this.block];
  }

  override sendRows(nth: number): number[] {
    const { to, rowLength } = this;
    return Array.from({ length: to.length }, (_, index) => {
      const destination = Math.floor(index / to.width);
      return destination * this.block + (nth * to.width + (index % to.width)) * rowLength;
    });
  }

  override receivedRows(nth: number): number[] {
    const { from, to, rowLength } = this;
    return Array.from({ length: from.length }, (_, index) => {
      const inSlab = index % from.width;
      const [begin] = this.receiveRange(Math.floor(inSlab / this.chunk), Math.floor(index / from.width));
      return begin + ((inSlab % this.chunk) * to.width + nth) * rowLength;
    });
  }
}

export class PackedFft3d extends ParallelFft3d {
  protected override layoutOf(...of: ConstructorParameters<typeof TransposeLayout>): TransposeLayout {
    return new PackedLayout(...of);
  }
}

/** Parts that lie one behind the other are the blocks of an ialltoall. */
export function asAlltoall(world: Communicator): Pick<Communicator, 'rank' | 'size' | 'ialltoallw'> {
  const whole = (parts: ArrayLike<Data | null>): Float64Array => {
    const views = Array.from(parts, (part) => part as Float64Array | Layout);
    const [first] = views;
    const length = views.reduce((sum, part) => sum + part.length, 0);
    if ('view' in first) return (first.view as Float64Array).subarray(first.offset, first.offset + length);
    return new Float64Array(first.buffer as ArrayBuffer, first.byteOffset, length);
  };
  return {
    rank: world.rank,
    size: world.size,
    ialltoallw: (sends: unknown, recvs: ArrayLike<Data | null>): Request =>
      world.ialltoall(whole(sends as ArrayLike<Data>), whole(recvs)),
  };
}
