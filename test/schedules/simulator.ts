/**
 * Executes the schedules of all ranks of a collective, one element at a time, in one thread: the reference against
 * which algorithms are checked without any native code.
 *
 * It is as strict as a transport may be: a send completes only once the matching receive is posted (rendezvous), so a
 * schedule that relies on buffering deadlocks here. Data moves at the latest possible moment: a message carries what
 * its source holds when its round ends, and lands only then; a transfer that depends on an order within a round goes
 * wrong. Local elements run in the order of the schedule.
 */
import {
  describeElement,
  type DecodedSchedule,
  type RecvElement,
  type Role,
  type ScheduleElement,
} from 'node-nbc/schedules';
import { blocksOf, isLocal, runLocal } from './local.js';

export interface RankState {
  schedule: DecodedSchedule;
  send: Uint8Array | null;
  receive: Uint8Array | null;
}

export class SimulationError extends Error {}

interface Message {
  /** A copy of the bytes sent. */
  data: Uint8Array;
  delivered: boolean;
}

interface PostedReceive {
  into: Uint8Array;
  element: RecvElement;
  message: Message | null;
}

interface Range {
  role: Role;
  start: number;
  end: number;
}

class SimulatedRank {
  readonly memory: [Uint8Array, Uint8Array, Uint8Array];
  round = -1;
  openSends: Message[] = [];
  openReceives: PostedReceive[] = [];

  constructor(
    readonly rank: number,
    readonly schedule: DecodedSchedule,
    send: Uint8Array | null,
    receive: Uint8Array | null,
  ) {
    // Temporary memory begins as rubbish: a schedule that reads it before writing it shows.
    const temp = new Uint8Array(schedule.tempBytes).fill(0xa5);
    this.memory = [send ?? new Uint8Array(0), receive ?? new Uint8Array(0), temp];
    if (this.memory[0].length < schedule.sendBytes) this.fail('the send buffer is too short');
    if (this.memory[1].length < schedule.receiveBytes) this.fail('the receive buffer is too short');
    for (const round of schedule.rounds) this.checkIndependent(round);
  }

  get finished(): boolean {
    return this.round === this.schedule.rounds.length;
  }

  get roundComplete(): boolean {
    return this.openSends.every((message) => message.delivered) && this.openReceives.every((r) => r.message !== null);
  }

  bytes(role: Role, offset: number, length: number): Uint8Array {
    const memory = this.memory[role];
    if (offset + length > memory.length)
      this.fail(`access beyond role ${role}: ${offset} + ${length} > ${memory.length}`);
    return memory.subarray(offset, offset + length);
  }

  fail(message: string): never {
    throw new SimulationError(`rank ${this.rank}, round ${this.round}: ${message}`);
  }

  private checkIndependent(round: ScheduleElement[]): void {
    for (const [index, element] of round.entries()) {
      const { reads, writes } = accesses(element);
      if (reads.some((read) => writes.some((write) => meet(read, write)))) {
        this.fail(`overlaps itself: ${describeElement(element)}`);
      }
      for (const other of round.slice(index + 1)) {
        if (isLocal(element) && isLocal(other)) continue;
        const theirs = accesses(other);
        const clash =
          writes.some((write) => [...theirs.reads, ...theirs.writes].some((range) => meet(write, range))) ||
          theirs.writes.some((write) => reads.some((range) => meet(write, range)));
        if (clash) this.fail(`not independent: ${describeElement(element)}; ${describeElement(other)}`);
      }
    }
  }
}

/**
 * Runs the collective. Returns how many rounds follow each other: the steps that it takes where every round takes one.
 *
 * @param local runs a local element; by default, what the element says
 * @throws {SimulationError} on deadlock, dependence within a round, unmatched or unequal messages.
 */
export function simulate(states: RankState[], local: typeof runLocal = runLocal): number {
  const ranks = states.map(({ schedule, send, receive }, rank) => new SimulatedRank(rank, schedule, send, receive));
  /** Per ordered pair (from × size + to): what has been sent, and what has been posted, in order. */
  const sent = new Map<number, Message[]>();
  const posted = new Map<number, PostedReceive[]>();
  const matched = new Map<number, number>();

  const startRound = (rank: SimulatedRank): void => {
    rank.round++;
    rank.openSends = [];
    rank.openReceives = [];
    if (rank.finished) return;
    for (const element of rank.schedule.rounds[rank.round]) {
      if (isLocal(element)) {
        local(element, (role, offset, bytes) => rank.bytes(role, offset, bytes));
        continue;
      }
      if (element.peer === rank.rank || element.peer >= ranks.length) rank.fail(`no peer: ${describeElement(element)}`);
      const data = rank.bytes(element.role, element.offset, element.bytes);
      if (element.kind === 'send') {
        const message = { data: data.slice(), delivered: false };
        rank.openSends.push(message);
        append(sent, rank.rank * ranks.length + element.peer, message);
      } else {
        const receive = { into: data, element, message: null };
        rank.openReceives.push(receive);
        append(posted, element.peer * ranks.length + rank.rank, receive);
      }
    }
  };

  const match = (): void => {
    for (const [pair, messages] of sent) {
      const receives = posted.get(pair) ?? [];
      let next = matched.get(pair) ?? 0;
      for (; next < Math.min(messages.length, receives.length); next++) {
        const message = messages[next];
        const receive = receives[next];
        if (message.data.length !== receive.into.length) {
          const to = ranks[pair % ranks.length];
          to.fail(`message of ${message.data.length} B meets: ${describeElement(receive.element)}`);
        }
        message.delivered = true;
        receive.message = message;
      }
      matched.set(pair, next);
    }
  };

  ranks.forEach(startRound);
  let steps = 0;
  for (let moved = true; moved;) {
    moved = false;
    match();
    for (const rank of ranks) {
      if (rank.finished || !rank.roundComplete) continue;
      for (const { into, message } of rank.openReceives) into.set(message!.data);
      startRound(rank);
      moved = true;
    }
    if (moved) steps++;
  }

  const stuck = ranks.filter((rank) => !rank.finished).map((rank) => `rank ${rank.rank} in round ${rank.round}`);
  if (stuck.length > 0) throw new SimulationError(`deadlock: ${stuck.join(', ')}`);
  for (const [pair, messages] of sent) {
    const receives = posted.get(pair)?.length ?? 0;
    if (messages.length !== receives)
      throw new SimulationError(`pair ${pair}: ${messages.length} sends, ${receives} receives`);
  }
  return steps;
}

function accesses(element: ScheduleElement): { reads: Range[]; writes: Range[] } {
  switch (element.kind) {
    case 'send':
      return { reads: [range(element.role, element.offset, element.bytes)], writes: [] };
    case 'recv':
      return { reads: [], writes: [range(element.role, element.offset, element.bytes)] };
    case 'copy':
    case 'reduce':
    case 'strided': {
      const blocks = blocksOf(element);
      return {
        reads: blocks.map(({ source, bytes }) => range(element.sourceRole, source, bytes)),
        writes: blocks.map(({ target, bytes }) => range(element.targetRole, target, bytes)),
      };
    }
  }
}

function range(role: Role, start: number, bytes: number): Range {
  return { role, start, end: start + bytes };
}

function meet(a: Range, b: Range): boolean {
  return a.role === b.role && a.start < b.end && b.start < a.end;
}

function append<T>(lists: Map<number, T[]>, key: number, value: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}
