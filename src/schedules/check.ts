/** Whether the schedules of all ranks fit together: what no rank can see alone. */
import { decodeSchedule, type DecodedSchedule, type RecvElement, Schedule, type SendElement } from './schedule.js';

/** What does not fit. Rounds are counted from 0. */
export interface ScheduleProblem {
  /**
   * - `rank`: a transfer with a rank that does not exist, or with its own
   * - `no receive`: a message that its receiver does not expect
   * - `no send`: a receive of a message that nobody sends
   * - `sizes`: sender and receiver disagree about the size of a message
   * - `cycle`: rounds that wait for each other
   */
  kind: 'rank' | 'no receive' | 'no send' | 'sizes' | 'cycle';
  /** The rank and the round in which it shows: of a message the sender's, if there is one. */
  rank: number;
  round: number;
  /** The other side of the transfer; in a cycle the rank that this one waits for. */
  peer: number;
  /** A sentence with all of that. */
  message: string;
}

/** A transfer and where it stands. */
interface Place {
  rank: number;
  round: number;
  peer: number;
  bytes: number;
}

/** Two sides of one message. */
type Pair = [send: Place, recv: Place];

/**
 * Checks the schedules of all ranks of a communicator, in the order of the ranks, against each other. An empty list
 * means: every message has its receive, of the same size, and the schedules run to their end whatever the timing is.
 *
 * Messages between two ranks match in their order. A round starts when the one before is complete. A send may have to
 * wait for its receive, as large messages do: so a cycle is reported even if it shows with large messages only.
 *
 * ```ts
 * const schedules = Array.from({ length: 8 }, (_, rank) => mySchedule(rank, 8));
 * assert.deepEqual(checkSchedules(schedules), []);
 * ```
 *
 * What concerns one rank alone (bounds, elements of a round that touch the same bytes) is checked by the builder and
 * before the schedule runs.
 */
export function checkSchedules(schedules: readonly (Schedule | DecodedSchedule)[]): ScheduleProblem[] {
  const decoded = schedules.map((schedule) =>
    schedule instanceof Schedule ? decodeSchedule(schedule.encode()) : schedule,
  );
  const problems: ScheduleProblem[] = [];
  const pairs = pairUp(decoded, problems);
  for (const pair of pairs) {
    const [send, recv] = pair;
    if (send.bytes === recv.bytes) continue;
    const message = `${nameOf(send, 'sends')} ${send.bytes} bytes to rank ${send.peer}, which expects ${recv.bytes} in round ${recv.round}`;
    problems.push({ kind: 'sizes', rank: send.rank, round: send.round, peer: send.peer, message });
  }
  const cycle = findCycle(decoded, pairs);
  if (cycle.length > 0) {
    const path = cycle.map(([rank, round]) => `rank ${rank} in round ${round}`).join(', which waits for ');
    const [[rank, round], [peer]] = [cycle[0], cycle[1]];
    problems.push({ kind: 'cycle', rank, round, peer, message: `${path}: none of them can go on` });
  }
  return problems;
}

/** Finds the two sides of each message; what has one side only is a problem. */
function pairUp(schedules: readonly DecodedSchedule[], problems: ScheduleProblem[]): Pair[] {
  const size = schedules.length;
  const sends = new Map<number, Place[]>();
  const recvs = new Map<number, Place[]>();
  for (const [rank, { rounds }] of schedules.entries()) {
    for (const [round, elements] of rounds.entries()) {
      for (const element of elements) {
        if (element.kind !== 'send' && element.kind !== 'recv') continue;
        const place = placeOf(rank, round, element);
        if (!(place.peer < size) || place.peer === rank) {
          const message = `${nameOf(place, 'has a transfer')} with rank ${place.peer}, of ${size} ranks`;
          problems.push({ kind: 'rank', rank, round, peer: place.peer, message });
          continue;
        }
        const [from, to] = element.kind === 'send' ? [rank, place.peer] : [place.peer, rank];
        append(element.kind === 'send' ? sends : recvs, from * size + to, place);
      }
    }
  }
  const pairs: Pair[] = [];
  for (const stream of new Set([...sends.keys(), ...recvs.keys()])) {
    const [sent, received] = [sends.get(stream) ?? [], recvs.get(stream) ?? []];
    const both = Math.min(sent.length, received.length);
    for (let i = 0; i < both; i++) pairs.push([sent[i], received[i]]);
    for (const { rank, round, peer, bytes } of sent.slice(both)) {
      const message = `rank ${rank} in round ${round} sends ${bytes} bytes to rank ${peer}, which does not receive them`;
      problems.push({ kind: 'no receive', rank, round, peer, message });
    }
    for (const { rank, round, peer, bytes } of received.slice(both)) {
      const message = `rank ${rank} in round ${round} receives ${bytes} bytes from rank ${peer}, which does not send them`;
      problems.push({ kind: 'no send', rank, round, peer, message });
    }
  }
  return pairs;
}

/**
 * Lets all ranks run, where a transfer is complete when both sides have started their rounds. If some cannot come to
 * their end, follows who waits for whom until a rank comes again.
 */
function findCycle(schedules: readonly DecodedSchedule[], pairs: readonly Pair[]): [rank: number, round: number][] {
  const needs: Place[][][] = schedules.map(({ rounds }) => rounds.map(() => []));
  for (const [send, recv] of pairs) {
    needs[send.rank][send.round].push(recv);
    needs[recv.rank][recv.round].push(send);
  }
  const current = schedules.map(() => 0);
  const awaited = (rank: number): Place | undefined =>
    needs[rank][current[rank]]?.find((other) => current[other.rank] < other.round);
  for (let moved = true; moved;) {
    moved = false;
    for (const [rank, { rounds }] of schedules.entries()) {
      while (current[rank] < rounds.length && awaited(rank) === undefined) {
        current[rank]++;
        moved = true;
      }
    }
  }
  let rank = schedules.findIndex(({ rounds }, index) => current[index] < rounds.length);
  if (rank < 0) return [];
  const path: number[] = [];
  while (!path.includes(rank)) {
    path.push(rank);
    rank = awaited(rank)!.rank;
  }
  return [...path.slice(path.indexOf(rank)), rank].map((member) => [member, current[member]]);
}

function placeOf(rank: number, round: number, { peer, bytes }: SendElement | RecvElement): Place {
  return { rank, round, peer, bytes };
}

function nameOf({ rank, round }: Place, verb: string): string {
  return `rank ${rank} in round ${round} ${verb}`;
}

function append(lists: Map<number, Place[]>, key: number, place: Place): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [place]);
  else list.push(place);
}
