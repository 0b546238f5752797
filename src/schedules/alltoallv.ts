/**
 * All-to-all exchanges of blocks that have sizes and places of their own. With `inPlace` the blocks to send stand in
 * the receive buffer, and are saved in temporary memory first.
 *
 * Source: MPI 4.1, 6.8 (MPI_ALLTOALLV).
 */
import { Role, Schedule } from './schedule.js';
import type { Block, Shape } from './shape.js';

/** Where the block for each rank stands, and where the block of each rank goes; in place, both are the same. */
export interface AlltoallvShape extends Shape {
  readonly sendBlocks: readonly Block[];
  readonly recvBlocks: readonly Block[];
}

/** Copies a rank's own block, or saves all blocks; says where the blocks to send are to be read from. */
function prepare(schedule: Schedule, { rank, inPlace, sendBlocks, recvBlocks }: AlltoallvShape): Role {
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
  const source = prepare(schedule, shape);
  for (let distance = 1; distance < size; distance++) {
    const [from, to] = [(rank - distance + size) % size, (rank + distance) % size];
    schedule.recv(from, Role.RECEIVE, recvBlocks[from].offset, recvBlocks[from].bytes);
    schedule.send(to, source, sendBlocks[to].offset, sendBlocks[to].bytes);
    if (stepwise) schedule.round();
  }
  return schedule;
}
