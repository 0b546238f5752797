/**
 * Gathers of blocks that have sizes and places of their own. Only the root knows all sizes.
 *
 * Source: MPI 4.1, 6.5 (MPI_GATHERV).
 */
import { Role, Schedule } from './schedule.js';
import type { Block, Shape } from './shape.js';

/** At the root, where the block of each rank goes; elsewhere `bytes` is what the rank sends. */
export interface GathervShape extends Shape {
  readonly blocks: readonly Block[];
}

/** Every rank sends to the root. With `inPlace` the root's own block stands where it belongs. */
export function gathervLinear({ rank, size, root, bytes, inPlace, blocks }: GathervShape): Schedule {
  const schedule = new Schedule();
  if (rank !== root) return schedule.send(root, Role.SEND, 0, bytes);
  if (!inPlace) schedule.copy(Role.SEND, 0, Role.RECEIVE, blocks[root].offset, blocks[root].bytes);
  for (let distance = 1; distance < size; distance++) {
    const peer = (root + distance) % size;
    schedule.recv(peer, Role.RECEIVE, blocks[peer].offset, blocks[peer].bytes);
  }
  return schedule;
}
