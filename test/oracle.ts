/**
 * What each rank must end with, computed serially: one entry for each operation, by the same names. The simulator, the
 * tests of the ranks and the random programs all compare with this.
 *
 * A case says how long blocks are and who is the root; an entry says from that how long the buffers of a rank are, in
 * which order its arguments go, and what its receive buffer holds in the end.
 */
import { type Communicator, IN_PLACE, type Op, OPERATORS, type Request, SUM } from 'node-nbc';
import type { OperationName } from 'node-nbc/schedules';
import { Operator } from '#library/schedules/encoding.js';
import type { Lists } from './lists.js';

export interface Case {
  size: number;
  root: number;
  /** Elements of a message or block; where blocks differ, the number that they are made from. */
  count: number;
  inPlace: boolean;
  /** Where blocks have places: not one behind the other, but in the opposite order and with gaps. */
  gaps: boolean;
  /** Of a reduction: of bytes, here. */
  op: Op;
  /** The neighbours of each rank, where there are some: lists.ts. */
  lists?: readonly Lists[];
}

/** Bytes or elements. A rank without such a buffer passes null. */
type Length = number | null;

export interface Oracle {
  rooted: boolean;
  /** Blocks have sizes of their own: `gaps` means something. */
  listed: boolean;
  inPlace: boolean;
  /** Elements that a rank contributes. */
  send(c: Case, rank: number): Length;
  /** Elements of its receive buffer. */
  recv(c: Case, rank: number): Length;
  /** In place: the element of the receive buffer where its contribution stands; null: not this rank. */
  place(c: Case, rank: number): Length;
  /** In place: whether a rank keeps its block in its send buffer, and has no receive buffer. */
  keeps?(c: Case, rank: number): boolean;
  /** The arguments of the method. */
  args(c: Case, rank: number, send: unknown, recv: unknown): unknown[];
  /** Writes what the rank receives. `input`: what each rank contributes. */
  result(c: Case, rank: number, input: (rank: number) => Uint8Array, recv: Uint8Array): void;
}

export const ranksOf = ({ size }: { size: number }): number[] => Array.from({ length: size }, (_, rank) => rank);

/** How many elements rank `from` has for rank `to`, and that one for this, where blocks differ; some are empty. */
export const uneven = ({ count }: Case, from: number, to: number): number => ((from + to + 1) % 3) * count;

/** Where blocks of these lengths begin. */
export function placesOf({ gaps }: Case, counts: readonly number[]): number[] {
  let next = 0;
  if (!gaps) return counts.map((count) => (next += count) - count);
  return counts.toReversed().map((count) => (next += count + 1) - count).toReversed(); // prettier-ignore
}

/** Length of a buffer with these blocks. */
export function lengthOf(c: Case, counts: readonly number[]): number {
  return Math.max(...placesOf(c, counts).map((place, index) => place + counts[index]));
}

/** A case whose operator takes its turn by `number`; for operators on pairs, with an even number of elements. */
export function withOperator<C extends Omit<Case, 'op'>>(c: C, number: number): C & { op: Op } {
  const op = OPERATORS[number % OPERATORS.length];
  return { ...c, op, count: op.name.endsWith('LOC') ? c.count - (c.count % 2) : c.count };
}

const combineBytes: Record<string, (a: number, b: number) => number> = {
  SUM: (a, b) => a + b,
  PROD: (a, b) => a * b,
  MIN: Math.min,
  MAX: Math.max,
  LAND: (a, b) => Number(a !== 0 && b !== 0),
  LOR: (a, b) => Number(a !== 0 || b !== 0),
  LXOR: (a, b) => Number((a !== 0) !== (b !== 0)),
  BAND: (a, b) => a & b,
  BOR: (a, b) => a | b,
  BXOR: (a, b) => a ^ b,
  // Of user-operators.ts.
  AFFINE: (a, b) => ((((a >> 4) * (b >> 4)) & 15) << 4) | (((a >> 4) * (b & 15) + (a & 15)) & 15),
};

/**
 * Composes maps x → a x + b of bytes, as pairs (a, b): an operator that does not commute. Only the simulator can run
 * it, in the place of the operator that it is made from.
 */
export const COMPOSE = Reflect.construct(SUM.constructor, ['COMPOSE', false, Operator.SUM, 0, null]) as Op;

export function compose(target: Uint8Array, left: Uint8Array, right: Uint8Array): void {
  for (let i = 0; i < target.length; i += 2) {
    const [a, b, c, d] = [left[i], left[i + 1], right[i], right[i + 1]];
    [target[i], target[i + 1]] = [a * c, a * d + b];
  }
}

/** The contributions of the ranks from 0 to `last`, or of all, combined; of a block of them where one is named. */
function combined(
  c: Case,
  input: (rank: number) => Uint8Array,
  last = c.size - 1,
  [start, end]: [number, number?] = [0],
): Uint8Array {
  const result = input(0).slice(start, end);
  for (let rank = 1; rank <= last; rank++) {
    const other = input(rank).subarray(start, end);
    if (c.op === COMPOSE) compose(result, result, other);
    else if (c.op.name.endsWith('LOC')) combinePairs(c.op, result, other);
    else combineEach(tableOf(c.op), result, other);
  }
  return result;
}

/** What an operator makes of all pairs of bytes: buffers of megabytes go through it. */
const tables = new Map<string, Uint8Array>();
function tableOf({ name }: Op): Uint8Array {
  const table = tables.get(name) ?? Uint8Array.from({ length: 65_536 }, (_, i) => combineBytes[name](i >> 8, i & 255));
  tables.set(name, table);
  return table;
}

function combineEach(table: Uint8Array, result: Uint8Array, other: Uint8Array): void {
  for (let i = 0; i < result.length; i++) result[i] = table[(result[i] << 8) | other[i]];
}

function combinePairs({ name }: Op, result: Uint8Array, other: Uint8Array): void {
  for (let i = 0; i < result.length; i += 2) {
    const better = name === 'MINLOC' ? other[i] < result[i] : other[i] > result[i];
    const lower = other[i] === result[i] && other[i + 1] < result[i + 1];
    if (better || lower) [result[i], result[i + 1]] = [other[i], other[i + 1]];
  }
}

const atRoot = (c: Case, rank: number, length: number): Length => (rank === c.root ? length : null);
const all = (c: Case): number => c.size * c.count;
const block = (source: Uint8Array, index: number, count: number): Uint8Array =>
  source.subarray(index * count, (index + 1) * count);
const countsOf = (c: Case, other = 0): number[] => ranksOf(c).map((rank) => uneven(c, rank, other));

/** Where blocks of these lengths begin, as an argument. */
export const displsOf = (c: Case, counts: readonly number[]): number[] | null => (c.gaps ? placesOf(c, counts) : null);

/** Blocks of these lengths as an argument: parts of a buffer. Those without bytes are null at every second rank. */
export function partsOf(c: Case, rank: number, buffer: unknown, counts: readonly number[]): unknown[] {
  const places = placesOf(c, counts);
  return counts.map((count, peer) =>
    count === 0 && rank % 2 === 0 ? null : (buffer as Uint8Array).subarray(places[peer], places[peer] + count),
  );
}

/** Exchanges of blocks with sizes of their own. */
const alltoallv: Oracle = {
  rooted: false,
  listed: true,
  inPlace: true,
  send: (c, rank) => lengthOf(c, countsOf(c, rank)),
  recv: (c, rank) => lengthOf(c, countsOf(c, rank)),
  place: () => 0,
  args(c, rank, send, recv) {
    const counts = countsOf(c, rank);
    const displs = displsOf(c, counts);
    return c.inPlace ? [send, null, null, recv, counts, displs] : [send, counts, displs, recv, counts, displs];
  },
  result(c, rank, input, recv) {
    const places = placesOf(c, countsOf(c, rank));
    for (const from of ranksOf(c)) {
      const start = placesOf(c, countsOf(c, from))[rank];
      recv.set(input(from).subarray(start, start + uneven(c, from, rank)), places[from]);
    }
  },
};

/** Reductions of which every rank has a result: which one, its row says. */
const reduceToAll: Omit<Oracle, 'result'> = {
  rooted: false,
  listed: false,
  inPlace: true,
  send: (c) => c.count,
  recv: (c) => c.count,
  place: () => 0,
  args: (c, _rank, send, recv) => [send, recv, c.op],
};

export const ORACLES: Record<OperationName, Oracle> = {
  ibcast: {
    rooted: true,
    listed: false,
    inPlace: false,
    send: () => null,
    recv: (c) => c.count,
    place: (c, rank) => atRoot(c, rank, 0),
    args: (c, _rank, _send, recv) => [recv, c.root],
    result: (c, _rank, input, recv) => recv.set(input(c.root)),
  },
  igather: {
    rooted: true,
    listed: false,
    inPlace: true,
    send: (c) => c.count,
    recv: (c, rank) => atRoot(c, rank, all(c)),
    place: (c, rank) => atRoot(c, rank, rank * c.count),
    args: (c, _rank, send, recv) => [send, recv, c.root],
    result(c, rank, input, recv) {
      if (rank === c.root) for (const from of ranksOf(c)) recv.set(input(from), from * c.count);
    },
  },
  igatherv: {
    rooted: true,
    listed: true,
    inPlace: true,
    send: (c, rank) => uneven(c, rank, 0),
    recv: (c, rank) => atRoot(c, rank, lengthOf(c, countsOf(c))),
    place: (c, rank) => atRoot(c, rank, placesOf(c, countsOf(c))[rank]),
    args(c, rank, send, recv) {
      if (rank !== c.root) return [send, null, null, null, c.root];
      return [send, recv, countsOf(c), displsOf(c, countsOf(c)), c.root];
    },
    result(c, rank, input, recv) {
      if (rank === c.root) placesOf(c, countsOf(c)).forEach((place, from) => recv.set(input(from), place));
    },
  },
  ialltoall: {
    rooted: false,
    listed: false,
    inPlace: true,
    send: all,
    recv: all,
    place: () => 0,
    args: (_c, _rank, send, recv) => [send, recv],
    result(c, rank, input, recv) {
      for (const from of ranksOf(c)) recv.set(block(input(from), rank, c.count), from * c.count);
    },
  },
  ibarrier: {
    rooted: false,
    listed: false,
    inPlace: false,
    send: () => null,
    recv: () => null,
    place: () => null,
    args: () => [],
    result: () => undefined,
  },
  iscatter: {
    rooted: true,
    listed: false,
    inPlace: true,
    send: (c, rank) => atRoot(c, rank, all(c)),
    recv: (c) => c.count,
    place: () => null,
    keeps: (c, rank) => rank === c.root,
    args: (c, _rank, send, recv) => [send, recv, c.root],
    result: (c, rank, input, recv) => recv.set(block(input(c.root), rank, c.count)),
  },
  iscatterv: {
    rooted: true,
    listed: true,
    inPlace: true,
    send: (c, rank) => atRoot(c, rank, lengthOf(c, countsOf(c))),
    recv: (c, rank) => uneven(c, rank, 0),
    place: () => null,
    keeps: (c, rank) => rank === c.root,
    args(c, rank, send, recv) {
      if (rank !== c.root) return [null, null, null, recv, c.root];
      return [send, countsOf(c), displsOf(c, countsOf(c)), recv, c.root];
    },
    result(c, rank, input, recv) {
      const place = placesOf(c, countsOf(c))[rank];
      recv.set(input(c.root).subarray(place, place + recv.length));
    },
  },
  iallgather: {
    rooted: false,
    listed: false,
    inPlace: true,
    send: (c) => c.count,
    recv: all,
    place: (c, rank) => rank * c.count,
    args: (_c, _rank, send, recv) => [send, recv],
    result(c, _rank, input, recv) {
      for (const from of ranksOf(c)) recv.set(input(from), from * c.count);
    },
  },
  iallgatherv: {
    rooted: false,
    listed: true,
    inPlace: true,
    send: (c, rank) => uneven(c, rank, 0),
    recv: (c) => lengthOf(c, countsOf(c)),
    place: (c, rank) => placesOf(c, countsOf(c))[rank],
    args: (c, _rank, send, recv) => [send, recv, countsOf(c), displsOf(c, countsOf(c))],
    result(c, _rank, input, recv) {
      placesOf(c, countsOf(c)).forEach((place, from) => recv.set(input(from), place));
    },
  },
  ialltoallv: alltoallv,
  ialltoallw: {
    ...alltoallv,
    args(c, rank, send, recv) {
      const counts = countsOf(c, rank);
      return [c.inPlace ? send : partsOf(c, rank, send, counts), partsOf(c, rank, recv, counts)];
    },
  },
  ireduce: {
    rooted: true,
    listed: false,
    inPlace: true,
    send: (c) => c.count,
    recv: (c, rank) => atRoot(c, rank, c.count),
    place: (c, rank) => atRoot(c, rank, 0),
    args: (c, _rank, send, recv) => [send, recv, c.op, c.root],
    result: (c, _rank, input, recv) => recv.set(combined(c, input)),
  },
  iallreduce: {
    ...reduceToAll,
    result: (c, _rank, input, recv) => recv.set(combined(c, input)),
  },
  ireduceScatterBlock: {
    rooted: false,
    listed: false,
    inPlace: true,
    send: all,
    recv: (c) => (c.inPlace ? all(c) : c.count),
    place: () => 0,
    args: (c, _rank, send, recv) => [send, recv, c.op],
    result(c, rank, input, recv) {
      recv.set(combined(c, input, c.size - 1, [rank * c.count, (rank + 1) * c.count]));
    },
  },
  ireduceScatter: {
    rooted: false,
    listed: false,
    inPlace: true,
    send: (c) => lengthOf({ ...c, gaps: false }, countsOf(c)),
    recv: (c, rank) => (c.inPlace ? lengthOf({ ...c, gaps: false }, countsOf(c)) : uneven(c, rank, 0)),
    place: () => 0,
    args: (c, _rank, send, recv) => [send, recv, countsOf(c), c.op],
    result(c, rank, input, recv) {
      const start = placesOf({ ...c, gaps: false }, countsOf(c))[rank];
      recv.set(combined(c, input, c.size - 1, [start, start + uneven(c, rank, 0)]));
    },
  },
  iscan: {
    ...reduceToAll,
    result: (c, rank, input, recv) => recv.set(combined(c, input, rank)),
  },
  iexscan: {
    ...reduceToAll,
    result(c, rank, input, recv) {
      if (rank > 0) recv.set(combined(c, input, rank - 1));
    },
  },
};

/** The buffers and arguments of one rank. */
export interface Part {
  send: Uint8Array | null;
  recv: Uint8Array | null;
  args: unknown[];
}

/**
 * The arguments of a rank. Its contribution must be written into what `contribution` returns.
 * @param make makes a buffer of so many elements, for the role
 */
export function arrange(
  oracle: Oracle,
  c: Case,
  rank: number,
  make: (length: number, role: 'send' | 'recv') => Uint8Array,
): Part {
  const [sends, receives] = [oracle.send(c, rank), oracle.recv(c, rank)];
  const inPlace = c.inPlace && oracle.place(c, rank) !== null;
  const send = sends === null || inPlace ? null : make(sends, 'send');
  const keeps = c.inPlace && oracle.keeps?.(c, rank) === true;
  const recv = receives === null || keeps ? null : make(receives, 'recv');
  return { send, recv, args: oracle.args(c, rank, inPlace ? IN_PLACE : send, keeps ? IN_PLACE : recv) };
}

/** Calls an operation by its name. */
export function callOperation(comm: Communicator, name: OperationName, args: readonly unknown[]): Request {
  return (comm as unknown as Record<OperationName, (...args: unknown[]) => Request>)[name](...args);
}

/** Where a rank's contribution belongs: in its send buffer or, in place, in its receive buffer. Null: it has none. */
export function contribution(oracle: Oracle, c: Case, rank: number, { send, recv }: Part): Uint8Array | null {
  if (send !== null) return send;
  const place = oracle.place(c, rank);
  if (recv === null || place === null) return null;
  return recv.subarray(place, place + (oracle.send(c, rank) ?? oracle.recv(c, rank)!));
}
