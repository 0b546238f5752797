/** How to get the fastest kind of buffer there is. */
import { constants } from 'node:buffer';
import { ArgumentError, ExhaustedError, show } from './errors.js';
import { errorFromNative } from './native-errors.js';
import { currentWorld } from './world.js';

/** What `alloc` makes: a constructor of a view. */
export interface ViewConstructor<View extends ArrayBufferView> {
  new (buffer: ArrayBuffer, byteOffset: number, length: number): View;
  readonly BYTES_PER_ELEMENT?: number;
}

/**
 * `Buffer` itself: it is no {@link ViewConstructor}. Described by what it has, because its type is not the same in all
 * versions of @types/node, and not there without.
 */
export interface BufferConstructor<View> {
  isBuffer(value: unknown): boolean;
  allocUnsafe(size: number): View;
}

/**
 * Makes a zeroed view of `length` elements (bytes, for Buffer and DataView) in memory that every peer can reach
 * directly: the fastest buffer there is for large messages. It is ordinary memory otherwise, and freed by garbage
 * collection.
 *
 * ```ts
 * const planes = alloc(Float64Array, 1 << 20);
 * ```
 *
 * @throws {ClosedError} if no world is open: call `init()` first
 * @throws {ExhaustedError} ERR_NBC_NO_MEMORY: the exposed memory of this rank is used up, or the view would be larger
 *   than Node.js allows
 */
export function alloc<View extends ArrayBufferView>(
  constructor: BufferConstructor<View> | ViewConstructor<View>,
  length: number,
): View;
export function alloc(constructor: unknown, length: number): ArrayBufferView {
  const operation = 'alloc';
  const View = constructor as ViewConstructor<ArrayBufferView>;
  if (!isViewConstructor(constructor)) {
    throw new ArgumentError('constructor', 'must be a typed array, Buffer or DataView', { operation });
  }
  // An object could not be multiplied, and a symbol neither.
  const bytes = typeof length === 'number' ? length * (View.BYTES_PER_ELEMENT ?? 1) : NaN;
  if (!Number.isSafeInteger(length) || length < 0 || !Number.isSafeInteger(bytes)) {
    throw new ArgumentError('length', `must be a number of elements, not ${show(length)}`, { operation });
  }
  const world = currentWorld(operation);
  if (length > constants.MAX_LENGTH) {
    const message = `alloc: no view of this version of Node.js has ${length} elements: at most ${constants.MAX_LENGTH}`;
    throw new ExhaustedError('ERR_NBC_NO_MEMORY', message, { operation, rank: world.rank });
  }
  let memory: ArrayBuffer;
  try {
    memory = bytes === 0 ? new ArrayBuffer(0) : world.native.alloc(bytes);
  } catch (thrown) {
    throw errorFromNative(thrown, { operation, rank: world.rank });
  }
  return constructor === Buffer ? Buffer.from(memory, 0, bytes) : new View(memory, 0, length);
}

function isViewConstructor(value: unknown): boolean {
  if (typeof value !== 'function') return false;
  return value === DataView || value.prototype instanceof Object.getPrototypeOf(Uint8Array);
}
