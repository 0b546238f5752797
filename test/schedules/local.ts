/**
 * What local elements of a schedule do, in the simplest manner: one value at a time, as JavaScript numbers or BigInts.
 */
import {
  type CopyElement,
  ElementType,
  Operator,
  Order,
  type ReduceElement,
  type Role,
  type ScheduleElement,
  type StridedElement,
  TYPE_BYTES,
} from 'node-nbc/schedules';

export type LocalElement = CopyElement | ReduceElement | StridedElement;

export function isLocal(element: ScheduleElement): element is LocalElement {
  return element.kind !== 'send' && element.kind !== 'recv';
}

/** The blocks that a local element reads and writes, as byte offsets. */
export function blocksOf(element: LocalElement): { source: number; target: number; bytes: number }[] {
  const { sourceOffset: source, targetOffset: target } = element;
  if (element.kind !== 'strided') return [{ source, target, bytes: element.bytes }];
  let blocks = [{ source, target, bytes: element.blockBytes }];
  for (const { count, sourceStride, targetStride } of element.dimensions) {
    blocks = blocks.flatMap((block) =>
      Array.from({ length: count }, (_, i) => ({
        source: block.source + i * sourceStride,
        target: block.target + i * targetStride,
        bytes: block.bytes,
      })),
    );
  }
  return blocks;
}

/** Runs the element on memory that `bytes` gives. */
export function runLocal(
  element: LocalElement,
  bytes: (role: Role, offset: number, length: number) => Uint8Array,
): void {
  for (const block of blocksOf(element)) {
    const source = bytes(element.sourceRole, block.source, block.bytes);
    const target = bytes(element.targetRole, block.target, block.bytes);
    if (element.kind === 'reduce') reduce(element, source, target);
    else target.set(source);
  }
}

type Value = number | bigint;

function reduce({ operator, type, order }: ReduceElement, source: Uint8Array, target: Uint8Array): void {
  const size = TYPE_BYTES[type];
  const paired = operator === Operator.MINLOC || operator === Operator.MAXLOC;
  for (let at = 0; at < target.length; at += paired ? 2 * size : size) {
    const [x, y] = order === Order.SOURCE_FIRST ? [source, target] : [target, source];
    if (paired) {
      const a = [read(x, at, type), read(x, at + size, type)] as const;
      const b = [read(y, at, type), read(y, at + size, type)] as const;
      const [value, index] = better(operator, a, b);
      write(target, at, type, value);
      write(target, at + size, type, index);
    } else write(target, at, type, combine(operator, read(x, at, type), read(y, at, type), type));
  }
}

function better(operator: Operator, a: readonly [Value, Value], b: readonly [Value, Value]): readonly [Value, Value] {
  const [isNaNa, isNaNb] = [Number.isNaN(a[0]), Number.isNaN(b[0])];
  if (isNaNa !== isNaNb) return isNaNa ? a : b;
  if (!isNaNa && a[0] !== b[0]) return a[0] < b[0] === (operator === Operator.MINLOC) ? a : b;
  return a[1] < b[1] ? a : b;
}

function combine(operator: Operator, a: Value, b: Value, type: ElementType): Value {
  if (typeof a === 'bigint' || typeof b === 'bigint') return combineBig(operator, BigInt(a), BigInt(b));
  switch (operator) {
    case Operator.SUM:
      return type >= ElementType.FLOAT16 && type !== ElementType.FLOAT64 ? Math.fround(a + b) : a + b;
    case Operator.PROD:
      // A product of two 32-bit integers is exact only as a BigInt.
      if (type < ElementType.FLOAT16) return Number(BigInt.asIntN(32, BigInt(a) * BigInt(b)));
      return type === ElementType.FLOAT64 ? a * b : Math.fround(a * b);
    case Operator.MIN:
      return Math.min(a, b);
    case Operator.MAX:
      return Math.max(a, b);
    default:
      return Number(combineBig(operator, BigInt(a), BigInt(b)));
  }
}

function combineBig(operator: Operator, a: bigint, b: bigint): bigint {
  const [p, q] = [a !== 0n, b !== 0n];
  switch (operator) {
    case Operator.SUM:
      return a + b;
    case Operator.PROD:
      return a * b;
    case Operator.MIN:
      return a < b ? a : b;
    case Operator.MAX:
      return a > b ? a : b;
    case Operator.LAND:
      return BigInt(p && q);
    case Operator.LOR:
      return BigInt(p || q);
    case Operator.LXOR:
      return BigInt(p !== q);
    case Operator.BAND:
      return a & b;
    case Operator.BOR:
      return a | b;
    case Operator.BXOR:
      return a ^ b;
    default:
      throw new Error(`operator ${operator} is for pairs`);
  }
}

const VIEWS = [
  Int8Array,
  Uint8Array,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
  Uint16Array,
  Uint16Array,
  Float32Array,
  Float64Array,
] as const;

/** A value of each type and its bytes. To make views for each value took most of the time of some tests. */
const SCRATCH = VIEWS.map((View) => {
  const value = new View(1);
  return { value, own: new Uint8Array(value.buffer) };
});

/** One value of a type, from bytes at any address. */
export function read(bytes: Uint8Array, at: number, type: ElementType): Value {
  const { value, own } = SCRATCH[type];
  for (let i = 0; i < own.length; i++) own[i] = bytes[at + i];
  const [word] = value;
  if (type === ElementType.FLOAT16) return halfToNumber(Number(word));
  if (type === ElementType.BFLOAT16) return brainToNumber(Number(word));
  return word;
}

export function write(bytes: Uint8Array, at: number, type: ElementType, value: Value): void {
  const { value: view, own } = SCRATCH[type];
  if (type === ElementType.FLOAT16) view[0] = numberToHalf(Number(value));
  else if (type === ElementType.BFLOAT16) view[0] = numberToBrain(Number(value));
  else view[0] = value;
  for (let i = 0; i < own.length; i++) bytes[at + i] = own[i];
}

function halfToNumber(bits: number): number {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** The half that is nearest, the even one of two that are equally near. */
function numberToHalf(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size));
  const steps = size / 2 ** (exponent - 10);
  const floor = Math.floor(steps);
  const rest = steps - floor;
  const rounded = floor + (rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? 1 : 0);
  return sign + (size < 2 ** -14 ? rounded : (exponent + 15) * 1024 + rounded - 1024);
}

function brainToNumber(bits: number): number {
  return new Float32Array(Uint32Array.of(bits << 16).buffer)[0];
}

function numberToBrain(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  const [bits] = new Uint32Array(Float32Array.of(value).buffer);
  const floor = bits >>> 16;
  const rest = bits & 0xffff;
  return floor + (rest > 0x8000 || (rest === 0x8000 && floor % 2 === 1) ? 1 : 0);
}
