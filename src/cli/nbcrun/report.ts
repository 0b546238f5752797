/**
 * What the ranks of a job wait for: nbcrun asks each process over a socket of its own (native/addon/reporter.h), and
 * says who waits for whom.
 */
import type { Duplex } from 'node:stream';

/** What a rank answers: one line of JSON, or, of a thread, a part of one. */
export interface Answer {
  /**
   * Where its program is. `outside`: it has not called `init()`. `closed`: no world is open. `silent`: a thread holds
   * its operations and does not answer.
   */
  caller: 'program' | 'waits' | 'awaits' | 'outside' | 'closed' | 'silent';
  /** Rounds and operations that it has started so far. */
  steps?: number;
  /** Operations. */
  pending?: number;
  /** Milliseconds since the oldest of them was started. */
  longest?: number;
  /** Ranks that they wait for, ascending. */
  peers?: number[];
  /** For people. */
  text?: string;
}

/** How long ranks have to answer. */
const ANSWER_MS = 1500;
/** A job is stuck if one of its operations takes longer than this. */
const STUCK_MS = 2000;
/** So many ranks are described each by itself. */
const MOST = 64;

/** What a process of several ranks answers: those of its threads that have a world open. */
interface ThreadsAnswer {
  caller: 'threads';
  ranks: (Answer & { rank: number })[];
}

/** What a rank says whose watchdog has found an operation that makes no step. */
export interface Stuck {
  caller: 'stuck';
  rank: number;
  steps: number;
  pending: number;
}

/** The line to a process, which is a rank, or several. */
export class ProcessLine {
  readonly #socket: Duplex;
  readonly #ranks: readonly number[];
  #text = '';
  /** A rank of it has called `init()`. */
  #here = false;
  #waiting: ((answer: Answer | ThreadsAnswer | undefined) => void) | undefined;

  constructor(socket: Duplex, ranks: readonly number[], stuck: (said: Stuck) => void) {
    this.#socket = socket;
    this.#ranks = ranks;
    socket.on('error', () => undefined); // the rank has just ended
    socket.on('close', () => this.#answer(undefined));
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      const lines = (this.#text + text).split('\n');
      this.#text = lines.pop()!;
      for (const line of lines) {
        const said = parse(line);
        if (said === undefined) continue; // a program of the rank's wrote to the socket
        if (said.caller === 'here') this.#here = true;
        else if (said.caller === 'stuck') stuck(said);
        else this.#answer(said);
      }
    });
  }

  /** By rank; undefined: no answer in time, since the process is stopped, or has ended. */
  async ask(): Promise<[number, Answer | undefined][]> {
    const answer = await this.#askProcess();
    const answers = answer?.caller === 'threads' ? new Map(answer.ranks.map((one) => [one.rank, one])) : undefined;
    return this.#ranks.map((rank) => [
      rank,
      answers === undefined ? (answer as Answer | undefined) : (answers.get(rank) ?? { caller: 'closed' }),
    ]);
  }

  close(): void {
    this.#socket.destroy();
  }

  async #askProcess(): Promise<Answer | ThreadsAnswer | undefined> {
    if (!this.#here) return { caller: 'outside' };
    let late: NodeJS.Timeout | undefined;
    const answer = new Promise<Answer | ThreadsAnswer | undefined>((resolve) => {
      this.#waiting = resolve;
      late = setTimeout(() => this.#answer(undefined), ANSWER_MS);
    });
    this.#socket.write('?');
    return answer.finally(() => clearTimeout(late));
  }

  #answer(answer: Answer | ThreadsAnswer | undefined): void {
    this.#waiting?.(answer);
    this.#waiting = undefined;
  }
}

function parse(line: string): Partial<Answer> | ThreadsAnswer | Stuck | { caller: 'here' } | undefined {
  try {
    return JSON.parse(line) as Partial<Answer>;
  } catch {
    return undefined;
  }
}

/** The answers of ranks that run, by rank. */
export type Answers = Map<number, Answer | undefined>;

/** @param runs whether a rank has not ended */
export async function askAll(lines: Iterable<ProcessLine>, runs: (rank: number) => boolean): Promise<Answers> {
  const answers = await Promise.all([...lines].map((line) => line.ask()));
  return new Map(
    answers
      .flat()
      .filter(([rank]) => runs(rank))
      .sort(([a], [b]) => a - b),
  );
}

/** Whether some operation has waited for so long that a person would call the job stuck. */
export function isStuck(answers: Answers): boolean {
  return [...answers.values()].some((answer) => (answer?.longest ?? 0) >= STUCK_MS);
}

/** The report, line by line. @param size ranks of the job */
export function describe(answers: Answers, size: number): string[] {
  const all = [...answers];
  const lines = all.slice(0, MOST).flatMap(([rank, answer]) => lineOf(rank, answer));
  if (all.length > MOST) lines.push(`  and ${all.length - MOST} ranks more`);
  const ended = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !answers.has(rank));
  if (ended.length > 0) lines.push(`${nameRanks(ended)} ${ended.length === 1 ? 'has' : 'have'} ended`);
  return [...lines, ...causes(answers)];
}

const PLACES: Partial<Record<Answer['caller'], string>> = {
  outside: 'has not called init()',
  closed: 'has no world open',
  silent: 'does not drive its operations, though a thread of its has them',
};

function lineOf(rank: number, answer: Answer | undefined): string[] {
  if (answer === undefined) return [`rank ${rank} does not answer: it is stopped, or ends`];
  const text = PLACES[answer.caller] ?? `is ${answer.text ?? ''}`;
  return `rank ${rank} ${text}`.trimEnd().split('\n');
}

/** Who keeps the others waiting. */
export interface Causes {
  /** Ranks that are awaited and wait for nobody, ascending, with those that wait for them. */
  elsewhere: [number, number[]][];
  /** If there are none: its first rank is also its last one. Empty: there is none. */
  circle: number[];
}

export function findCauses(answers: Answers): Causes {
  const awaitedBy = new Map<number, number[]>();
  for (const [rank, answer] of answers) {
    for (const peer of answer?.peers ?? []) awaitedBy.set(peer, [...(awaitedBy.get(peer) ?? []), rank]);
  }
  const elsewhere = [...awaitedBy]
    .filter(([rank]) => (answers.get(rank)?.peers ?? []).length === 0)
    .sort(([a], [b]) => a - b);
  const circle = elsewhere.length > 0 || awaitedBy.size === 0 ? undefined : findCircle(answers);
  return { elsewhere, circle: circle ?? [] };
}

function causes(answers: Answers): string[] {
  const { elsewhere, circle } = findCauses(answers);
  if (circle.length > 0) return [`ranks wait for each other in a circle: ${circle.join(' -> ')}`];
  return elsewhere.map(([rank, by]) => {
    return `${nameRanks(by)} ${by.length === 1 ? 'waits' : 'wait'} for rank ${rank}, which ${reason(rank, answers)}`;
  });
}

function reason(rank: number, answers: Answers): string {
  if (!answers.has(rank)) return 'has ended';
  const answer = answers.get(rank);
  if (answer === undefined) return 'does not answer';
  return (
    PLACES[answer.caller] ??
    (answer.pending === 0 ? 'has nothing pending: it is elsewhere in its program' : 'waits for no rank itself')
  );
}

/** A closed path along "waits for", from its lowest rank; every rank on it has answered. */
function findCircle(answers: Answers): number[] | undefined {
  const visited = new Set<number>();
  for (const start of answers.keys()) {
    const path: number[] = [];
    // Each rank that is awaited waits for another one, so this ends where it has been before.
    for (let rank: number | undefined = start; rank !== undefined && !visited.has(rank);) {
      visited.add(rank);
      path.push(rank);
      const next: number | undefined = answers.get(rank)?.peers?.[0];
      const back: number = next === undefined ? -1 : path.indexOf(next);
      if (back >= 0) {
        const circle = path.slice(back);
        const lowest = circle.indexOf(Math.min(...circle));
        const turned = [...circle.slice(lowest), ...circle.slice(0, lowest)];
        return [...turned, turned[0]];
      }
      rank = next;
    }
  }
  return undefined;
}

/** "ranks 0, 1 and 2" */
export function nameRanks(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const shown = ranks.slice(0, 8);
  const last = ranks.length > 8 ? `${ranks.length - 8} more` : `${shown.pop()}`;
  return `ranks ${shown.join(', ')} and ${last}`;
}
