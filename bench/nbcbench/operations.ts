/**
 * The operations that nbcbench measures: all of the library's tables. What a rank sends and receives stands here, and
 * for MPI in bench/peers/operations.h, in the same words; the order of the arguments comes from the library's tables.
 */
import { OPERATIONS, type OperationName } from '#library/operations/index.js';
import { NEIGHBOR_OPERATIONS, type NeighborOperationName } from '#library/operations/neighbor.js';
import { SUM } from '#library/operators.js';

export type Op = OperationName | NeighborOperationName;

const TABLE: readonly { name: Op; parameters: readonly string[] }[] = [...OPERATIONS, ...NEIGHBOR_OPERATIONS];
const parametersOf = (op: Op): readonly string[] => TABLE.find(({ name }) => name === op)!.parameters;

export const OPS: readonly Op[] = TABLE.map(({ name }) => name);

/** Those of the NBCBench of the paper. */
export const PAPER_OPS: readonly Op[] = ['ibcast', 'igather', 'ialltoall'];

/** Bytes of the elements of reductions, which are float64; all others move bytes. */
export const REDUCED_BYTES = 8;

export const reduces = (op: Op): boolean => parametersOf(op).includes('op');

/** Whether it is a method of communicators with neighbours: here a ring. */
export const hasNeighbors = (op: Op): boolean => NEIGHBOR_OPERATIONS.some(({ name }) => name === op);

/** An operation without data has one size. */
export const sizesOf = (op: Op, sizes: readonly number[]): readonly number[] =>
  parametersOf(op).length === 0 ? [0] : sizes;

export interface Place {
  rank: number;
  size: number;
}

/** What arrives as one block: block `block` of what the ranks from `first` to `last` send, added up. */
export interface Source {
  first: number;
  last: number;
  block: number;
}

interface Blocks {
  /** How many a rank sends. 0: it passes null. */
  send: (place: Place) => number;
  receive: (place: Place) => number;
  /** What block `index` of the blocks received is. */
  source: (place: Place, index: number) => Source;
}

type Count = Blocks['send'];
const none: Count = () => 0;
const one: Count = () => 1;
const all: Count = ({ size }) => size;
/** One for each neighbour. */
const two: Count = () => 2;
const oneAtRoot: Count = ({ rank }) => (rank === 0 ? 1 : 0);
const allAtRoot: Count = ({ rank, size }) => (rank === 0 ? size : 0);
const oneElsewhere: Count = ({ rank }) => (rank === 0 ? 0 : 1);

type From = Blocks['source'];
const root: From = () => ({ first: 0, last: 0, block: 0 });
const rootsForMe: From = ({ rank }) => ({ first: 0, last: 0, block: rank });
const each: From = (_, index) => ({ first: index, last: index, block: 0 });
const eachForMe: From = ({ rank }, index) => ({ first: index, last: index, block: rank });
const sum: From = ({ size }) => ({ first: 0, last: size - 1, block: 0 });
const sumForMe: From = ({ rank, size }) => ({ first: 0, last: size - 1, block: rank });
const sumUpToMe: From = ({ rank }) => ({ first: 0, last: rank, block: 0 });
const sumBeforeMe: From = ({ rank }) => ({ first: 0, last: rank - 1, block: 0 });
const neighbor: From = (place, index) => each(place, (place.rank + (index === 0 ? place.size - 1 : 1)) % place.size);

const BLOCKS: Record<Op, Blocks> = {
  ibarrier: { send: none, receive: none, source: root },
  ibcast: { send: oneAtRoot, receive: oneElsewhere, source: root },
  iscatter: { send: allAtRoot, receive: one, source: rootsForMe },
  iscatterv: { send: allAtRoot, receive: one, source: rootsForMe },
  igather: { send: one, receive: allAtRoot, source: each },
  igatherv: { send: one, receive: allAtRoot, source: each },
  iallgather: { send: one, receive: all, source: each },
  iallgatherv: { send: one, receive: all, source: each },
  ialltoall: { send: all, receive: all, source: eachForMe },
  ialltoallv: { send: all, receive: all, source: eachForMe },
  ialltoallw: { send: all, receive: all, source: eachForMe },
  ireduce: { send: one, receive: oneAtRoot, source: sum },
  iallreduce: { send: one, receive: one, source: sum },
  ireduceScatterBlock: { send: all, receive: one, source: sumForMe },
  ireduceScatter: { send: all, receive: one, source: sumForMe },
  iscan: { send: one, receive: one, source: sumUpToMe },
  iexscan: { send: one, receive: one, source: sumBeforeMe },
  ineighborAllgather: { send: one, receive: two, source: neighbor },
  ineighborAllgatherv: { send: one, receive: two, source: neighbor },
  ineighborAlltoall: { send: two, receive: two, source: neighbor },
  ineighborAlltoallv: { send: two, receive: two, source: neighbor },
  ineighborAlltoallw: { send: two, receive: two, source: neighbor },
};

export const blocksOf = (op: Op): Blocks => BLOCKS[op];

/** Memory of a rank; a rank that sends or receives nothing has null. */
export interface Memory<View> {
  send: View | null;
  receive: View | null;
}

/** The arguments of the method, for blocks of `count` elements. Blocks lie one behind the other. */
export function argumentsOf<View extends Uint8Array | Float64Array>(
  op: Op,
  place: Place,
  { send, receive }: Memory<View>,
  count: number,
): unknown[] {
  const blocks = hasNeighbors(op) ? 2 : place.size;
  const counts = Array.from({ length: blocks }, () => count);
  const parts = (view: View | null) => counts.map((_, i) => view?.subarray(i * count, (i + 1) * count) ?? null);
  const values: Record<string, unknown> = {
    ...{ send, recv: receive, buffer: send ?? receive, root: 0, op: SUM },
    ...{ counts, sendCounts: counts, recvCounts: counts, displs: null, sendDispls: null, recvDispls: null },
    ...{ sends: parts(send), recvs: parts(receive) },
  };
  return parametersOf(op).map((name) => values[name]);
}
