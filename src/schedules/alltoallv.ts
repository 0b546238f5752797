/**
 * All-to-all exchanges of blocks that have sizes and places of their own. With `inPlace` the blocks to send stand in
 * the receive buffer, and are saved in temporary memory first.
 *
 * Source: MPI 4.1, 6.8 (MPI_ALLTOALLV).
 */
import { alltoallBruck } from './alltoall.js';
import { appendPart } from './part.js';
import { Role, Schedule } from './schedule.js';
import { type Block, endOf, type Shape } from './shape.js';

/** Where the block for each rank stands, and where the block of each rank goes; in place, both are the same. */
export interface AlltoallvShape extends Shape {
  readonly sendBlocks: readonly Block[];
  readonly recvBlocks: readonly Block[];
}

/** Copies a rank's own block, or saves all blocks; says where the blocks to send are to be read from. */
export function prepareAlltoallv(schedule: Schedule, { rank, inPlace, sendBlocks, recvBlocks }: AlltoallvShape): Role {
  const own = sendBlocks[rank];
  if (!inPlace) {
    schedule.copy(Role.SEND, own.offset, Role.RECEIVE, recvBlocks[rank].offset, own.bytes);
    return Role.SEND;
  }
  for (const { offset, bytes } of sendBlocks) schedule.copy(Role.RECEIVE, offset, Role.TEMP, offset, bytes);
  schedule.round();
  return Role.TEMP;
}

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
 * block travels in a slot of fixed size. Only what does not fit into its slot goes straight to its rank, both of which
 * know that.
 *
 *     temp:  | in place: saved blocks | slots to send | slots received | of Bruck's algorithm
 */
export function alltoallvBruck(shape: AlltoallvShape): Schedule {
  const { rank, size, inPlace, sendBlocks, recvBlocks } = shape;
  const slot = ALLTOALLV_SLOT_BYTES;
  const schedule = new Schedule();
  const source = prepareAlltoallv(schedule, shape);
  const saved = inPlace ? endOf(sendBlocks) : 0;
  const [out, into, rest] = [saved, saved + size * slot, saved + 2 * size * slot];
  const others = [...sendBlocks.keys()].filter((peer) => peer !== rank);

  for (const to of others) {
    const { offset, bytes } = sendBlocks[to];
    schedule.copy(source, offset, Role.TEMP, out + to * slot, Math.min(bytes, slot));
  }
  exchangeRest(schedule, shape, source, slot, others);
  const slots = alltoallBruck({ ...shape, bytes: slot, inPlace: false });
  const temp = (offset: number): { role: Role; offset: number } => ({ role: Role.TEMP, offset });
  appendPart(schedule, slots, { ranks: [...sendBlocks.keys()], places: [temp(out), temp(into), temp(rest)] });
  for (const from of others) {
    const { offset, bytes } = recvBlocks[from];
    schedule.copy(Role.TEMP, into + from * slot, Role.RECEIVE, offset, Math.min(bytes, slot));
  }
  return schedule;
}

/** Exchanges what of the blocks of these ranks does not fit into slots. */
export function exchangeRest(
  schedule: Schedule,
  { sendBlocks, recvBlocks }: AlltoallvShape,
  source: Role,
  slot: number,
  others: readonly number[],
): void {
  for (const peer of others) {
    const [out, into] = [sendBlocks[peer], recvBlocks[peer]];
    if (into.bytes > slot) schedule.recv(peer, Role.RECEIVE, into.offset + slot, into.bytes - slot);
    if (out.bytes > slot) schedule.send(peer, source, out.offset + slot, out.bytes - slot);
  }
}
