/** Element types: what the numbers of a view are. */

/** Name and width in bytes of every element type. */
export const ELEMENT_BYTES = {
  uint8: 1,
  int8: 1,
  uint16: 2,
  int16: 2,
  uint32: 4,
  int32: 4,
  uint64: 8,
  int64: 8,
  float16: 2,
  bfloat16: 2,
  float32: 4,
  float64: 8,
} as const;
export type ElementType = keyof typeof ELEMENT_BYTES;

const typeOfArray: Record<string, ElementType> = {
  Int8Array: 'int8',
  Uint8Array: 'uint8',
  Uint8ClampedArray: 'uint8',
  Int16Array: 'int16',
  Uint16Array: 'uint16',
  Int32Array: 'int32',
  Uint32Array: 'uint32',
  BigInt64Array: 'int64',
  BigUint64Array: 'uint64',
  Float16Array: 'float16',
  Float32Array: 'float32',
  Float64Array: 'float64',
};

/** The kind of a typed array, also where its class is one of the user's own; undefined for a DataView. */
const kindOfArray: { get?: (this: unknown) => unknown } = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)!;

/** The element type of a view. Views of bytes (Uint8Array, Buffer, DataView) are `'uint8'`, and go with every type. */
export function elementTypeOf(view: ArrayBufferView): ElementType {
  return typeOfArray[(kindOfArray.get!.call(view) ?? 'Uint8Array') as string];
}
