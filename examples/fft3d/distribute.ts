import { waitAll, type Communicator } from 'node-nbc';
import type { Slabs } from './slab.js';

/**
 * Hands out a volume on rank 0 in slabs of planes. Collective.
 *
 * @param data the whole volume on rank 0, null elsewhere
 * @param plane numbers in a plane
 * @returns our planes, with zeros for those that only pad the last slabs
 */
export function scatterSlabs(
  world: Communicator,
  data: Float64Array | null,
  planes: Slabs,
  plane: number,
): Float64Array {
  const slab = new Float64Array(planes.width * plane);
  const part = (rank: number) =>
    data!.subarray(planes.first(rank) * plane, (planes.first(rank) + planes.count(rank)) * plane);
  if (world.rank === 0) {
    const others = Array.from({ length: world.size - 1 }, (_, index) => index + 1);
    const requests = others.filter((rank) => planes.count(rank) > 0).map((rank) => world.isend(part(rank), rank));
    slab.set(part(0));
    waitAll(requests);
  } else if (planes.count(world.rank) > 0) {
    world.irecv(slab.subarray(0, planes.count(world.rank) * plane), 0).wait();
  }
  return slab;
}

/** Brings equal parts of all ranks together on rank 0, in the order of the ranks; null elsewhere. Collective. */
export function gather(world: Communicator, part: Float64Array): Float64Array | null {
  const all = world.rank === 0 ? new Float64Array(world.size * part.length) : null;
  world.igather(part, all, 0).wait();
  return all;
}

/** Gives every rank the numbers of rank 0. Collective. */
export function broadcast(world: Communicator, numbers: Float64Array): Float64Array {
  world.ibcast(numbers, 0).wait();
  return numbers;
}

/** Returns when every rank is here: an alltoall of one byte to each. Collective. */
export function barrier(world: Communicator): void {
  world.ialltoall(new Uint8Array(world.size), new Uint8Array(world.size)).wait();
}
