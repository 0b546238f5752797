import { strided, waitAll, type CartCommunicator, type Layout } from 'node-nbc';
import { blockAt } from './plate.js';

/**
 * Brings the blocks of all ranks together on rank 0, each into its place; null elsewhere. Collective.
 *
 * @param size rows and columns of the whole plate
 */
export function collect(cart: CartCommunicator, size: readonly [number, number], block: Layout): Float64Array | null {
  const sent = cart.isend(block, 0);
  if (cart.rank !== 0) {
    sent.wait();
    return null;
  }
  const plate = new Float64Array(size[0] * size[1]);
  const received = Array.from({ length: cart.size }, (_, rank) => {
    const { row, column, height, width } = blockAt(size, cart.dims, cart.coords(rank));
    const offset = row * size[1] + column;
    return cart.irecv(strided(plate, { shape: [height, width], strides: [size[1], 1], offset }), rank);
  });
  waitAll([sent, ...received]);
  return plate;
}
