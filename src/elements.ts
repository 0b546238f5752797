/** Element types: what the numbers of a view are. */
import { ArgumentError, show } from './errors.js';
import { ElementType, TYPE_BYTES } from './schedules/encoding.js';

/** The type of views of bytes (Uint8Array, Buffer, DataView), which go with every type. */
export const BYTES = ElementType.UINT8;

const typeOfArray: Record<string, ElementType> = {
  Int8Array: ElementType.INT8,
  Uint8Array: ElementType.UINT8,
  Uint8ClampedArray: ElementType.UINT8,
  Int16Array: ElementType.INT16,
  Uint16Array: ElementType.UINT16,
  Int32Array: ElementType.INT32,
  Uint32Array: ElementType.UINT32,
  BigInt64Array: ElementType.INT64,
  BigUint64Array: ElementType.UINT64,
  Float16Array: ElementType.FLOAT16,
  Float32Array: ElementType.FLOAT32,
  Float64Array: ElementType.FLOAT64,
};

/** The kind of a typed array, also where its class is one of the user's own; undefined for a DataView. */
const kindOfArray: { get?: (this: unknown) => unknown } = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)!;

class Bfloat16Array extends Uint16Array {}
class Float16BitsArray extends Uint16Array {}

/** @throws {ArgumentError} */
function requireBits(bits: unknown, operation: string): void {
  if (ArrayBuffer.isView(bits) && kindOfArray.get!.call(bits) === 'Uint16Array') return;
  throw new ArgumentError('bits', `must be a Uint16Array, not ${show(bits)}`, { operation });
}

/**
 * The same memory, as bfloat16 numbers: what reductions compute with. Moving data needs no such view.
 * @throws {ArgumentError}
 */
export function bfloat16(bits: Uint16Array): Uint16Array {
  requireBits(bits, 'bfloat16');
  return new Bfloat16Array(bits.buffer as ArrayBuffer, bits.byteOffset, bits.length);
}

/**
 * The same memory, as float16 numbers, for versions of Node.js without Float16Array.
 * @throws {ArgumentError}
 */
export function float16(bits: Uint16Array): Uint16Array {
  requireBits(bits, 'float16');
  return new Float16BitsArray(bits.buffer as ArrayBuffer, bits.byteOffset, bits.length);
}

export function elementTypeOf(view: ArrayBufferView): ElementType {
  if (view instanceof Bfloat16Array) return ElementType.BFLOAT16;
  if (view instanceof Float16BitsArray) return ElementType.FLOAT16;
  return typeOfArray[(kindOfArray.get!.call(view) ?? 'Uint8Array') as string];
}

/** Newer than the versions of Node.js that node-nbc runs on. */
const { Float16Array = Uint16Array } = globalThis as { Float16Array?: typeof Uint16Array };

const arrayOfType: Record<ElementType, new (memory: ArrayBuffer) => ArrayBufferView> = {
  [ElementType.INT8]: Int8Array,
  [ElementType.UINT8]: Uint8Array,
  [ElementType.INT16]: Int16Array,
  [ElementType.UINT16]: Uint16Array,
  [ElementType.INT32]: Int32Array,
  [ElementType.UINT32]: Uint32Array,
  [ElementType.INT64]: BigInt64Array,
  [ElementType.UINT64]: BigUint64Array,
  [ElementType.FLOAT16]: Float16Array,
  [ElementType.BFLOAT16]: Uint16Array,
  [ElementType.FLOAT32]: Float32Array,
  [ElementType.FLOAT64]: Float64Array,
};

/** The class of views of a type. Of bfloat16, and of float16 where there is no class for it: of the bits. */
export function viewOfType(type: ElementType): new (memory: ArrayBuffer) => ArrayBufferView {
  return arrayOfType[type];
}

/** For messages: 'float64'. */
export function nameOfType(type: ElementType): string {
  return Object.entries(ElementType)
    .find(([, value]) => value === type)![0]
    .toLowerCase();
}

/** Bytes of an element. */
export function bytesOfType(type: ElementType): number {
  return TYPE_BYTES[type];
}
