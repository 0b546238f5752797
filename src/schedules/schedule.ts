/**
 * Schedules: what one rank does in a collective, as data.
 *
 * A schedule is a list of rounds. The transfers of a round (SEND, RECV) all start together and may finish in any order.
 * Its local elements (COPY, REDUCE, STRIDED) run beside them, one after another, in the order of the schedule. The next
 * round starts when all elements are complete: a barrier that is local to the rank. What a transfer writes, no other
 * element of its round may touch; what it reads, none may write. Elements name memory by role and byte offset, never by
 * address, so that one schedule serves every call of the same shape.
 *
 * Messages between two ranks match in the order of the schedules: the k-th SEND to p meets the k-th RECV from us at p.
 *
 * Source: T. Hoefler, A. Lumsdaine, W. Rehm, "Implementation and Performance Analysis of Non-Blocking Collective
 * Operations for MPI", SC'07 (schedules, rounds).
 */
import { ScheduleError, show } from '../errors.js';
import {
  DIMENSION,
  ElementKind,
  ELEMENTS,
  ElementType,
  FIELD_WORDS,
  type Fields,
  type FieldType,
  HEADER,
  isDefined,
  isPaired,
  MAX_DIMENSIONS,
  Operator,
  Order,
  Role,
  SCHEDULE_MAGIC,
  TYPE_BYTES,
  wordsOf,
} from './encoding.js';

export { Role } from './encoding.js';

const HEADER_WORDS = wordsOf(HEADER);
const TWO_TO_32 = 2 ** 32;
const ROLE_NAMES = ['send', 'receive', 'temp'] as const;
const ROLES: ReadonlySet<number> = new Set(Object.values(Role));
const OPERATORS: ReadonlySet<number> = new Set(Object.values(Operator));
const TYPES: ReadonlySet<number> = new Set(Object.values(ElementType));
const ORDERS: ReadonlySet<number> = new Set(Object.values(Order));

/** The fields of a table, and whether each takes two words: looked up once, since a schedule has thousands of them. */
type Coding = readonly (readonly [name: string, wide: boolean])[];
const codingOf = (fields: Fields): Coding =>
  Object.entries(fields).map(([name, type]) => [name, FIELD_WORDS[type] === 2] as const);
const CODING = {
  HEADER: codingOf(HEADER),
  SEND: codingOf(ELEMENTS.SEND),
  RECV: codingOf(ELEMENTS.RECV),
  COPY: codingOf(ELEMENTS.COPY),
  REDUCE: codingOf(ELEMENTS.REDUCE),
  STRIDED: codingOf(ELEMENTS.STRIDED),
  DIMENSION: codingOf(DIMENSION),
};

/** One dimension of a strided copy. Strides are in bytes, and not negative. */
export interface Dimension {
  count: number;
  sourceStride: number;
  targetStride: number;
}

/**
 * Builds a schedule. Offsets and lengths are in bytes; peers are ranks of the communicator that will run it. Local
 * elements of no bytes and rounds of no elements are left out, so that algorithms need no special cases for them. An
 * empty message is sent: only so do both ranks learn that the other one expects something else.
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
    requireRank('SEND', peer);
    this.require('SEND', role, offset, bytes);
    return this.append('SEND', { peer, role, offset: bytes > 0 ? offset : 0, bytes });
  }

  /** Receives `bytes` from rank `peer` into `role` + `offset`. The message must be exactly that long. */
  recv(peer: number, role: Role, offset: number, bytes: number): this {
    requireRank('RECV', peer);
    this.requireTarget('RECV', role, offset, bytes);
    return this.append('RECV', { peer, role, offset: bytes > 0 ? offset : 0, bytes });
  }

  /** Copies `bytes` within this rank. */
  copy(sourceRole: Role, sourceOffset: number, targetRole: Role, targetOffset: number, bytes: number): this {
    this.require('COPY source', sourceRole, sourceOffset, bytes);
    this.requireTarget('COPY', targetRole, targetOffset, bytes);
    if (bytes === 0) return this;
    return this.append('COPY', { sourceRole, sourceOffset, targetRole, targetOffset, bytes });
  }

  /**
   * Combines `bytes` of both places, element by element, and leaves the result in the target. `bytes` is a multiple of
   * the element's size, or of a pair's (MINLOC, MAXLOC).
   * @param order which operand stands on the left: by default target = source op target. The source comes from lower
   *   ranks then.
   */
  reduce(
    operator: Operator,
    type: ElementType,
    sourceRole: Role,
    sourceOffset: number,
    targetRole: Role,
    targetOffset: number,
    bytes: number,
    order: Order = Order.SOURCE_FIRST,
  ): this {
    requireMember('operator', OPERATORS, operator);
    requireMember('element type', TYPES, type);
    requireMember('order', ORDERS, order);
    if (!isDefined(operator, type)) {
      throw new ScheduleError(`REDUCE: ${nameOf(Operator, operator)} is not defined for ${nameOf(ElementType, type)}`);
    }
    const unit = TYPE_BYTES[type] * (isPaired(operator) ? 2 : 1);
    this.require('REDUCE source', sourceRole, sourceOffset, bytes);
    this.requireTarget('REDUCE', targetRole, targetOffset, bytes);
    if (bytes % unit !== 0) throw new ScheduleError(`REDUCE: ${bytes} bytes are not a multiple of ${unit}`);
    if (bytes === 0) return this;
    const fields = { operator, type, order, sourceRole, sourceOffset, targetRole, targetOffset, bytes };
    return this.append('REDUCE', fields);
  }

  /**
   * Copies blocks of `blockBytes` within this rank: an n-dimensional box from one layout to another. `dimensions` lists
   * the outermost first; block (i, j, …) is at offset + i · stride + j · stride + … on both sides.
   */
  strided(
    sourceRole: Role,
    sourceOffset: number,
    targetRole: Role,
    targetOffset: number,
    blockBytes: number,
    dimensions: readonly Dimension[],
  ): this {
    const list: unknown = dimensions;
    if (!Array.isArray(list) || !isByteCount(blockBytes)) {
      throw new ScheduleError(`STRIDED: no blocks: ${show(blockBytes)} bytes and ${show(dimensions)}`);
    }
    if (dimensions.length > MAX_DIMENSIONS) {
      throw new ScheduleError(`STRIDED: at most ${MAX_DIMENSIONS} dimensions, not ${dimensions.length}`);
    }
    for (const dimension of dimensions as readonly (Dimension | null | undefined)[]) {
      const { count, sourceStride, targetStride } = dimension ?? {};
      if (!isByteCount(count)) throw new ScheduleError(`STRIDED: no count: ${show(count)}`);
      if (!isByteCount(sourceStride)) throw new ScheduleError(`STRIDED: no stride: ${show(sourceStride)}`);
      if (!isByteCount(targetStride)) throw new ScheduleError(`STRIDED: no stride: ${show(targetStride)}`);
    }
    const empty = blockBytes === 0 || dimensions.some(({ count }) => count === 0);
    const extent = (stride: 'sourceStride' | 'targetStride'): number =>
      empty
        ? 0
        : dimensions.reduce((bytes, dimension) => bytes + (dimension.count - 1) * dimension[stride], blockBytes);
    this.require('STRIDED source', sourceRole, sourceOffset, extent('sourceStride'));
    this.requireTarget('STRIDED', targetRole, targetOffset, extent('targetStride'));
    if (empty) return this;
    const fields = { sourceRole, sourceOffset, targetRole, targetOffset, blockBytes, dimensions: dimensions.length };
    this.append('STRIDED', fields);
    for (const { count, sourceStride, targetStride } of dimensions) {
      encodeFields(this.words, CODING.DIMENSION, { count, sourceStride, targetStride });
    }
    return this;
  }

  /** Closes the round: what follows starts when everything before it is complete. */
  round(): this {
    this.openRound = -1;
    return this;
  }

  /** The encoding that native code compiles. The builder can go on being used. */
  encode(): Uint32Array {
    const header: number[] = [];
    const [sendBytes, receiveBytes, tempBytes] = this.required;
    encodeFields(header, CODING.HEADER, {
      magic: SCHEDULE_MAGIC,
      rounds: this.rounds,
      sendBytes,
      receiveBytes,
      tempBytes,
    });
    const encoded = new Uint32Array(HEADER_WORDS + this.words.length);
    encoded.set(header);
    encoded.set(this.words, HEADER_WORDS);
    return encoded;
  }

  /** @internal Grows with each element. */
  get words32(): number {
    return this.words.length;
  }

  /** The schedule as text, one line per element. */
  describe(): string {
    return describeSchedule(decodeSchedule(this.encode()));
  }

  toString(): string {
    return this.describe();
  }

  private append<Kind extends keyof typeof ELEMENTS>(
    kind: Kind,
    values: Record<keyof (typeof ELEMENTS)[Kind], number>,
  ): this {
    this.countElement();
    this.words.push(ElementKind[kind]);
    encodeFields(this.words, CODING[kind], values);
    return this;
  }

  private requireTarget(what: string, role: Role, offset: number, bytes: number): void {
    if (role === Role.SEND) throw new ScheduleError(`${what}: the send buffer is read-only`);
    this.require(`${what} target`, role, offset, bytes);
  }

  /** Checks a range of a role and grows what the schedule requires of it. */
  private require(what: string, role: Role, offset: number, bytes: number): void {
    if (!ROLES.has(role)) throw new ScheduleError(`${what}: no role: ${show(role)}`);
    if (!isByteCount(offset)) throw new ScheduleError(`${what}: no byte offset: ${show(offset)}`);
    if (!isByteCount(bytes) || !isByteCount(offset + bytes))
      throw new ScheduleError(`${what}: no length: ${show(bytes)}`);
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
export interface ReduceElement {
  kind: 'reduce';
  operator: Operator;
  type: ElementType;
  order: Order;
  sourceRole: Role;
  sourceOffset: number;
  targetRole: Role;
  targetOffset: number;
  bytes: number;
}
export interface StridedElement {
  kind: 'strided';
  sourceRole: Role;
  sourceOffset: number;
  targetRole: Role;
  targetOffset: number;
  blockBytes: number;
  dimensions: Dimension[];
}
export type ScheduleElement = SendElement | RecvElement | CopyElement | ReduceElement | StridedElement;

export interface DecodedSchedule {
  /** Bytes that each buffer must have at least. */
  sendBytes: number;
  receiveBytes: number;
  tempBytes: number;
  rounds: ScheduleElement[][];
}

const KIND_NAMES = new Map(Object.entries(ElementKind).map(([name, kind]) => [kind as number, name]));
/** Words of the shortest element. */
const MIN_ELEMENT_WORDS = 1 + Math.min(...Object.values(ELEMENTS).map(wordsOf));

/** Values that a field of one word must be below. */
const LIMITS: Partial<Record<FieldType, number>> = {
  source: Object.keys(Role).length,
  target: Object.keys(Role).length,
  op: Object.keys(Operator).length,
  type: Object.keys(ElementType).length,
  order: Object.keys(Order).length,
  dimensions: MAX_DIMENSIONS + 1,
};

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
  const field = (name: string, type: FieldType): number => {
    const start = at;
    const value = FIELD_WORDS[type] === 2 ? word() + word() * TWO_TO_32 : word();
    const good = Number.isSafeInteger(value) && value < (LIMITS[type] ?? Infinity);
    if (!good) throw new ScheduleError(`word ${start}: ${name} cannot be ${value}`);
    if (type === 'target' && value === Role.SEND) {
      throw new ScheduleError(`word ${start}: the send buffer is read-only`);
    }
    return value;
  };
  const read = <F extends Fields>(fields: F): Record<keyof F, number> =>
    Object.fromEntries(Object.entries(fields).map(([name, type]) => [name, field(name, type)])) as never;
  const element = (): ScheduleElement => {
    const kind = word();
    const name = KIND_NAMES.get(kind);
    if (name === undefined) throw new ScheduleError(`word ${at - 1}: no kind of element: ${kind}`);
    const fields: Record<string, unknown> = read(ELEMENTS[name as keyof typeof ELEMENTS]);
    if (typeof fields['dimensions'] === 'number') {
      fields['dimensions'] = Array.from({ length: fields['dimensions'] }, () => read(DIMENSION));
    }
    const { operator, type } = fields as unknown as ReduceElement;
    if (name === 'REDUCE' && !isDefined(operator, type)) {
      throw new ScheduleError(
        `word ${at}: ${nameOf(Operator, operator)} is not defined for ${nameOf(ElementType, type)}`,
      );
    }
    return { kind: name.toLowerCase(), ...fields } as unknown as ScheduleElement;
  };

  const { magic, rounds, ...sizes } = read(HEADER);
  if (magic !== SCHEDULE_MAGIC) throw new ScheduleError('word 0: not a schedule');
  const decoded: DecodedSchedule = { ...sizes, rounds: [] };
  for (let round = 0; round < rounds; round++) {
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
      return `copy ${element.bytes} B ${sides(element)}`;
    case 'reduce':
      return (
        `reduce ${nameOf(Operator, element.operator)} ${nameOf(ElementType, element.type)} ${element.bytes} B` +
        ` ${sides(element)}${element.order === Order.TARGET_FIRST ? ', target first' : ''}`
      );
    case 'strided': {
      const steps = element.dimensions.map((d) => ` × ${d.count} (+${d.sourceStride} to +${d.targetStride})`);
      return `copy ${element.blockBytes} B${steps.join('')} ${sides(element)}`;
    }
  }
}

function sides(element: CopyElement | ReduceElement | StridedElement): string {
  const { sourceRole, sourceOffset, targetRole, targetOffset } = element;
  return `from ${place(sourceRole, sourceOffset)} to ${place(targetRole, targetOffset)}`;
}

/** Appends the values of fields in the order of the table. */
function encodeFields(words: number[], coding: Coding, values: Readonly<Record<string, number>>): void {
  for (const [name, wide] of coding) {
    const value = values[name];
    words.push(low(value));
    if (wide) words.push(high(value));
  }
}

function requireRank(what: string, peer: number): void {
  if (!Number.isInteger(peer) || peer < 0 || peer >= TWO_TO_32) {
    throw new ScheduleError(`${what}: no rank: ${show(peer)}`);
  }
}

function requireMember(what: string, members: ReadonlySet<number>, value: number): void {
  if (!members.has(value)) throw new ScheduleError(`REDUCE: no ${what}: ${show(value)}`);
}

function nameOf(names: Record<string, number>, value: number): string {
  return Object.keys(names).find((name) => names[name] === value)!;
}

function place(role: Role, offset: number): string {
  return `${ROLE_NAMES[role]}+${offset}`;
}

function isByteCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function low(value: number): number {
  return value >>> 0;
}

function high(value: number): number {
  return Math.floor(value / TWO_TO_32);
}
