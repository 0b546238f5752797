/** Layouts: parts of a view that are not contiguous. Wherever a buffer may be given, a layout may be. */
import { bytesOfType, elementTypeOf } from './elements.js';
import { ArgumentError, requireObject, show } from './errors.js';
import { type Box, bytesOfBox, extentOf, isDistinct, simplified } from './schedules/box.js';
import { MAX_DIMENSIONS } from './schedules/encoding.js';
import { bytesOf, checkView, IN_PLACE, type InPlace } from './views.js';

export interface StridedOptions {
  /** Elements in each dimension, the outermost first. */
  shape: readonly number[];
  /** Distances of neighbours in each dimension, in elements of the view, from 0 on. */
  strides: readonly number[];
  /** The element of the view at which the box begins; default 0. */
  offset?: number;
}

/** An n-dimensional box inside a view. {@link strided} makes it. It never changes; the contents of the view may. */
export class Layout {
  /** Number of elements. */
  readonly length: number;
  /** @internal Bytes of all elements. */
  readonly bytes: number;
  /** @internal The memory from its first to its last byte. No Uint8Array of Node.js 20 has more than 4 GiB. */
  readonly range: DataView;
  /** @internal Where its elements are in `range`. */
  readonly box: Box;
  /** @internal No element is in it twice. */
  readonly distinct: boolean;

  /** @internal */
  constructor(
    readonly view: ArrayBufferView,
    readonly offset: number,
    shape: readonly number[],
    strides: readonly number[],
  ) {
    const width = bytesOfType(elementTypeOf(view));
    const steps = shape.map((count, index) => ({ count, stride: strides[index] * width }));
    this.box = simplified(0, width, steps);
    this.bytes = bytesOfBox(this.box);
    this.length = this.bytes / width;
    this.distinct = isDistinct(this.box);
    const begin = view.byteOffset + (this.bytes > 0 ? offset * width : 0);
    this.range = new DataView(view.buffer, begin, extentOf(this.box));
  }
}

/** Views are told first, in a nanosecond: `instanceof` of a class of another module takes 30. */
export function isLayout(value: unknown): value is Layout {
  return value !== null && !ArrayBuffer.isView(value) && value instanceof Layout;
}

/** What an operation reads or writes: a view, or a part of one. */
export type Data = ArrayBufferView | Layout;

/** A buffer argument. Programs in JavaScript may pass anything else: to find that out is the look-up's work. */
export type MaybeBuffer = Data | InPlace | null;

/** A layout passes for a view, too, and has no bytes to tell: it equals nothing that is remembered. */
export function isView(buffer: MaybeBuffer): buffer is ArrayBufferView {
  return buffer != null && buffer !== IN_PLACE;
}

/** For comparisons: as {@link bytesOf}, and 0 where there is no view. */
export function sizeOf(buffer: MaybeBuffer): number {
  return !isView(buffer) ? 0 : bytesOf(buffer);
}

/**
 * The elements of a view at `offset + i · strides[0] + j · strides[1] + …`, for i below `shape[0]`, j below `shape[1]`
 * and so on. To an operation they are one behind the other, the last dimension fastest: the engine packs and unpacks.
 *
 * ```ts
 * const column = strided(matrix, { shape: [rows], strides: [columns], offset: 3 });
 * world.ibcast(column, 0);
 * ```
 *
 * Without strides of 0, what it describes can be received into, too; its dimensions must not run into each other then.
 *
 * @throws {ArgumentError} naming `view`, `shape`, `strides` or `offset`: also where the box is not inside the view
 */
export function strided(view: ArrayBufferView, options: StridedOptions): Layout {
  const operation = { operation: 'strided' };
  requireObject(options, 'options', operation);
  const { shape, strides, offset = 0 } = options;
  checkView(view, 'view', operation);
  const refuse = (argument: string, message: string): never => {
    throw new ArgumentError(argument, message, operation);
  };
  const listOf = (argument: string, list: unknown): readonly number[] => {
    if (!Array.isArray(list) || list.length === 0 || list.length > MAX_DIMENSIONS) {
      return refuse(argument, `must be an array of 1 to ${MAX_DIMENSIONS} numbers, not ${show(list)}`);
    }
    const wrong = list.findIndex((value) => !isCount(value));
    if (wrong >= 0) refuse(argument, `[${wrong}] must be a whole number from 0 on, not ${show(list[wrong])}`);
    return list as number[];
  };
  const counts = [...listOf('shape', shape)];
  const steps = [...listOf('strides', strides)];
  if (steps.length !== counts.length) {
    refuse('strides', `must have a number for each of ${counts.length} dimensions, not ${steps.length}`);
  }
  if (!isCount(offset)) refuse('offset', `must be a whole number from 0 on, not ${show(offset)}`);
  const bytes = counts.reduce((product, count) => product * count, bytesOfType(elementTypeOf(view)));
  if (!Number.isSafeInteger(bytes)) refuse('shape', `has ${bytes} bytes, which are too many`);
  const elements = view.byteLength / bytesOfType(elementTypeOf(view));
  const last = counts.reduce((sum, count, index) => sum + (count - 1) * steps[index], offset);
  if (!counts.includes(0) && !(last < elements)) {
    refuse('shape', `its last element is number ${last} of a view that has ${elements}`);
  }
  return new Layout(view, offset, counts, steps);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
