/**
 * Neighbours, by the text of the standard and without the library: who they are, and what the operations between them
 * must end with. The oracles are as those of all operations (oracle.ts), for cases that have lists.
 */
import type { NeighborOperationName } from 'node-nbc';
import { type Case, displsOf, lengthOf, type Oracle, partsOf, placesOf } from './oracle.js';

/** The neighbours of a rank. */
export interface Lists {
  readonly sources: readonly (number | null)[];
  readonly destinations: readonly (number | null)[];
  /** For each source: which entry of that rank's destinations its message is. */
  readonly entries: readonly (number | null)[];
}

/** Those of a graph, which has no ends. */
export interface GraphLists extends Lists {
  readonly sources: readonly number[];
  readonly destinations: readonly number[];
}

/** Of all ranks of a grid, the last dimension fastest: the lower neighbour of each dimension, then the upper one. */
export function gridLists(dims: readonly number[], periods: readonly boolean[]): Lists[] {
  const ranks = dims.reduce((product, length) => product * length, 1);
  const strides = dims.map((_, d) => dims.slice(d + 1).reduce((product, length) => product * length, 1));
  const moved = (from: number, d: number, by: number): number | null => {
    const at = Math.floor(from / strides[d]) % dims[d];
    if (!periods[d] && (at + by < 0 || at + by >= dims[d])) return null;
    return from + (((at + by + dims[d]) % dims[d]) - at) * strides[d];
  };
  return Array.from({ length: ranks }, (_, from) => {
    const list = dims.flatMap((__, d) => [moved(from, d, -1), moved(from, d, 1)]);
    // What comes from below was sent up, and the other way round: MPI 4.1, example 8.10.
    const entries = dims.flatMap((__, d) => [2 * d + 1, 2 * d]);
    return { sources: list, destinations: list, entries };
  });
}

/**
 * Of so many ranks, with edges at random: double ones, to oneself, ranks with none. Each rank has its lists in an order
 * of its own; the k-th edge to a rank is the k-th one from it there.
 */
export function graphLists(size: number, random: (below: number) => number): GraphLists[] {
  const destinations: number[][] = Array.from({ length: size }, () => []);
  for (let edges = random(4 * size); edges > 0; edges--) destinations[random(size)].push(random(size));
  return destinations.map((own, to) => {
    const sources = destinations.flatMap((list, from) => list.filter((rank) => rank === to).map(() => from));
    for (let i = sources.length - 1; i > 0; i--) {
      const j = random(i + 1);
      [sources[i], sources[j]] = [sources[j], sources[i]];
    }
    const entries = sources.map((from, index) => {
      const before = sources.slice(0, index).filter((earlier) => earlier === from).length;
      return destinations[from].flatMap((rank, entry) => (rank === to ? [entry] : []))[before];
    });
    return { sources, destinations: own, entries };
  });
}

/** Numbers from 0 to `below` that are the same on all ranks. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const listsOf = ({ lists }: Case, rank: number): Lists => lists![rank];

/** Elements of entry `entry` of a rank, where blocks differ. An allgatherv has one block for all. */
const uneven = ({ count }: Case, rank: number, entry = 0): number => ((rank + entry + 1) % 3) * count;

const outCounts = (c: Case, rank: number): number[] =>
  listsOf(c, rank).destinations.map((_, entry) => uneven(c, rank, entry));

/** Where a grid ends, a block has room, too. `same`: the sender has one block for all. */
function inCounts(c: Case, rank: number, same = false): number[] {
  const { sources, entries } = listsOf(c, rank);
  return sources.map((from, i) => (from === null ? c.count : uneven(c, from, same ? 0 : entries[i]!)));
}

type Length = number | null;
const sent = (c: Case, rank: number, length: number): Length =>
  listsOf(c, rank).destinations.length === 0 ? null : length;
const received = (c: Case, rank: number, length: (sources: number) => number): Length => {
  const { length: sources } = listsOf(c, rank).sources;
  return sources === 0 ? null : length(sources);
};

/** Calls `take` for each block that comes from a rank. */
function eachSource(c: Case, rank: number, take: (from: number, entry: number, index: number) => void): void {
  const { sources, entries } = listsOf(c, rank);
  for (const [index, from] of sources.entries()) if (from !== null) take(from, entries[index]!, index);
}

const COMMON = { rooted: false, inPlace: false, place: () => null };

const alltoallv: Oracle = {
  ...COMMON,
  listed: true,
  send: (c, rank) => sent(c, rank, lengthOf(c, outCounts(c, rank))),
  recv: (c, rank) => received(c, rank, () => lengthOf(c, inCounts(c, rank))),
  args(c, rank, send, recv) {
    const [out, into] = [outCounts(c, rank), inCounts(c, rank)];
    return [send, out, displsOf(c, out), recv, into, displsOf(c, into)];
  },
  result(c, rank, input, recv) {
    const places = placesOf(c, inCounts(c, rank));
    eachSource(c, rank, (from, entry, index) => {
      const start = placesOf(c, outCounts(c, from))[entry];
      recv.set(input(from).subarray(start, start + uneven(c, from, entry)), places[index]);
    });
  },
};

export const NEIGHBOR_ORACLES: Record<NeighborOperationName, Oracle> = {
  ineighborAllgather: {
    ...COMMON,
    listed: false,
    send: (c, rank) => sent(c, rank, c.count),
    recv: (c, rank) => received(c, rank, (sources) => sources * c.count),
    args: (_c, _rank, send, recv) => [send, recv],
    result(c, rank, input, recv) {
      eachSource(c, rank, (from, _entry, index) => recv.set(input(from), index * c.count));
    },
  },
  ineighborAllgatherv: {
    ...COMMON,
    listed: true,
    send: (c, rank) => sent(c, rank, uneven(c, rank)),
    recv: (c, rank) => received(c, rank, () => lengthOf(c, inCounts(c, rank, true))),
    args(c, rank, send, recv) {
      const counts = inCounts(c, rank, true);
      return [send, recv, counts, displsOf(c, counts)];
    },
    result(c, rank, input, recv) {
      const places = placesOf(c, inCounts(c, rank, true));
      eachSource(c, rank, (from, _entry, index) => recv.set(input(from), places[index]));
    },
  },
  ineighborAlltoall: {
    ...COMMON,
    listed: false,
    send: (c, rank) => sent(c, rank, listsOf(c, rank).destinations.length * c.count),
    recv: (c, rank) => received(c, rank, (sources) => sources * c.count),
    args: (_c, _rank, send, recv) => [send, recv],
    result(c, rank, input, recv) {
      eachSource(c, rank, (from, entry, index) => {
        recv.set(input(from).subarray(entry * c.count, (entry + 1) * c.count), index * c.count);
      });
    },
  },
  ineighborAlltoallv: alltoallv,
  ineighborAlltoallw: {
    ...alltoallv,
    args(c, rank, send, recv) {
      return [partsOf(c, rank, send, outCounts(c, rank)), partsOf(c, rank, recv, inCounts(c, rank))];
    },
  },
};
