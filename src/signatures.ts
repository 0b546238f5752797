/**
 * What the ranks that call a collective together have to agree in, in 32 bits, and back to words. The signature of a
 * call travels with its messages; native code compares it (native/libof/calls.cc), and does not look into it.
 *
 *     bits  0 to 4    the operation, from 1 on; the last numbers are a schedule of the user's own, and a part of a
 *                     compound: then bits 5 to 9 are the compound, and 10 to 17 the root of the part, from 1 on
 *     bits  5 to 7    the algorithm
 *     bits  8 to 30   with a root                   8 bits root, 15 size
 *                     with an operator              4 bits element type, 4 operator, 15 size
 *                     with a root and an operator   4 bits element type, 4 operator, 5 root, 10 size
 *                     else                          23 bits size
 *     bit   31        the call is an Init of a persistent request: set by native code
 *
 * Of the size there is a hash. It is 0 where MPI lets the size differ from rank to rank. A root that has no room counts
 * as the highest that has, and the root is part of the hash, too. So is whether an operator of createOp commutes.
 * Element types of what is only moved are not compared.
 */
import { nameOfType } from './elements.js';
import { OPERATIONS } from './operations/index.js';
import { NEIGHBOR_OPERATIONS } from './operations/neighbor.js';
import type { Operation } from './operations/operation.js';
import { type Op, OPERATORS } from './operators.js';
import type { ReduceShape } from './schedules/combine.js';
import { type ElementType, Operator, TYPE_BYTES } from './schedules/encoding.js';
import type { Shape } from './schedules/shape.js';

/** Bits of a field, from the lowest on. */
const OPERATION_BITS = 5;
const ALGORITHM_BITS = 3;
const REST_BITS = 23;
const TYPE_BITS = 4;
const OPERATOR_BITS = 4;
const ROOT_BITS = 8;
/** Of an Init. */
const PERSISTENT = 2 ** 31;
/** Where there is an operator, too. */
const SHORT_ROOT_BITS = 5;

const TABLE: readonly Operation[] = [...OPERATIONS, ...NEIGHBOR_OPERATIONS];

/** The signature of schedules of the user's own: they may differ from rank to rank. */
export const OWN_SCHEDULE = TABLE.length + 1;

/** Calls that are made of several operations, on a communicator that is there for them. Each part tells the whole. */
const COMPOUNDS = [
  ...['dup', 'split', 'cart', 'distGraph'],
  ...['values.bcast', 'values.gather', 'values.scatter', 'values.allgather', 'values.alltoall'],
  ...['values.reduce', 'values.allreduce'],
] as const;
export type Compound = (typeof COMPOUNDS)[number];
/** Those whose caller names a root: it is the root of their parts. */
const ROOTED: readonly string[] = ['values.bcast', 'values.gather', 'values.scatter', 'values.reduce'];
const PART = OWN_SCHEDULE + 1;
const COMPOUND_BITS = 5;

interface Fields {
  type: number;
  operator: number;
  root: number;
  size: number;
}

/** The fields that an operation has beside its name and algorithm, with their bits: the lowest first. */
function layoutOf({ parameters }: Operation): readonly (readonly [field: keyof Fields, bits: number])[] {
  const layout: [keyof Fields, number][] = [];
  const reduces = parameters.includes('op');
  if (reduces) layout.push(['type', TYPE_BITS], ['operator', OPERATOR_BITS]);
  if (parameters.includes('root')) layout.push(['root', reduces ? SHORT_ROOT_BITS : ROOT_BITS]);
  const left = layout.reduce((bits, [, width]) => bits - width, REST_BITS);
  return [...layout, ['size', left]];
}

/**
 * @param chosen index of the algorithm
 * @param op where it is one of createOp
 */
export function signatureOf(operation: Operation, shape: Shape, chosen: number, op?: Op): number {
  const { type = 0, operator = 0 } = shape as Partial<ReduceShape>;
  const sizes = sizesOf(operation, shape);
  const agreed = [
    ...sizes,
    ...(operation.parameters.includes('root') ? [shape.root] : []),
    ...(op?.source ? [Number(op.commutes)] : []),
  ];
  const fields: Fields = { type, operator, root: shape.root, size: hashOf(agreed) };
  let signature = (numberOf(operation) | (chosen << OPERATION_BITS)) >>> 0;
  let at = OPERATION_BITS + ALGORITHM_BITS;
  for (const [field, bits] of layoutOf(operation)) {
    const most = 2 ** bits - 1;
    const value = field === 'size' ? foldInto(fields.size, bits) : Math.min(fields[field], most);
    signature = (signature | (value << at)) >>> 0;
    at += bits;
  }
  return signature;
}

/** The signature of an operation as a part of a compound. */
export function signatureOfPart(compound: Compound, operation: Operation, shape: Shape): number {
  const hasRoot = ROOTED.includes(compound) && operation.parameters.includes('root');
  const root = hasRoot ? Math.min(shape.root + 1, 2 ** ROOT_BITS - 1) : 0;
  const rest = COMPOUNDS.indexOf(compound) | (root << COMPOUND_BITS);
  return PART | (rest << OPERATION_BITS);
}

/** What a caller names as the size of its call, for texts; undefined: sizes are in lists. */
export function bytesOfCall(operation: Operation, shape: Shape): number | undefined {
  return operation.sizes === undefined ? shape.bytes : undefined;
}

function numberOf(operation: Operation): number {
  return TABLE.findIndex(({ name }) => name === operation.name) + 1;
}

function sizesOf(operation: Operation, shape: Shape): readonly number[] {
  return operation.sizes === undefined ? [shape.bytes] : operation.sizes(shape);
}

/** 0 of no sizes, and of nothing else that is likely. */
function hashOf(sizes: readonly number[]): number {
  let hash = 0;
  for (const size of sizes) {
    for (const half of [size >>> 0, Math.floor(size / 2 ** 32)]) hash = mix(hash ^ (half + 0x9e3779b9));
  }
  return hash;
}

/** Every bit of the number reaches every bit of the result. */
function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x7feb352d);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

function foldInto(hash: number, bits: number): number {
  return (hash ^ (hash >>> (32 - bits))) & (2 ** bits - 1);
}

/** A call as native code knows it. */
export interface NativeCall {
  /** World rank. */
  rank: number;
  signature: number;
  bytes?: number | undefined;
}

interface Described {
  name: string;
  /** Each with a name, in words. */
  parts: Record<string, string | undefined>;
}

function describe({ signature }: NativeCall): Described {
  const persistent = signature >= PERSISTENT;
  const number = signature % 2 ** OPERATION_BITS;
  if (number === OWN_SCHEDULE) return { name: 'start', parts: {} };
  if (number === PART) return describePart(signature >>> OPERATION_BITS);
  const operation = TABLE.at(number - 1);
  if (number === 0 || operation === undefined) return { name: `an unknown operation (${signature})`, parts: {} };
  const parts: Described['parts'] = {};
  const algorithm = (signature >>> OPERATION_BITS) % 2 ** ALGORITHM_BITS;
  let at = OPERATION_BITS + ALGORITHM_BITS;
  for (const [field, bits] of layoutOf(operation)) {
    const most = 2 ** bits - 1;
    const value = (signature >>> at) & most;
    if (field === 'root') parts['root'] = rootName(value, most);
    if (field === 'type')
      parts['type'] = value < TYPE_BYTES.length ? nameOfType(value as ElementType) : `type ${value}`;
    if (field === 'operator') parts['operator'] = operatorName(value);
    at += bits;
  }
  parts['algorithm'] = `algorithm '${operation.algorithms.at(algorithm)?.name ?? algorithm}'`;
  const name = persistent ? `${operation.name.slice(1)}Init` : operation.name;
  return { name, parts };
}

function rootName(root: number, most: number): string {
  return `root ${root}${root === most ? ' or above' : ''}`;
}

function describePart(rest: number): Described {
  const name = COMPOUNDS.at(rest % 2 ** COMPOUND_BITS) ?? `an unknown call (${rest})`;
  const root = (rest >>> COMPOUND_BITS) % 2 ** ROOT_BITS;
  return { name, parts: root > 0 ? { root: rootName(root - 1, 2 ** ROOT_BITS - 2) } : {} };
}

const USERS = 'an operator of createOp';

function operatorName(code: number): string {
  return code === Operator.USER ? USERS : (OPERATORS.find((op) => op.code === code)?.name ?? `${code}`);
}

/** Both calls, as far as they differ: "rank 0 called ibcast (root 0), and rank 1 ibcast (root 1)". */
export function describeMismatch(one: NativeCall, other: NativeCall): string {
  const [a, b] = [describe(one), describe(other)];
  const same = a.name === b.name;
  const text = ({ name, parts }: Described, { bytes }: NativeCall, { parts: others }: Described): string => {
    const differ = Object.keys(parts).filter((part) => !same || parts[part] !== others[part]);
    const words = differ.map((part) => parts[part]);
    if (bytes !== undefined) words.push(`${bytes} bytes`);
    return words.length === 0 ? name : `${name} (${words.join(', ')})`;
  };
  const sizes = same && Object.keys(a.parts).every((part) => a.parts[part] === b.parts[part]);
  const which = a.parts['operator'] === USERS ? 'size, or another operator' : 'size';
  const how = sizes ? `, with another ${which}` : '';
  return `rank ${one.rank} of the world called ${text(a, one, b)}, and rank ${other.rank} called ${text(b, other, a)}${how}`;
}

/** Left when a communicator is closed: a call that `other` has not made, or a message that it has not received. */
export function describeLeftOver(one: NativeCall, other: NativeCall): string {
  const { name, parts } = describe(one);
  const words = Object.values(parts).filter((part) => part !== undefined);
  const call = words.length === 0 ? name : `${name} (${words.join(', ')})`;
  return other.signature === 0
    ? `rank ${one.rank} of the world has called ${call}, which rank ${other.rank} has not called`
    : `rank ${one.rank} of the world has sent a message in ${call} that rank ${other.rank} has not received there`;
}
