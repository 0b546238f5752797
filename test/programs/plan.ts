/**
 * A random program of collectives and messages, as data: property.test.ts invents it and computes serially what it must
 * do, the ranks of programs/property.ts run it with everything overlapping.
 *
 * Every rank has the same set of buffers. A step reads one and writes another (or works in place); which ones depends
 * on the rank.
 */
import type { NeighborOperationName } from 'node-nbc';
import type { OperationName } from 'node-nbc/schedules';
import { Scattered } from '../layouts.js';
import { type GraphLists, graphLists, type Lists, randomFrom } from '../lists.js';
import { NEIGHBOR_ORACLES } from '../neighbors.js';
import { type Case, type Oracle, ORACLES, withOperator } from '../oracle.js';
import { AFFINE, AFFINE_MODULE, XOR, XOR_MODULE } from '../user-operators.js';
import { gridShapes } from './grids.js';
import { piece } from './noise.js';

export const BUFFERS = 10;
export const BUFFER_BYTES = 600 * 1024;
/** Bytes: a step begins at one of these offsets of its buffers. */
export const MAX_SHIFT = 8;
/** Bytes: longer buffers have no layouts. */
const MAX_SCATTERED = 20_000;

export interface Settings {
  eagerLimit?: number;
  crossMemory: 'auto' | 'off';
  progress: 'thread' | 'manual';
  testOnInit: boolean;
}

/** Makes the next communicator from number `parent` (modulo those there are; 0 is the world). */
export interface DupStep {
  kind: 'dup';
  parent: number;
}
export interface SplitStep {
  kind: 'split';
  parent: number;
  /** Of each rank of the world; −1: in no group. */
  colors: number[];
  keys: number[];
}
/** Arranges each group of the parent in a grid, in which the last rank may have no place. */
export interface CartStep {
  kind: 'cart';
  parent: number;
  /** Which grid of those that the group has. */
  shape: number;
  /** A bit for each dimension. */
  periods: number;
}
/** Gives each group of the parent edges at random. */
export interface GraphStep {
  kind: 'graph';
  parent: number;
  seed: number;
}
export type CommunicatorStep = DupStep | SplitStep | CartStep | GraphStep;
/** A collective in every group of communicator number `communicator`; of those with neighbours if it needs some. */
export interface CollectiveStep {
  kind: OperationName | NeighborOperationName;
  communicator: number;
  /** Of the message or a block; less if the buffers cannot hold that for all ranks. */
  bytes: number;
  /** Modulo the size of the group. */
  root: number;
  /** Index of the algorithm, modulo one more than there are; the last one means the default. */
  algorithm: number;
  inPlace: boolean;
  gaps: boolean;
  /** By an Init method: {@link AgainStep} may start it again. */
  persistent: boolean;
  /** Which layouts short buffers have; 0: none. */
  layout: number;
  /** Which buffers. */
  choice: number;
  shift: number;
}
/** A message from one rank of each group to another one. */
export interface MessageStep {
  kind: 'message';
  communicator: number;
  bytes: number;
  from: number;
  distance: number;
  tag: number;
  persistent: boolean;
  layout: number;
  choice: number;
  shift: number;
}
/** Every rank of each group sends to the one `distance` after it, and receives from the one as far before it. */
export interface ExchangeStep {
  kind: 'exchange';
  communicator: number;
  bytes: number;
  distance: number;
  /** Whether the last ranks send to the first; else they send nothing, and the first receive nothing. */
  wraps: boolean;
  tag: number;
  layout: number;
  choice: number;
  shift: number;
}
/** Starts the persistent request of an earlier step once more: of number `of`, modulo those there are. */
export interface AgainStep {
  kind: 'again';
  of: number;
}
export type DataStep = CollectiveStep | MessageStep | ExchangeStep;
export type Step = CommunicatorStep | DataStep | AgainStep;

export interface Plan {
  ranks: number;
  settings: Settings;
  steps: Step[];
  /** Seed of the order in which ranks wait. */
  order: number;
}

/** What buffer number `index` of a rank holds at the beginning. */
export function initialContent(rank: number, index: number): Uint8Array {
  return piece(index, rank, 0, BUFFER_BYTES);
}

/** Which buffers a rank of the world uses in a step: one to read and one to write. */
export function buffersOf(step: DataStep, rank: number): { send: number; receive: number } {
  const send = (step.choice + 3 * rank) % BUFFERS;
  return { send, receive: (send + 1 + ((step.choice >>> 8) % (BUFFERS - 1))) % BUFFERS };
}

/** What a rank sends from or receives into: a part of a buffer, as a plain view or with a layout. */
export interface Region {
  /** As an argument. */
  readonly data: Uint8Array | Scattered['layout'];
  read(): Uint8Array;
  write(bytes: Uint8Array): void;
}

/** @param rank of the world: ranks have layouts of their own */
export function regionOf(
  buffer: Uint8Array,
  step: DataStep,
  rank: number,
  role: 'send' | 'recv',
  length: number,
): Region {
  const from = buffer.subarray(step.shift);
  const number = step.layout + 7 * rank + (role === 'send' ? 1 : 0);
  if (mayScatter(step) && length <= MAX_SCATTERED && number % 4 > 0) {
    const scattered = new Scattered(length, number, (bytes) => from.subarray(0, bytes));
    return {
      data: scattered.layout,
      read: () => scattered.read(),
      write: (bytes) => scattered.write(bytes),
    };
  }
  const data = from.subarray(0, length);
  return { data, read: () => data.slice(), write: (bytes) => data.set(bytes) };
}

/** Parts have buffers of their own. */
function mayScatter(step: DataStep): boolean {
  return step.layout !== 0 && !/alltoallw$/i.test(step.kind);
}

export function oracleOf({ kind }: CollectiveStep): Oracle {
  return { ...ORACLES, ...NEIGHBOR_ORACLES }[kind];
}

function isNeighborStep({ kind }: DataStep): boolean {
  return kind in NEIGHBOR_ORACLES;
}

/** The communicator of a step; null: there is none with neighbours yet. */
export function chosen<C extends { neighbors: boolean }>(step: DataStep, communicators: readonly C[]): C | null {
  const fit = isNeighborStep(step) ? communicators.filter(({ neighbors }) => neighbors) : communicators;
  return fit.length === 0 ? null : fit[step.communicator % fit.length];
}

/** Whether a communicator of this step has neighbours. */
export function hasNeighbors({ kind }: CommunicatorStep, parent: { neighbors: boolean }): boolean {
  return kind === 'cart' || kind === 'graph' || (kind === 'dup' && parent.neighbors);
}

/** The grid that a group is arranged in. */
export function gridOf({ shape, periods }: CartStep, groupSize: number): { dims: number[]; periods: boolean[] } {
  const grids = gridShapes(groupSize);
  const dims = grids[shape % grids.length];
  return { dims, periods: dims.map((_, dimension) => ((periods >> dimension) & 1) === 1) };
}

/** The neighbours of each rank of a group. */
export function graphOf({ seed }: GraphStep, groupSize: number): GraphLists[] {
  return graphLists(groupSize, randomFrom(seed));
}

/** The collective of a step in a group, for the oracle. Blocks of all sizes fit into the buffers. */
export function caseOf(step: CollectiveStep, groupSize: number, lists?: readonly Lists[]): Case {
  const { rooted, inPlace } = oracleOf(step);
  const blocks = Math.max(
    groupSize,
    ...(lists ?? []).flatMap((each) => [each.sources.length, each.destinations.length]),
  );
  const count = Math.min(step.bytes, Math.floor((BUFFER_BYTES - MAX_SHIFT - blocks) / (2 * blocks)));
  const root = rooted ? step.root % groupSize : 0;
  const c = { size: groupSize, root, count, inPlace: inPlace && step.inPlace, gaps: step.gaps };
  const chosen = withOperator(isNeighborStep(step) ? { ...c, lists: lists! } : c, step.choice);
  const own = [AFFINE, XOR, AFFINE_MODULE, XOR_MODULE];
  return step.choice % 4 === 0 ? { ...chosen, op: own[(step.choice / 4) % own.length] } : chosen;
}

/** Bytes of a message between two ranks. */
export function bytesOf(step: MessageStep | ExchangeStep): number {
  return Math.min(step.bytes, BUFFER_BYTES - MAX_SHIFT);
}

/** Sender and receiver of a message in a group; null in a group of one rank, which sends none. */
export function endsOf(step: MessageStep, groupSize: number): { from: number; to: number } | null {
  if (groupSize === 1) return null;
  const from = step.from % groupSize;
  return { from, to: (from + 1 + (step.distance % (groupSize - 1))) % groupSize };
}

/** The peers of a rank in an exchange; null: none, and both in a group of one rank. */
export function peersOf(
  step: ExchangeStep,
  rank: number,
  size: number,
): { dest: number | null; source: number | null } {
  if (size === 1) return { dest: null, source: null };
  const distance = 1 + (step.distance % (size - 1));
  const [dest, source] = [rank + distance, rank - distance];
  if (step.wraps) return { dest: dest % size, source: (source + size) % size };
  return { dest: dest < size ? dest : null, source: source >= 0 ? source : null };
}
