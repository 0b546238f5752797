/** The arguments of collectives whose blocks have sizes and places of their own. */
import { show } from '../errors.js';
import type { Block } from '../schedules/shape.js';
import type { Call, Checked, Counts } from './operation.js';

/**
 * Where the blocks of all ranks are in a buffer, in bytes.
 *
 * @param names what the documentation calls the two arguments
 * @param counts elements of each block
 * @param displs the element at which each begins; null: one behind the other
 * @param length how many blocks there are, if not one for each rank
 * @param buffer what the documentation calls the buffer; blocks that are received into it must not overlap
 * @throws {ArgumentError} naming `counts` or `displs`
 */
export function blocksOf(
  call: Call,
  names: readonly [counts: string, displs: string],
  counts: Counts | null | undefined,
  displs: Counts | null | undefined,
  buffer: 'send' | 'recv',
  { width, bytes }: Checked,
  length = call.size,
): Block[] {
  const sizes = checkCounts(call, names[0], counts, length);
  const places = displs == null ? packed(sizes) : checkCounts(call, names[1], displs, length);
  const blocks = sizes.map((count, rank) => ({ offset: places[rank] * width, bytes: count * width }));
  for (const [rank, block] of blocks.entries()) {
    if (block.offset + block.bytes <= bytes) continue;
    const where = `${sizes[rank]} elements from element ${places[rank]} on`;
    const message = `the block of rank ${rank}, ${where}, does not fit into ${buffer}, which has ${bytes / width}`;
    call.refuse(displs == null ? names[0] : names[1], message);
  }
  if (displs != null && buffer === 'recv') checkApart(call, names[1], blocks);
  return blocks;
}

/** The buffer of a rank's own block, beside `all` with the blocks of all ranks. Argument `counts`. */
export function checkOwnBlock(call: Call, argument: 'send' | 'recv', { bytes }: Block, all: Checked): void {
  const own = call.view(argument);
  if (own.bytes !== bytes) {
    call.refuse(argument, `must have the bytes that counts gives its rank: ${bytes}, not ${own.bytes}`);
  }
  call.checkPair(...inOrder(argument, own, all));
}

/** Send first, receive second. `argument`: which the first one is. */
export function inOrder(argument: 'send' | 'recv', own: Checked, all: Checked): [send: Checked, recv: Checked] {
  return argument === 'send' ? [own, all] : [all, own];
}

/** Blocks as part of what tells shapes apart. */
export function textOf(blocks: readonly Block[]): string {
  return blocks.map(({ offset, bytes }) => `${offset}+${bytes}`).join(' ');
}

function packed(counts: readonly number[]): number[] {
  let next = 0;
  return counts.map((count) => (next += count) - count);
}

function checkCounts(call: Call, argument: string, values: Counts | null | undefined, size: number): number[] {
  if (typeof values !== 'object' || values === null || !Number.isInteger(values.length)) {
    return call.refuse(argument, `must be an array of ${size} numbers, not ${show(values)}`);
  }
  if (values.length !== size) {
    call.refuse(argument, `must have ${size} numbers, one for each block, not ${values.length}`);
  }
  return Array.from({ length: size }, (_, rank) => {
    const value = values[rank];
    if (Number.isSafeInteger(value) && value >= 0) return value;
    return call.refuse(argument, `[${rank}] must be a number of elements, not ${show(value)}`);
  });
}

/** MPI demands that no byte is received twice. */
function checkApart(call: Call, argument: string, blocks: readonly Block[]): void {
  const ordered = [...blocks.entries()]
    .filter(([, { bytes }]) => bytes > 0)
    .sort(([, a], [, b]) => a.offset - b.offset);
  for (let i = 1; i < ordered.length; i++) {
    const [before, { offset, bytes }] = ordered[i - 1];
    const [after, next] = ordered[i];
    if (offset + bytes > next.offset) call.refuse(argument, `the blocks of ranks ${before} and ${after} overlap`);
  }
}
