/**
 * Scatters: a block of the root's buffer to every rank. With `inPlace` the root's own block stays where it is.
 *
 * Source: MPI 4.1, 6.6 (MPI_SCATTER, MPI_SCATTERV).
 */
import { Role, Schedule } from './schedule.js';
import { type Block, equalBlocks, type Shape } from './shape.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

/** At the root, where the block of each rank stands; elsewhere `bytes` is what the rank receives. */
export interface ScattervShape extends Shape {
  readonly blocks: readonly Block[];
}

/** The root sends to every rank. */
export function scattervLinear({ rank, size, root, bytes, inPlace, blocks }: ScattervShape): Schedule {
  const schedule = new Schedule();
  if (rank !== root) return schedule.recv(root, Role.RECEIVE, 0, bytes);
  if (!inPlace) schedule.copy(Role.SEND, blocks[root].offset, Role.RECEIVE, 0, blocks[root].bytes);
  for (let distance = 1; distance < size; distance++) {
    const peer = (root + distance) % size;
    schedule.send(peer, Role.SEND, blocks[peer].offset, blocks[peer].bytes);
  }
  return schedule;
}

/** The root sends to every rank. */
export function scatterLinear(shape: Shape): Schedule {
  return scattervLinear({ ...shape, blocks: equalBlocks(shape) });
}

/** Down the binomial tree: a rank receives the blocks of its subtree and sends those of each child on. */
export function scatterBinomial(shape: Shape): Schedule {
  return shape.rank === shape.root ? scatterFromRoot(shape) : scatterOn(shape);
}

function scatterOn({ rank, size, root, bytes }: Shape): Schedule {
  const schedule = new Schedule();
  const virtual = toVirtual(rank, root, size);
  const parent = fromVirtual(parentOf(virtual), root, size);
  const children = childrenOf(virtual, size);
  if (children.length === 0) return schedule.recv(parent, Role.RECEIVE, 0, bytes);
  const blocks = 1 + children.reduce((sum, { count }) => sum + count, 0);
  schedule.recv(parent, Role.TEMP, 0, blocks * bytes).round();
  for (const child of children.reverse()) {
    const offset = (child.virtual - virtual) * bytes;
    schedule.send(fromVirtual(child.virtual, root, size), Role.TEMP, offset, child.count * bytes);
  }
  return schedule.copy(Role.TEMP, 0, Role.RECEIVE, 0, bytes);
}

/** The blocks of a subtree stand in a row, except in the one subtree that goes on at rank 0: it is packed first. */
function scatterFromRoot({ size, root, bytes, inPlace }: Shape): Schedule {
  const schedule = new Schedule();
  const children = childrenOf(0, size).reverse();
  const wraps = ({ virtual, count }: { virtual: number; count: number }): boolean =>
    fromVirtual(virtual, root, size) + count > size;
  for (const child of children.filter(wraps)) {
    const first = fromVirtual(child.virtual, root, size);
    const beforeWrap = size - first;
    schedule.copy(Role.SEND, first * bytes, Role.TEMP, 0, beforeWrap * bytes);
    schedule.copy(Role.SEND, 0, Role.TEMP, beforeWrap * bytes, (child.count - beforeWrap) * bytes);
  }
  schedule.round();
  for (const child of children) {
    const first = fromVirtual(child.virtual, root, size);
    if (wraps(child)) schedule.send(first, Role.TEMP, 0, child.count * bytes);
    else schedule.send(first, Role.SEND, first * bytes, child.count * bytes);
  }
  if (!inPlace) schedule.copy(Role.SEND, root * bytes, Role.RECEIVE, 0, bytes);
  return schedule;
}
