/**
 * ibcast: the root's buffer to everybody. Every rank passes one buffer of the same size, which has the receive role
 * everywhere: the root reads it, the others fill it.
 *
 * Source: MPI 3.1, 5.12.2 (MPI_IBCAST). Linear and binomial as in LibNBC; the pipelined chain as in J. Pješivac-Grbović
 * et al., "Performance Analysis of MPI Collective Operations", 2005.
 */
import { Role, Schedule } from './schedule.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

export const IBCAST_ALGORITHMS = ['linear', 'binomial', 'chain'] as const;
export type IbcastAlgorithm = (typeof IBCAST_ALGORITHMS)[number];

/**
 * Small messages: up to this many ranks the root sends to everybody itself. A message costs the sender about 0.1 µs, a
 * hop waits until another process runs: 1 µs, and tens of them where processes share cores.
 */
export const IBCAST_LINEAR_MAX_RANKS = 64;

/**
 * From this size on (bytes) the time goes into copying, which the ranks of a tree do for each other: measured with 3 to
 * 8 ranks on two cores, the tree takes 0.6 to 0.9 of the linear time. Below, it takes longer.
 */
export const IBCAST_BINOMIAL_MIN_BYTES = 32 * 1024;

/**
 * From this size (bytes) and this many ranks on, the chain: every rank copies once, and all at the same time, where in
 * a tree some copy log₂(ranks) times. With fewer ranks, or less to fill the pipeline with, its many steps cost more
 * than that.
 */
export const IBCAST_CHAIN_MIN_BYTES = 1024 * 1024;
export const IBCAST_CHAIN_MIN_RANKS = 8;

/**
 * Bytes of one segment of the chain. Large enough that the cost of a message (about 1 µs) is small beside its copy
 * (about 5 µs); small enough to stay in a core's cache from the receive to the send, and to fill a long pipeline
 * quickly.
 */
export const IBCAST_SEGMENT_BYTES = 128 * 1024;

/** More segments than this bring nothing but a longer schedule: beyond it the segments grow. */
export const IBCAST_MAX_SEGMENTS = 256;

/** Grown segments are multiples of a page, so that they keep the alignment of the buffer. */
const SEGMENT_GRANULE_BYTES = 4096;

export function chooseIbcast(bytes: number, ranks: number): IbcastAlgorithm {
  if (ranks <= 2) return 'linear';
  if (ranks >= IBCAST_CHAIN_MIN_RANKS && bytes >= IBCAST_CHAIN_MIN_BYTES) return 'chain';
  return ranks > IBCAST_LINEAR_MAX_RANKS || bytes >= IBCAST_BINOMIAL_MIN_BYTES ? 'binomial' : 'linear';
}

/** The schedule of `rank` for a broadcast of `bytes` from `root`. */
export function ibcastSchedule(
  algorithm: IbcastAlgorithm,
  rank: number,
  size: number,
  root: number,
  bytes: number,
): Schedule {
  switch (algorithm) {
    case 'linear':
      return ibcastLinear(rank, size, root, bytes);
    case 'binomial':
      return ibcastBinomial(rank, size, root, bytes);
    case 'chain':
      return ibcastChain(rank, size, root, bytes);
  }
}

/** The root sends to everybody. */
export function ibcastLinear(rank: number, size: number, root: number, bytes: number): Schedule {
  const schedule = new Schedule();
  if (rank !== root) return schedule.recv(root, Role.RECEIVE, 0, bytes);
  for (let distance = 1; distance < size; distance++) {
    schedule.send((root + distance) % size, Role.RECEIVE, 0, bytes);
  }
  return schedule;
}

/** Down the binomial tree; the largest subtree is served first, because it has the longest way to go. */
export function ibcastBinomial(rank: number, size: number, root: number, bytes: number): Schedule {
  const schedule = new Schedule();
  const virtual = toVirtual(rank, root, size);
  if (virtual !== 0) {
    schedule.recv(fromVirtual(parentOf(virtual), root, size), Role.RECEIVE, 0, bytes).round();
  }
  for (const child of childrenOf(virtual, size).reverse()) {
    schedule.send(fromVirtual(child.virtual, root, size), Role.RECEIVE, 0, bytes);
  }
  return schedule;
}

/**
 * From each rank to the next, in segments: while a rank passes segment i − 1 on, it receives segment i. The ends of the
 * chain have nothing to interleave: the root offers all segments at once, the last rank awaits all of them at once.
 */
export function ibcastChain(
  rank: number,
  size: number,
  root: number,
  bytes: number,
  segmentBytes = ibcastSegment(bytes),
): Schedule {
  const schedule = new Schedule();
  const virtual = toVirtual(rank, root, size);
  const previous = fromVirtual(virtual - 1, root, size);
  const next = fromVirtual(virtual + 1, root, size);
  const first = virtual === 0;
  const last = virtual === size - 1;
  const segments = Math.ceil(bytes / segmentBytes);
  const lengthOf = (segment: number): number => Math.min(segmentBytes, bytes - segment * segmentBytes);

  for (let segment = 0; segment < segments; segment++) {
    if (!first) schedule.recv(previous, Role.RECEIVE, segment * segmentBytes, lengthOf(segment));
    if (!first && !last) schedule.round();
    if (!last) schedule.send(next, Role.RECEIVE, segment * segmentBytes, lengthOf(segment));
  }
  return schedule;
}

/** Bytes of a segment of the chain: the same on all ranks, since it depends on the size only. */
export function ibcastSegment(bytes: number): number {
  const evenly = Math.ceil(bytes / IBCAST_MAX_SEGMENTS / SEGMENT_GRANULE_BYTES) * SEGMENT_GRANULE_BYTES;
  return Math.max(IBCAST_SEGMENT_BYTES, evenly);
}
