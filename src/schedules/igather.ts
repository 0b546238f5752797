/**
 * igather: a block from everybody to the root, which ends up with all of them in the order of the ranks.
 *
 * With `inPlace`, the root's own block already stands where it belongs in the receive buffer.
 *
 * Source: MPI 3.1, 5.12.3 (MPI_IGATHER); the algorithms as in LibNBC.
 */
import { igathervRoot, igathervSend } from './igatherv.js';
import { Role, Schedule } from './schedule.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

export const IGATHER_ALGORITHMS = ['linear', 'binomial'] as const;
export type IgatherAlgorithm = (typeof IGATHER_ALGORITHMS)[number];

/**
 * From this many ranks on, a tree takes work off the root: receiving a small message costs the root about 0.1 µs, a hop
 * of the tree at least 1 µs, and more where processes share cores.
 */
export const IGATHER_BINOMIAL_MIN_RANKS = 64;

/** Largest block, in bytes, for the tree: in it, a block is copied once per level instead of once. */
export const IGATHER_BINOMIAL_MAX_BYTES = 1024;

export function chooseIgather(blockBytes: number, ranks: number): IgatherAlgorithm {
  const tree = ranks >= IGATHER_BINOMIAL_MIN_RANKS && blockBytes <= IGATHER_BINOMIAL_MAX_BYTES;
  return tree ? 'binomial' : 'linear';
}

/** The schedule of `rank` for a gather of blocks of `bytes` to `root`. */
export function igatherSchedule(
  algorithm: IgatherAlgorithm,
  rank: number,
  size: number,
  root: number,
  bytes: number,
  inPlace = false,
): Schedule {
  switch (algorithm) {
    case 'linear':
      return igatherLinear(rank, size, root, bytes, inPlace);
    case 'binomial':
      return igatherBinomial(rank, size, root, bytes, inPlace);
  }
}

/** Everybody sends to the root. */
export function igatherLinear(rank: number, size: number, root: number, bytes: number, inPlace = false): Schedule {
  if (rank !== root) return igathervSend(root, bytes);
  const blocks = Array.from({ length: size }, (_, peer) => ({ offset: peer * bytes, bytes }));
  return igathervRoot(root, blocks, inPlace);
}

/**
 * Up the binomial tree. A rank collects the blocks of its subtree in the order of the virtual ranks, and sends them on
 * as one message.
 */
export function igatherBinomial(rank: number, size: number, root: number, bytes: number, inPlace = false): Schedule {
  return rank === root ? gatherAtRoot(size, root, bytes, inPlace) : gatherAndPass(rank, size, root, bytes);
}

function gatherAndPass(rank: number, size: number, root: number, bytes: number): Schedule {
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
 * row: except in the one subtree that runs past the highest rank and goes on at rank 0, which takes a detour through
 * temporary memory.
 */
function gatherAtRoot(size: number, root: number, bytes: number, inPlace: boolean): Schedule {
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
