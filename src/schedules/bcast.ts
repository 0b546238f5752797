/**
 * Broadcasts: the root's buffer to every rank. Every rank passes one buffer of the same size, which has the receive
 * role everywhere: the root reads it, the others fill it.
 *
 * Source: MPI 4.1, 6.4 (MPI_BCAST).
 */
import { Role, Schedule } from './schedule.js';
import type { Shape } from './shape.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

/**
 * Bytes of one segment of the chain. Large enough that the cost of a message (about 1 µs) is small beside its copy
 * (about 5 µs); small enough to stay in a core's cache from the receive to the send, and to fill a long pipeline
 * quickly.
 */
export const BCAST_SEGMENT_BYTES = 128 * 1024;

/** More segments than this bring nothing but a longer schedule: beyond it the segments grow. */
export const BCAST_MAX_SEGMENTS = 256;

/** Grown segments are multiples of a page, so that they keep the alignment of the buffer. */
const SEGMENT_GRANULE_BYTES = 4096;

/** The root sends to every rank. */
export function bcastLinear({ rank, size, root, bytes }: Shape): Schedule {
  const schedule = new Schedule();
  if (rank !== root) return schedule.recv(root, Role.RECEIVE, 0, bytes);
  for (let distance = 1; distance < size; distance++) {
    schedule.send((root + distance) % size, Role.RECEIVE, 0, bytes);
  }
  return schedule;
}

/** Down the binomial tree; the root of the largest subtree is served first: its subtree is the deepest. */
export function bcastBinomial({ rank, size, root, bytes }: Shape): Schedule {
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
export function bcastChain({ rank, size, root, bytes }: Shape, segmentBytes = bcastSegment(bytes)): Schedule {
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

/**
 * The root scatters the message in p segments down the binomial tree, then the segments travel round the ring. Every
 * rank sends and receives about two messages, however many ranks there are.
 */
export function bcastScatterAllgather({ rank, size, root, bytes }: Shape): Schedule {
  const schedule = new Schedule();
  const virtual = toVirtual(rank, root, size);
  const segment = Math.ceil(bytes / size);
  const start = (index: number): number => Math.min(bytes, index * segment);
  const rangeOf = (first: number, count: number): [offset: number, length: number] => [
    start(first),
    start(first + count) - start(first),
  ];
  const children = childrenOf(virtual, size);
  if (virtual !== 0) {
    const covered = 1 + children.reduce((sum, { count }) => sum + count, 0);
    schedule.recv(fromVirtual(parentOf(virtual), root, size), Role.RECEIVE, ...rangeOf(virtual, covered)).round();
  }
  for (const child of children.reverse()) {
    schedule.send(fromVirtual(child.virtual, root, size), Role.RECEIVE, ...rangeOf(child.virtual, child.count));
  }
  schedule.round();
  const [previous, next] = [(rank - 1 + size) % size, (rank + 1) % size];
  for (let step = 0; step < size - 1; step++) {
    schedule.send(next, Role.RECEIVE, ...rangeOf((virtual - step + size) % size, 1));
    schedule.recv(previous, Role.RECEIVE, ...rangeOf((virtual - step - 1 + size) % size, 1)).round();
  }
  return schedule;
}

/** Bytes of a segment of the chain: the same on all ranks, since it depends on the size only. */
export function bcastSegment(bytes: number): number {
  const evenly = Math.ceil(bytes / BCAST_MAX_SEGMENTS / SEGMENT_GRANULE_BYTES) * SEGMENT_GRANULE_BYTES;
  return Math.max(BCAST_SEGMENT_BYTES, evenly);
}
