/**
 * A random program of collectives and messages, as data: property.test.ts invents it and computes serially what it must
 * do, the ranks of programs/property.ts run it with everything overlapping.
 *
 * Every rank has the same set of buffers. A step reads one and writes another (or works in place); which ones depends
 * on the rank.
 */
import type { OperationName } from 'node-nbc/schedules';
import { type Case, ORACLES, withOperator } from '../oracle.js';
import { piece } from './noise.js';

export const BUFFERS = 10;
export const BUFFER_BYTES = 600 * 1024;
/** Bytes: a step begins at one of these offsets of its buffers. */
export const MAX_SHIFT = 8;

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
/** A collective in every group that communicator number `communicator` means. */
export interface CollectiveStep {
  kind: OperationName;
  communicator: number;
  /** Of the message or a block; less if the buffers cannot hold that for all ranks. */
  bytes: number;
  /** Modulo the size of the group. */
  root: number;
  /** Index of the algorithm, modulo one more than there are; the last one means the default. */
  algorithm: number;
  inPlace: boolean;
  gaps: boolean;
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
  choice: number;
  shift: number;
}
export type DataStep = CollectiveStep | MessageStep;
export type Step = DupStep | SplitStep | DataStep;

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

/** The collective of a step in a group, for the oracle. Blocks of all sizes fit into the buffers. */
export function caseOf(step: CollectiveStep, groupSize: number): Case {
  const { rooted, inPlace } = ORACLES[step.kind];
  const count = Math.min(step.bytes, Math.floor((BUFFER_BYTES - MAX_SHIFT - groupSize) / (2 * groupSize)));
  const root = rooted ? step.root % groupSize : 0;
  const c = { size: groupSize, root, count, inPlace: inPlace && step.inPlace, gaps: step.gaps };
  return withOperator(c, step.choice);
}

/** Bytes of a message between two ranks. */
export function bytesOf(step: MessageStep): number {
  return Math.min(step.bytes, BUFFER_BYTES - MAX_SHIFT);
}

/** Sender and receiver of a message in a group; null in a group of one rank, which sends none. */
export function endsOf(step: MessageStep, groupSize: number): { from: number; to: number } | null {
  if (groupSize === 1) return null;
  const from = step.from % groupSize;
  return { from, to: (from + 1 + (step.distance % (groupSize - 1))) % groupSize };
}
