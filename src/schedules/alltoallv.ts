/**
 * All-to-all exchanges of blocks that have sizes and places of their own. With `inPlace` the blocks to send stand in
 * the receive buffer, and are saved in temporary memory first.
 *
 * Source: MPI 4.1, 6.8 (MPI_ALLTOALLV); K. Fan et al., "Optimizing the Bruck Algorithm for Non-uniform All-to-all
 * Communication", 2022 (padded Bruck).
 */
import { travel } from './bruck.js';
import { type AlltoallvShape, exchangeRest, prepareAlltoallv } from './exchange.js';
import { Role, Schedule } from './schedule.js';
import { endOf } from './shape.js';

/** Everything at once. Each rank begins with its next neighbour, so that not all of them write to the same one. */
export function alltoallvLinear(shape: AlltoallvShape): Schedule {
  return exchange(shape, false);
}

/** In step d every rank sends to the d-th next rank and receives from the d-th previous one. */
export function alltoallvPairwise(shape: AlltoallvShape): Schedule {
  return exchange(shape, true);
}

function exchange(shape: AlltoallvShape, stepwise: boolean): Schedule {
  const { rank, size, sendBlocks, recvBlocks } = shape;
  const schedule = new Schedule();
  const source = prepareAlltoallv(schedule, shape);
  for (let distance = 1; distance < size; distance++) {
    const [from, to] = [(rank - distance + size) % size, (rank + distance) % size];
    schedule.recv(from, Role.RECEIVE, recvBlocks[from].offset, recvBlocks[from].bytes);
    schedule.send(to, source, sendBlocks[to].offset, sendBlocks[to].bytes);
    if (stepwise) schedule.round();
  }
  return schedule;
}

/** Bytes of a block that travel in slots of this size, which all ranks agree on; what is longer goes straight. */
export const ALLTOALLV_SLOT_BYTES = 256;

/**
 * Bruck's algorithm needs blocks of one size: a rank does not know the sizes of the blocks that it passes on. So every
 * block travels in a slot of fixed size. Only what does not fit into its slot goes straight to its rank; both ranks
 * know that.
 *
 *     temp:  | in place: saved blocks | the slot for each distance | of travel() |
 */
export function alltoallvBruck(shape: AlltoallvShape): Schedule {
  const { rank, size, inPlace, sendBlocks, recvBlocks } = shape;
  const schedule = new Schedule();
  const source = prepareAlltoallv(schedule, shape);
  const slots = inPlace ? endOf(sendBlocks) : 0;
  const slot = ALLTOALLV_SLOT_BYTES;
  const others = Array.from({ length: size - 1 }, (_, index) => (rank + 1 + index) % size);
  for (const [index, to] of others.entries()) {
    const { offset, bytes } = sendBlocks[to];
    schedule.copy(source, offset, Role.TEMP, slots + (1 + index) * slot, Math.min(bytes, slot));
  }
  exchangeRest(schedule, shape, source, slot, others);
  schedule.round();
  travel(schedule, rank, size, slot, slots);
  for (const [index, from] of others.reverse().entries()) {
    const { offset, bytes } = recvBlocks[from];
    schedule.copy(Role.TEMP, slots + (1 + index) * slot, Role.RECEIVE, offset, Math.min(bytes, slot));
  }
  return schedule;
}
