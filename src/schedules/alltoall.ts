/**
 * All-to-all exchanges: block j of rank i becomes block i of rank j. A distributed transpose.
 *
 * With `inPlace` the blocks to send stand in the receive buffer. What is still to be sent must not be overwritten, so
 * it is saved in temporary memory first; a rank's own block stays where it is.
 *
 * Source: MPI 4.1, 6.8 (MPI_ALLTOALL); J. Bruck et al., "Efficient Algorithms for All-to-All Communications in
 * Multiport Message-Passing Systems", IEEE TPDS 8(11), 1997.
 */
import { travel } from './bruck.js';
import { Role, Schedule } from './schedule.js';
import type { Shape } from './shape.js';

/** Everything at once. Each rank begins with its next neighbour, so that not all of them write to the same one. */
export function alltoallLinear({ rank, size, bytes, inPlace }: Shape): Schedule {
  const schedule = new Schedule();
  const source = prepare(schedule, rank, size, bytes, inPlace);
  for (let distance = 1; distance < size; distance++) {
    const from = (rank - distance + size) % size;
    const to = (rank + distance) % size;
    schedule.recv(from, Role.RECEIVE, from * bytes, bytes);
    schedule.send(to, source, to * bytes, bytes);
  }
  return schedule;
}

/** In step d every rank sends to the d-th next rank and receives from the d-th previous one. */
export function alltoallPairwise({ rank, size, bytes, inPlace }: Shape): Schedule {
  const schedule = new Schedule();
  const source = prepare(schedule, rank, size, bytes, inPlace);
  for (let distance = 1; distance < size; distance++) {
    const from = (rank - distance + size) % size;
    const to = (rank + distance) % size;
    schedule.recv(from, Role.RECEIVE, from * bytes, bytes);
    schedule.send(to, source, to * bytes, bytes).round();
  }
  return schedule;
}

/**
 * Where the blocks to be sent are to be read from; copies a rank's own block, and what an in-place exchange must save.
 */
function prepare(schedule: Schedule, rank: number, size: number, bytes: number, inPlace: boolean): Role {
  if (!inPlace) {
    schedule.copy(Role.SEND, rank * bytes, Role.RECEIVE, rank * bytes, bytes);
    return Role.SEND;
  }
  const after = (rank + 1) * bytes;
  schedule.copy(Role.RECEIVE, 0, Role.TEMP, 0, rank * bytes);
  schedule.copy(Role.RECEIVE, after, Role.TEMP, after, size * bytes - after);
  schedule.round();
  return Role.TEMP;
}

/**
 * Bruck: a block that has to travel the distance d (from rank i to rank i + d) makes the jumps that the bits of d name.
 *
 *     temp:  | the block for each distance | of travel() |
 */
export function alltoallBruck({ rank, size, bytes, inPlace }: Shape): Schedule {
  const schedule = new Schedule();
  const source = inPlace ? Role.RECEIVE : Role.SEND;
  // The block that has the distance d to go is the one for rank + d.
  schedule.copy(source, rank * bytes, Role.TEMP, 0, (size - rank) * bytes);
  schedule.copy(source, 0, Role.TEMP, (size - rank) * bytes, rank * bytes);
  travel(schedule, rank, size, bytes, 0);
  // What has travelled the distance d is from rank − d.
  for (let distance = 0; distance < size; distance++) {
    const from = (rank - distance + size) % size;
    schedule.copy(Role.TEMP, distance * bytes, Role.RECEIVE, from * bytes, bytes);
  }
  return schedule;
}
