/** Views: which memory may take part in an operation. */
import { ArgumentError, type ErrorContext, show } from './errors.js';

/**
 * In the place of `send`: what is to be sent already stands in the receive buffer (in `igather`, at the root only: its
 * own block stands at its place). As MPI_IN_PLACE.
 */
export const IN_PLACE: unique symbol = Symbol('IN_PLACE');
export type InPlace = typeof IN_PLACE;

/**
 * Bytes of what should be a view; NaN, which equals nothing, if it has none to tell. For the hot path: native code
 * finds out about everything else that can be wrong with a view, and then {@link checkView} says what it is.
 */
export function bytesOf(view: ArrayBufferView | InPlace | null): number {
  try {
    return (view as ArrayBufferView).byteLength;
  } catch {
    return NaN; // null, or a DataView of a detached buffer
  }
}

/**
 * Bytes of a view that may take part in an operation.
 * @throws {ArgumentError} for anything that is not a view, and for views of detached or resizable memory
 */
export function checkView(view: unknown, argument: string, context: ErrorContext): number {
  if (!ArrayBuffer.isView(view)) {
    throw new ArgumentError(argument, `must be a typed array, Buffer or DataView, not ${kindOf(view)}`, context);
  }
  const memory = view.buffer;
  if (isDetached(memory)) {
    throw new ArgumentError(
      argument,
      'its ArrayBuffer is detached (it was transferred); pass a view of live memory',
      context,
    );
  }
  const { resizable, growable } = memory as { resizable?: boolean; growable?: boolean };
  if (resizable === true || growable === true) {
    const kind = resizable === true ? 'resizable ArrayBuffer' : 'growable SharedArrayBuffer';
    throw new ArgumentError(
      argument,
      `is a view of a ${kind}, whose memory may go away; use one of fixed length`,
      context,
    );
  }
  return view.byteLength;
}

/**
 * Detached buffers have no bytes, and only they refuse a view. (`ArrayBuffer.prototype.detached` is newer than Node
 * 20.)
 */
function isDetached(memory: ArrayBufferLike): boolean {
  if (memory.byteLength > 0) return false;
  try {
    new Uint8Array(memory);
    return false;
  } catch {
    return true;
  }
}

/** Bytes of an element of a view; 1 for DataView. */
export function elementBytes(view: ArrayBufferView): number {
  return (view as { BYTES_PER_ELEMENT?: number }).BYTES_PER_ELEMENT ?? 1;
}

/** Whether two views share bytes. Both must be accepted by {@link checkView}. */
export function overlap(a: ArrayBufferView, b: ArrayBufferView): boolean {
  return (
    a.buffer === b.buffer && a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength
  );
}

/** For messages: what a wrong argument is. */
export function kindOf(value: unknown): string {
  if (value === IN_PLACE) return 'IN_PLACE';
  if (Array.isArray(value)) return 'an array';
  if (value instanceof ArrayBuffer) return 'an ArrayBuffer (pass a view of it)';
  return show(value);
}
