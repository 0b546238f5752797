/**
 * Schedules: what one rank does in a collective, as data.
 *
 * A schedule is a list of rounds. The elements of a round (SEND, RECV, COPY) all start together and may finish in any
 * order; the next round starts when all of them are complete: a barrier that is local to the rank. So the elements of a
 * round must be independent: none may write what another one reads or writes. Elements name memory by role and byte
 * offset, never by address, so that one schedule serves every call of the same shape.
 *
 * Messages between two ranks match in the order of the schedules: the k-th SEND to p meets the k-th RECV from us at p.
 *
 * The encoding is a flat array of 32-bit words, in the order in which native code executes it (64-bit values as low
 * word, high word):
 *
 *     0      magic 'NBC1'
 *     1      number of rounds
 *     2, 3   bytes required of the send buffer
 *     4, 5   bytes required of the receive buffer
 *     6, 7   bytes of temporary memory
 *     per round:   count of elements, then that many of
 *       SEND       1  peer  role  offset(2)  length(2)
 *       RECV       2  peer  role  offset(2)  length(2)
 *       COPY       3  source role  source offset(2)  destination role  destination offset(2)  length(2)
 *
 * Source: T. Hoefler, A. Lumsdaine, W. Rehm, "Implementation and Performance Analysis of Non-Blocking Collective
 * Operations for MPI", SC'07 (schedules, rounds).
 */
import { ScheduleError } from '../errors.js';

/** Which memory an element means. The user's send buffer is never written. */
export const Role = {
  /** The buffer that the caller sends from. Read-only. */
  SEND: 0,
  /** The buffer that the caller receives into (for `ibcast`: the one buffer, on every rank). */
  RECEIVE: 1,
  /** Memory of the operation itself, uninitialised at its start. */
  TEMP: 2,
} as const;
export type Role = (typeof Role)[keyof typeof Role];

/** Kinds of elements, as encoded. */
export const ElementKind = { SEND: 1, RECV: 2, COPY: 3 } as const;

/** First word of an encoded schedule: 'NBC1', little-endian. */
export const SCHEDULE_MAGIC = 0x3143424e;

/** Words before the first round. */
const HEADER_WORDS = 8;
/** Words of the shortest element. */
const MIN_ELEMENT_WORDS = 7;

const TWO_TO_32 = 2 ** 32;
const ROLE_NAMES = ['send', 'receive', 'temp'] as const;

/**
 * Builds a schedule. Offsets and lengths are in bytes; peers are ranks of the communicator that will run it. Elements
 * of no bytes and rounds of no elements are left out, so that algorithms need no special cases for them.
 *
 * ```ts
 * // Rank 1 of 2 receives 8 bytes, then sends them back.
 * new Schedule().recv(0, Role.RECEIVE, 0, 8).round().send(0, Role.RECEIVE, 0, 8).round().encode();
 * ```
 *
 * @throws {ScheduleError} at once, where an element is impossible in itself. That elements of a round are independent
 *   is checked when the schedule is compiled.
 */
export class Schedule {
  /** Encoded rounds, without the header. */
  private readonly words: number[] = [];
  /** Index in `words` of the open round's count, or -1: the next element opens a round. */
  private openRound = -1;
  private rounds = 0;
  /** Bytes required of each role: the furthest byte that an element touches. */
  private readonly required: [number, number, number] = [0, 0, 0];

  /** Sends `bytes` from `role` + `offset` to rank `peer`. */
  send(peer: number, role: Role, offset: number, bytes: number): this {
    return this.transfer(ElementKind.SEND, peer, role, offset, bytes);
  }

  /** Receives `bytes` from rank `peer` into `role` + `offset`. The message must be exactly that long. */
  recv(peer: number, role: Role, offset: number, bytes: number): this {
    if (role === Role.SEND) throw new ScheduleError('RECV: the send buffer is read-only');
    return this.transfer(ElementKind.RECV, peer, role, offset, bytes);
  }

  /** Copies `bytes` within this rank. */
  copy(sourceRole: Role, sourceOffset: number, targetRole: Role, targetOffset: number, bytes: number): this {
    if (targetRole === Role.SEND) throw new ScheduleError('COPY: the send buffer is read-only');
    this.require('COPY source', sourceRole, sourceOffset, bytes);
    this.require('COPY target', targetRole, targetOffset, bytes);
    if (bytes === 0) return this;
    this.countElement();
    this.words.push(ElementKind.COPY, sourceRole, low(sourceOffset), high(sourceOffset));
    this.words.push(targetRole, low(targetOffset), high(targetOffset), low(bytes), high(bytes));
    return this;
  }

  /** Closes the round: what follows starts when everything before it is complete. */
  round(): this {
    this.openRound = -1;
    return this;
  }

  /** The encoding that native code compiles. The builder can go on being used. */
  encode(): Uint32Array {
    const encoded = new Uint32Array(HEADER_WORDS + this.words.length);
    encoded[0] = SCHEDULE_MAGIC;
    encoded[1] = this.rounds;
    for (const [role, bytes] of this.required.entries()) {
      encoded[2 + 2 * role] = low(bytes);
      encoded[3 + 2 * role] = high(bytes);
    }
    encoded.set(this.words, HEADER_WORDS);
    return encoded;
  }

  /** The schedule as text, one line per element. */
  describe(): string {
    return describeSchedule(decodeSchedule(this.encode()));
  }

  toString(): string {
    return this.describe();
  }

  private transfer(kind: number, peer: number, role: Role, offset: number, bytes: number): this {
    const name = kind === ElementKind.SEND ? 'SEND' : 'RECV';
    if (!Number.isInteger(peer) || peer < 0 || peer >= TWO_TO_32) throw new ScheduleError(`${name}: no rank: ${peer}`);
    this.require(name, role, offset, bytes);
    this.countElement();
    // An empty message is sent, too: only so do both ranks learn that the other one expects something else. Where it
    // lies in the buffer does not matter.
    const start = bytes > 0 ? offset : 0;
    this.words.push(kind, peer, role, low(start), high(start), low(bytes), high(bytes));
    return this;
  }

  /** Checks a range of a role and grows what the schedule requires of it. */
  private require(what: string, role: Role, offset: number, bytes: number): void {
    if (!(role in ROLE_NAMES)) throw new ScheduleError(`${what}: no role: ${String(role)}`);
    if (!isByteCount(offset)) throw new ScheduleError(`${what}: no byte offset: ${offset}`);
    if (!isByteCount(bytes) || !isByteCount(offset + bytes)) throw new ScheduleError(`${what}: no length: ${bytes}`);
    if (bytes > 0) this.required[role] = Math.max(this.required[role], offset + bytes);
  }

  private countElement(): void {
    if (this.openRound < 0) {
      this.openRound = this.words.push(0) - 1;
      this.rounds++;
    }
    this.words[this.openRound]++;
  }
}

export interface SendElement {
  kind: 'send';
  peer: number;
  role: Role;
  offset: number;
  bytes: number;
}
export interface RecvElement {
  kind: 'recv';
  peer: number;
  role: Role;
  offset: number;
  bytes: number;
}
export interface CopyElement {
  kind: 'copy';
  sourceRole: Role;
  sourceOffset: number;
  targetRole: Role;
  targetOffset: number;
  bytes: number;
}
export type ScheduleElement = SendElement | RecvElement | CopyElement;

export interface DecodedSchedule {
  /** Bytes that each buffer must have at least. */
  sendBytes: number;
  receiveBytes: number;
  tempBytes: number;
  rounds: ScheduleElement[][];
}

/**
 * Reads an encoded schedule back.
 * @throws {ScheduleError} naming the word, where it is no schedule.
 */
export function decodeSchedule(words: Uint32Array): DecodedSchedule {
  let at = 0;
  const word = (): number => {
    if (at >= words.length) throw new ScheduleError(`word ${at}: the schedule ends too early`);
    return words[at++];
  };
  const wide = (): number => {
    const value = word() + word() * TWO_TO_32;
    if (!Number.isSafeInteger(value)) throw new ScheduleError(`word ${at - 2}: no byte count: ${value}`);
    return value;
  };
  const role = (writable: boolean): Role => {
    const value = word();
    if (value > Role.TEMP) throw new ScheduleError(`word ${at - 1}: no role: ${value}`);
    if (writable && value === Role.SEND) throw new ScheduleError(`word ${at - 1}: the send buffer is read-only`);
    return value as Role;
  };
  const element = (): ScheduleElement => {
    const kind = word();
    switch (kind) {
      case ElementKind.SEND:
        return { kind: 'send', peer: word(), role: role(false), offset: wide(), bytes: wide() };
      case ElementKind.RECV:
        return { kind: 'recv', peer: word(), role: role(true), offset: wide(), bytes: wide() };
      case ElementKind.COPY:
        return {
          kind: 'copy',
          sourceRole: role(false),
          sourceOffset: wide(),
          targetRole: role(true),
          targetOffset: wide(),
          bytes: wide(),
        };
      default:
        throw new ScheduleError(`word ${at - 1}: no kind of element: ${kind}`);
    }
  };

  if (word() !== SCHEDULE_MAGIC) throw new ScheduleError('word 0: not a schedule');
  const roundCount = word();
  const decoded: DecodedSchedule = { sendBytes: wide(), receiveBytes: wide(), tempBytes: wide(), rounds: [] };
  for (let round = 0; round < roundCount; round++) {
    const count = word();
    // Absurd counts are refused before room is made for them.
    if (count > (words.length - at) / MIN_ELEMENT_WORDS) {
      throw new ScheduleError(`word ${at - 1}: more elements than words: ${count}`);
    }
    decoded.rounds.push(Array.from({ length: count }, element));
  }
  if (at !== words.length) throw new ScheduleError(`word ${at}: words after the last round`);
  return decoded;
}

/** A decoded schedule as text: a line with the sizes, a line per round, a line per element. */
export function describeSchedule(schedule: DecodedSchedule): string {
  const { sendBytes, receiveBytes, tempBytes, rounds } = schedule;
  const lines = [`${rounds.length} rounds; send ${sendBytes} B, receive ${receiveBytes} B, temp ${tempBytes} B`];
  for (const [index, round] of rounds.entries()) {
    lines.push(`round ${index}`);
    for (const element of round) lines.push(`  ${describeElement(element)}`);
  }
  return lines.join('\n');
}

export function describeElement(element: ScheduleElement): string {
  switch (element.kind) {
    case 'send':
      return `send ${element.bytes} B from ${place(element.role, element.offset)} to rank ${element.peer}`;
    case 'recv':
      return `recv ${element.bytes} B into ${place(element.role, element.offset)} from rank ${element.peer}`;
    case 'copy':
      return (
        `copy ${element.bytes} B from ${place(element.sourceRole, element.sourceOffset)}` +
        ` to ${place(element.targetRole, element.targetOffset)}`
      );
  }
}

function place(role: Role, offset: number): string {
  return `${ROLE_NAMES[role]}+${offset}`;
}

function isByteCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function low(value: number): number {
  return value >>> 0;
}

function high(value: number): number {
  return Math.floor(value / TWO_TO_32);
}
