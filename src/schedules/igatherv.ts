/**
 * igatherv: a block from everybody to the root, each of a size of its own and to a place of its own.
 *
 * Only the root knows all sizes, so there is one algorithm: everybody sends to the root.
 *
 * Source: MPI 3.1, 5.12.3 (MPI_IGATHERV); as in LibNBC.
 */
import { Role, Schedule } from './schedule.js';

/** A part of the root's receive buffer, in bytes. */
export interface Block {
  offset: number;
  bytes: number;
}

/** The schedule of a rank that is not the root, and sends `bytes`. */
export function igathervSend(root: number, bytes: number): Schedule {
  return new Schedule().send(root, Role.SEND, 0, bytes);
}

/** The schedule of the root; with `inPlace` its own block stands where it belongs. */
export function igathervRoot(root: number, blocks: readonly Block[], inPlace = false): Schedule {
  const schedule = new Schedule();
  const own = blocks[root];
  if (!inPlace) schedule.copy(Role.SEND, 0, Role.RECEIVE, own.offset, own.bytes);
  for (let distance = 1; distance < blocks.length; distance++) {
    const peer = (root + distance) % blocks.length;
    schedule.recv(peer, Role.RECEIVE, blocks[peer].offset, blocks[peer].bytes);
  }
  return schedule;
}
