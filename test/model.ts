/**
 * What a plan (programs/plan.ts) must do, computed serially in one process: every step runs to its end, on all ranks,
 * before the next.
 */
import { createHash } from 'node:crypto';
import { arrange, contribution, ORACLES } from './oracle.js';
import {
  BUFFERS,
  buffersOf,
  bytesOf,
  caseOf,
  type CollectiveStep,
  type DataStep,
  endsOf,
  initialContent,
  type MessageStep,
  type Plan,
} from './programs/plan.js';

export interface Outcome {
  /** Hash of what each step wrote, by number of the step. */
  hashes: Record<number, string>;
  /** Hashes of all buffers at the end. */
  final: string[];
}

/** The groups that a communicator consists of: world ranks, in the order of the group. */
type Groups = number[][];

export function runSerially(plan: Plan): Outcome[] {
  const ranks = Array.from({ length: plan.ranks }, (_, rank) => rank);
  const memory = ranks.map((rank) =>
    Array.from({ length: BUFFERS }, (_, index) => Uint8Array.from(initialContent(rank, index))),
  );
  const outcomes: Outcome[] = ranks.map(() => ({ hashes: {}, final: [] }));
  const communicators: Groups[] = [[ranks]];

  for (const [index, step] of plan.steps.entries()) {
    if (step.kind === 'dup') {
      communicators.push(communicators[step.parent % communicators.length]);
    } else if (step.kind === 'split') {
      const parents = communicators[step.parent % communicators.length];
      communicators.push(parents.flatMap((group) => splitGroup(group, step.colors, step.keys)));
    } else {
      for (const group of communicators[step.communicator % communicators.length]) {
        for (const [rank, written] of runStep(memory, group, step)) outcomes[rank].hashes[index] = hashOf(written);
      }
    }
  }
  for (const rank of ranks) outcomes[rank].final = memory[rank].map(hashOf);
  return outcomes;
}

/** MPI_Comm_split: one group for each color, ordered by key and then by rank in the old group. */
function splitGroup(group: number[], colors: number[], keys: number[]): Groups {
  const distinct = [...new Set(group.map((rank) => colors[rank]))].filter((color) => color >= 0);
  return distinct.map((color) =>
    group
      .map((rank, place) => ({ rank, place }))
      .filter(({ rank }) => colors[rank] === color)
      .sort((a, b) => keys[a.rank] - keys[b.rank] || a.place - b.place)
      .map(({ rank }) => rank),
  );
}

type Memory = Uint8Array[][];

/** The part of a buffer that a rank uses in a step. */
function region(memory: Memory, step: DataStep, rank: number, role: 'send' | 'recv', bytes: number): Uint8Array {
  const { send, receive } = buffersOf(step, rank);
  return memory[rank][role === 'send' ? send : receive].subarray(step.shift, step.shift + bytes);
}

/** Returns what was written, by world rank. */
function runStep(memory: Memory, group: number[], step: DataStep): Map<number, Uint8Array> {
  return step.kind === 'message' ? runMessage(memory, group, step) : runCollective(memory, group, step);
}

function runMessage(memory: Memory, group: number[], step: MessageStep): Map<number, Uint8Array> {
  const ends = endsOf(step, group.length);
  if (ends === null) return new Map();
  const bytes = bytesOf(step);
  const target = region(memory, step, group[ends.to], 'recv', bytes);
  target.set(region(memory, step, group[ends.from], 'send', bytes));
  return new Map([[group[ends.to], target.slice()]]);
}

function runCollective(memory: Memory, group: number[], step: CollectiveStep): Map<number, Uint8Array> {
  const oracle = ORACLES[step.kind];
  const c = caseOf(step, group.length);
  const parts = group.map((rank, place) =>
    arrange(oracle, c, place, (bytes, role) => region(memory, step, rank, role, bytes)),
  );
  const inputs = parts.map((part, place) => contribution(oracle, c, place, part)?.slice());
  const written = new Map<number, Uint8Array>();
  for (const [place, { recv }] of parts.entries()) {
    if (recv === null) continue;
    oracle.result(c, place, (from) => inputs[from]!, recv);
    written.set(group[place], recv.slice());
  }
  return written;
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha1').update(bytes).digest('base64');
}
