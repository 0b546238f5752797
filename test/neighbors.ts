/**
 * What operations between neighbours (lists.ts) must end with, by the text of the standard and without the library. The
 * oracles are as those of all operations (oracle.ts), for cases that have lists.
 */
import type { NeighborOperationName } from 'node-nbc';
import type { Lists } from './lists.js';
import { type Case, displsOf, lengthOf, type Oracle, partsOf, placesOf } from './oracle.js';

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
