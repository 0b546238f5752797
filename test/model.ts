/**
 * What a plan (programs/plan.ts) must do, computed serially in one process: every step runs to its end, on all ranks,
 * before the next.
 */
import { createHash } from 'node:crypto';
import { BUFFERS, buffersOf, bytesOf, type DataStep, endsOf, initialContent, type Plan } from './programs/plan.js';

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

/** Returns what was written, by world rank. */
function runStep(memory: Uint8Array[][], group: number[], step: DataStep): Map<number, Uint8Array> {
  const size = group.length;
  const region = (rank: number, which: 'send' | 'receive', bytes: number, block = 0): Uint8Array => {
    const start = step.shift + block * bytes;
    return memory[rank][buffersOf(step, rank)[which]].subarray(start, start + bytes);
  };
  const written = new Map<number, Uint8Array>();
  switch (step.kind) {
    case 'ibcast': {
      const bytes = bytesOf(step, 1);
      const message = region(group[step.root % size], 'receive', bytes).slice();
      for (const rank of group) {
        region(rank, 'receive', bytes).set(message);
        written.set(rank, message);
      }
      break;
    }
    case 'igather': {
      const bytes = bytesOf(step, size);
      const root = group[step.root % size];
      for (const [place, rank] of group.entries()) {
        if (rank === root && step.inPlace) continue;
        region(root, 'receive', bytes, place).set(region(rank, 'send', bytes));
      }
      written.set(root, whole(root, bytes).slice());
      break;
    }
    case 'ialltoall': {
      const bytes = bytesOf(step, size);
      const from = step.inPlace ? 'receive' : 'send';
      const blocks = group.map((rank) => group.map((_, place) => region(rank, from, bytes, place).slice()));
      for (const [place, rank] of group.entries()) {
        for (const other of group.keys()) region(rank, 'receive', bytes, other).set(blocks[other][place]);
        written.set(rank, whole(rank, bytes).slice());
      }
      break;
    }
    case 'message': {
      const ends = endsOf(step, size);
      if (ends === null) break;
      const bytes = bytesOf(step, 1);
      const target = region(group[ends.to], 'receive', bytes);
      target.set(region(group[ends.from], 'send', bytes));
      written.set(group[ends.to], target.slice());
    }
  }
  return written;

  function whole(rank: number, bytes: number): Uint8Array {
    return memory[rank][buffersOf(step, rank).receive].subarray(step.shift, step.shift + size * bytes);
  }
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha1').update(bytes).digest('base64');
}
