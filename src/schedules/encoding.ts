/**
 * The encoding of schedules: the one place where it is written down.
 *
 * An encoded schedule is a flat array of 32-bit words. The header comes first, then for each round the number of its
 * elements and these elements. An element is its kind, followed by its fields in the order of ELEMENTS. The builder and
 * the decoder (schedule.ts) follow these tables. The native compiler follows native/engine/encoding.h, which
 * `node scripts/headers.mjs` makes from this file; a test compares the two.
 */

/** First word of an encoded schedule: 'NBC2', little-endian. */
export const SCHEDULE_MAGIC = 0x3243424e;

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

/** Kinds of elements. */
export const ElementKind = { SEND: 1, RECV: 2, COPY: 3, REDUCE: 4, STRIDED: 5 } as const;
export type ElementKind = (typeof ElementKind)[keyof typeof ElementKind];

/** What the bytes of a reduction mean. */
export const ElementType = {
  INT8: 0,
  UINT8: 1,
  INT16: 2,
  UINT16: 3,
  INT32: 4,
  UINT32: 5,
  INT64: 6,
  UINT64: 7,
  /** IEEE 754 half precision; each operation is computed in float32 and rounded once. */
  FLOAT16: 8,
  /** The upper half of a float32; computed in the same manner. */
  BFLOAT16: 9,
  FLOAT32: 10,
  FLOAT64: 11,
} as const;
export type ElementType = (typeof ElementType)[keyof typeof ElementType];

/** Operators of reductions. See docs/reductions.md for what each one does with overflow, NaN and signed zeros. */
export const Operator = {
  SUM: 0,
  PROD: 1,
  MIN: 2,
  MAX: 3,
  LAND: 4,
  LOR: 5,
  LXOR: 6,
  BAND: 7,
  BOR: 8,
  BXOR: 9,
  /** On pairs (value, index), both of the element type. */
  MINLOC: 10,
  MAXLOC: 11,
  /** The function of an operator of `createOp`, which is given to the operation. */
  USER: 12,
} as const;
export type Operator = (typeof Operator)[keyof typeof Operator];

/** Which operand of a reduction stands on the left. It matters to operators that do not commute. */
export const Order = {
  /** target = source op target */
  SOURCE_FIRST: 0,
  /** target = target op source */
  TARGET_FIRST: 1,
} as const;
export type Order = (typeof Order)[keyof typeof Order];

/** A strided copy has at most this many dimensions. */
export const MAX_DIMENSIONS = 16;

/**
 * What a field holds, and how many words it takes. A wide field is two words, the low one first, and at most 2^53 (what
 * a number of JavaScript counts exactly).
 */
export const FIELD_WORDS = {
  /** A rank of the communicator. */
  rank: 1,
  /** A Role to read from. */
  source: 1,
  /** A Role to write to. */
  target: 1,
  /** Bytes from the start of a buffer. */
  offset: 2,
  /** A number of bytes. */
  size: 2,
  /** How often something is repeated. */
  count: 2,
  /** Bytes from one repetition to the next. */
  stride: 2,
  /** An Operator, an ElementType, an Order. */
  op: 1,
  type: 1,
  order: 1,
  /** How many groups of DIMENSION fields follow the element. */
  dimensions: 1,
  /** How many rounds follow the header. */
  rounds: 1,
  /** The first word. */
  magic: 1,
} as const;
export type FieldType = keyof typeof FIELD_WORDS;
export type Fields = Readonly<Record<string, FieldType>>;

/** The header. */
export const HEADER = {
  magic: 'magic',
  rounds: 'rounds',
  sendBytes: 'size',
  receiveBytes: 'size',
  tempBytes: 'size',
} as const satisfies Fields;

/** The fields of each kind of element. */
export const ELEMENTS = {
  SEND: { peer: 'rank', role: 'source', offset: 'offset', bytes: 'size' },
  RECV: { peer: 'rank', role: 'target', offset: 'offset', bytes: 'size' },
  COPY: {
    sourceRole: 'source',
    sourceOffset: 'offset',
    targetRole: 'target',
    targetOffset: 'offset',
    bytes: 'size',
  },
  REDUCE: {
    operator: 'op',
    type: 'type',
    order: 'order',
    sourceRole: 'source',
    sourceOffset: 'offset',
    targetRole: 'target',
    targetOffset: 'offset',
    bytes: 'size',
  },
  STRIDED: {
    sourceRole: 'source',
    sourceOffset: 'offset',
    targetRole: 'target',
    targetOffset: 'offset',
    blockBytes: 'size',
    dimensions: 'dimensions',
  },
} as const satisfies Record<keyof typeof ElementKind, Fields>;

/** One dimension of a strided copy, the outermost first. */
export const DIMENSION = { count: 'count', sourceStride: 'stride', targetStride: 'stride' } as const satisfies Fields;

/** How many words a list of fields takes. */
export function wordsOf(fields: Fields): number {
  return Object.values(fields).reduce((words, type) => words + FIELD_WORDS[type], 0);
}

/** Bytes of one element of a type. */
export const TYPE_BYTES: readonly number[] = [1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8];

/** Whether the operator works on pairs (value, index). */
export function isPaired(operator: Operator): boolean {
  return operator === Operator.MINLOC || operator === Operator.MAXLOC;
}

/** Whether an operator is defined for a type: logical and bitwise ones are for integers, as in MPI. */
export function isDefined(operator: Operator, type: ElementType): boolean {
  return type < ElementType.FLOAT16 || operator < Operator.LAND || operator > Operator.BXOR;
}
