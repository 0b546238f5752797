/** The arguments of collectives whose blocks have sizes and places of their own. */
import { ArgumentError, type ErrorContext, show } from './errors.js';
import type { Block } from './schedules/igatherv.js';

/** Numbers, one for each rank: an array or a typed array. */
export type Counts = ArrayLike<number>;

/**
 * Where the blocks of all ranks are in a buffer of `bytes` bytes.
 * @param counts elements of each block
 * @param displs the element at which each begins; null: one behind the other
 * @param width bytes of an element
 * @throws {ArgumentError} naming `counts` or `displs`
 */
export function blocksOf(
  counts: Counts | null | undefined,
  displs: Counts | null | undefined,
  ranks: number,
  width: number,
  bytes: number,
  context: ErrorContext,
): Block[] {
  const sizes = checkCounts(counts, 'counts', ranks, context);
  const places = displs == null ? packed(sizes) : checkCounts(displs, 'displs', ranks, context);
  const blocks = sizes.map((count, rank) => ({ offset: places[rank] * width, bytes: count * width }));
  for (const [rank, { offset, bytes: length }] of blocks.entries()) {
    if (offset + length <= bytes) continue;
    const message = `the block of rank ${rank}, ${sizes[rank]} elements from element ${places[rank]} on, does not fit into recv, which has ${bytes / width}`;
    throw new ArgumentError(displs == null ? 'counts' : 'displs', message, context);
  }
  if (displs != null) checkApart(blocks, context);
  return blocks;
}

function packed(counts: number[]): number[] {
  let next = 0;
  return counts.map((count) => (next += count) - count);
}

function checkCounts(
  values: Counts | null | undefined,
  argument: string,
  ranks: number,
  context: ErrorContext,
): number[] {
  if (typeof values !== 'object' || values === null || !Number.isInteger(values.length)) {
    throw new ArgumentError(argument, `must be an array of ${ranks} numbers, not ${show(values)}`, context);
  }
  if (values.length !== ranks) {
    throw new ArgumentError(argument, `must have a number for each of ${ranks} ranks, not ${values.length}`, context);
  }
  return Array.from({ length: ranks }, (_, rank) => {
    const value = values[rank];
    if (Number.isSafeInteger(value) && value >= 0) return value;
    throw new ArgumentError(argument, `[${rank}] must be a number of elements, not ${show(value)}`, context);
  });
}

/** MPI demands that no byte is received twice. */
function checkApart(blocks: readonly Block[], context: ErrorContext): void {
  const ordered = [...blocks.entries()]
    .filter(([, { bytes }]) => bytes > 0)
    .sort(([, a], [, b]) => a.offset - b.offset);
  for (let i = 1; i < ordered.length; i++) {
    const [before, { offset, bytes }] = ordered[i - 1];
    const [after, next] = ordered[i];
    if (offset + bytes > next.offset) {
      throw new ArgumentError('displs', `the blocks of ranks ${before} and ${after} overlap`, context);
    }
  }
}
