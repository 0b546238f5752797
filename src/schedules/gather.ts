/**
 * Gathers: a block of every rank to the root, which ends with all of them in the order of the ranks.
 *
 * With `inPlace`, the root's own block already stands where it belongs in the receive buffer.
 *
 * Source: MPI 4.1, 6.5 (MPI_GATHER).
 */
import { gathervLinear } from './gatherv.js';
import { Role, Schedule } from './schedule.js';
import { equalBlocks, type Shape } from './shape.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

/** Every rank sends to the root. */
export function gatherLinear(shape: Shape): Schedule {
  return gathervLinear({ ...shape, blocks: equalBlocks(shape) });
}

/**
 * Up the binomial tree. A rank collects the blocks of its subtree in the order of the virtual ranks, and sends them on
 * as one message.
 */
export function gatherBinomial(shape: Shape): Schedule {
  return shape.rank === shape.root ? gatherAtRoot(shape) : gatherAndPass(shape);
}

function gatherAndPass({ rank, size, root, bytes }: Shape): Schedule {
  const schedule = new Schedule();
  const virtual = toVirtual(rank, root, size);
  const parent = fromVirtual(parentOf(virtual), root, size);
  const children = childrenOf(virtual, size);
  if (children.length === 0) return schedule.send(parent, Role.SEND, 0, bytes);

  let blocks = 1;
  schedule.copy(Role.SEND, 0, Role.TEMP, 0, bytes);
  for (const child of children) {
    const offset = (child.virtual - virtual) * bytes;
    schedule.recv(fromVirtual(child.virtual, root, size), Role.TEMP, offset, child.count * bytes);
    blocks += child.count;
  }
  return schedule.round().send(parent, Role.TEMP, 0, blocks * bytes);
}

/**
 * At the root the blocks of a subtree can go straight to their places, because virtual ranks in a row are ranks in a
 * row: except in the one subtree that runs past the highest rank and goes on at rank 0, which is received into
 * temporary memory and copied.
 */
function gatherAtRoot({ size, root, bytes, inPlace }: Shape): Schedule {
  const schedule = new Schedule();
  if (!inPlace) schedule.copy(Role.SEND, 0, Role.RECEIVE, root * bytes, bytes);
  const children = childrenOf(0, size);
  for (const child of children) {
    const first = fromVirtual(child.virtual, root, size);
    const wraps = first + child.count > size;
    if (wraps) schedule.recv(first, Role.TEMP, 0, child.count * bytes);
    else schedule.recv(first, Role.RECEIVE, first * bytes, child.count * bytes);
  }
  schedule.round();
  for (const child of children) {
    const first = fromVirtual(child.virtual, root, size);
    const beforeWrap = size - first;
    if (child.count <= beforeWrap) continue;
    schedule.copy(Role.TEMP, 0, Role.RECEIVE, first * bytes, beforeWrap * bytes);
    schedule.copy(Role.TEMP, beforeWrap * bytes, Role.RECEIVE, 0, (child.count - beforeWrap) * bytes);
  }
  return schedule;
}
