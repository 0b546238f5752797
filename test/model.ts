/**
 * What a plan (programs/plan.ts) must do, computed serially in one process: every step runs to its end, on all ranks,
 * before the next.
 */
import { createHash } from 'node:crypto';
import { gridLists, type Lists } from './lists.js';
import { arrange, contribution } from './oracle.js';
import {
  BUFFERS,
  buffersOf,
  bytesOf,
  caseOf,
  chosen,
  type CollectiveStep,
  type CommunicatorStep,
  type DataStep,
  endsOf,
  type ExchangeStep,
  graphOf,
  gridOf,
  hasNeighbors,
  initialContent,
  type MessageStep,
  oracleOf,
  peersOf,
  type Plan,
  type Region,
  regionOf,
} from './programs/plan.js';

export interface Outcome {
  /** Hash of what each step wrote, by number of the step. */
  hashes: Record<number, string>;
  /** Hashes of all buffers at the end. */
  final: string[];
}

/** The ranks of a communicator: world ranks, in the order of the group, and their neighbours if it has a topology. */
interface Group {
  members: number[];
  lists?: readonly Lists[];
}
/** What one step that makes communicators has made: in each group of its parent, one or several. */
interface Made {
  groups: Group[];
  neighbors: boolean;
}

export function runSerially(plan: Plan): Outcome[] {
  const ranks = Array.from({ length: plan.ranks }, (_, rank) => rank);
  const memory = ranks.map((rank) =>
    Array.from({ length: BUFFERS }, (_, index) => Uint8Array.from(initialContent(rank, index))),
  );
  const outcomes: Outcome[] = ranks.map(() => ({ hashes: {}, final: [] }));
  const communicators: Made[] = [{ groups: [{ members: ranks }], neighbors: false }];
  const persistent: (() => Map<number, Uint8Array>)[] = [];

  for (const [index, step] of plan.steps.entries()) {
    if ('parent' in step) {
      const parent = communicators[step.parent % communicators.length];
      communicators.push({ groups: madeBy(step, parent), neighbors: hasNeighbors(step, parent) });
      continue;
    }
    let run: (() => Map<number, Uint8Array>) | undefined;
    if (step.kind === 'again') {
      run = persistent.at(step.of % persistent.length); // undefined: there is none yet
    } else {
      const groups = chosen(step, communicators)?.groups ?? [];
      run = () => new Map(groups.flatMap((group) => [...runStep(memory, group, step)]));
      if ('persistent' in step && step.persistent) persistent.push(run);
    }
    for (const [rank, written] of run?.() ?? []) outcomes[rank].hashes[index] = hashOf(written);
  }
  for (const rank of ranks) outcomes[rank].final = memory[rank].map(hashOf);
  return outcomes;
}

function madeBy(step: CommunicatorStep, { groups }: Made): Group[] {
  switch (step.kind) {
    case 'dup':
      return groups;
    case 'split':
      return groups.flatMap(({ members }) => splitGroup(members, step.colors, step.keys));
    case 'cart':
      return groups.map(({ members }) => {
        const { dims, periods } = gridOf(step, members.length);
        const lists = gridLists(dims, periods);
        return { members: members.slice(0, lists.length), lists };
      });
    case 'graph':
      return groups.map(({ members }) => ({ members, lists: graphOf(step, members.length) }));
  }
}

/** MPI_Comm_split: one group for each color, ordered by key and then by rank in the old group. */
function splitGroup(group: number[], colors: number[], keys: number[]): Group[] {
  const distinct = [...new Set(group.map((rank) => colors[rank]))].filter((color) => color >= 0);
  return distinct.map((color) => ({
    members: group
      .map((rank, place) => ({ rank, place }))
      .filter(({ rank }) => colors[rank] === color)
      .sort((a, b) => keys[a.rank] - keys[b.rank] || a.place - b.place)
      .map(({ rank }) => rank),
  }));
}

type Memory = Uint8Array[][];

/** What a rank uses of its buffers in a step. */
function region(memory: Memory, step: DataStep, rank: number, role: 'send' | 'recv', bytes: number): Region {
  const { send, receive } = buffersOf(step, rank);
  return regionOf(memory[rank][role === 'send' ? send : receive], step, rank, role, bytes);
}

/** Returns what was written, by world rank. */
function runStep(memory: Memory, group: Group, step: DataStep): Map<number, Uint8Array> {
  if (step.kind === 'message') return runMessage(memory, group, step);
  return step.kind === 'exchange' ? runExchange(memory, group, step) : runCollective(memory, group, step);
}

function runMessage(memory: Memory, { members }: Group, step: MessageStep): Map<number, Uint8Array> {
  const ends = endsOf(step, members.length);
  if (ends === null) return new Map();
  const bytes = bytesOf(step);
  const message = region(memory, step, members[ends.from], 'send', bytes).read();
  region(memory, step, members[ends.to], 'recv', bytes).write(message);
  return new Map([[members[ends.to], message]]);
}

function runExchange(memory: Memory, { members }: Group, step: ExchangeStep): Map<number, Uint8Array> {
  const bytes = bytesOf(step);
  const written = new Map<number, Uint8Array>();
  const messages = members.map((rank) => region(memory, step, rank, 'send', bytes).read());
  for (const [place, rank] of members.entries()) {
    const { source } = peersOf(step, place, members.length);
    if (source === null) continue;
    region(memory, step, rank, 'recv', bytes).write(messages[source]);
    written.set(rank, messages[source]);
  }
  return written;
}

function runCollective(memory: Memory, { members, lists }: Group, step: CollectiveStep): Map<number, Uint8Array> {
  const oracle = oracleOf(step);
  const c = caseOf(step, members.length, lists);
  const regions: { recv?: Region }[] = members.map(() => ({}));
  const parts = members.map((rank, place) =>
    arrange(oracle, c, place, (bytes, role) => {
      const used = region(memory, step, rank, role, bytes);
      if (role === 'recv') regions[place].recv = used;
      return used.read();
    }),
  );
  const inputs = parts.map((part, place) => contribution(oracle, c, place, part)?.slice());
  const written = new Map<number, Uint8Array>();
  for (const [place, { recv }] of parts.entries()) {
    if (recv === null) continue;
    oracle.result(c, place, (from) => inputs[from]!, recv);
    regions[place].recv!.write(recv);
    written.set(members[place], recv);
  }
  return written;
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha1').update(bytes).digest('base64');
}
