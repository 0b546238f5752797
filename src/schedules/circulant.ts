/**
 * Broadcast in n blocks, in ⌈log₂ p⌉ − 1 + n rounds, which is the fewest there can be where a rank sends one message
 * and receives one in a round.
 *
 * In round i every rank sends to rank + skip and receives from rank − skip, where the skips 1, 2, 3, …, ⌈p / 2⌉ take
 * turns. The root hands out block i in round i. Which block another rank receives in each of the q = ⌈log₂ p⌉ rounds of
 * a turn repeats from turn to turn, q blocks later: this is its receive schedule.
 *
 * Source: J. L. Träff, "Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast, All-Broadcast,
 * Reduction and All-Reduction", 2024.
 */
import { Role, Schedule } from './schedule.js';
import type { Shape } from './shape.js';
import { toVirtual } from './tree.js';

/**
 * Bytes whose transfer takes as long as a message costs without its bytes. With m bytes in n blocks, the rounds take
 * the least time where n = √((q − 1) m / this).
 */
const MESSAGE_COST_BYTES = 8 * 1024;

/** More blocks than this bring nothing but a longer schedule. */
export const CIRCULANT_MAX_BLOCKS = 256;

/** How many blocks a message has: the same on all ranks. */
export function circulantBlocks(size: number, bytes: number): number {
  const more = Math.max(Math.ceil(Math.log2(size)) - 1, 0);
  const blocks = Math.round(Math.sqrt((more * bytes) / MESSAGE_COST_BYTES));
  return Math.min(Math.max(blocks, 1), CIRCULANT_MAX_BLOCKS);
}

/** Every rank passes blocks on in the order of the circulant graph; no rank waits for a whole message. */
export function bcastCirculant(shape: Shape, blocks = circulantBlocks(shape.size, shape.bytes)): Schedule {
  const { rank, size, root, bytes } = shape;
  const schedule = new Schedule();
  if (size === 1) return schedule;
  const virtual = toVirtual(rank, root, size);
  const skips = circulantSkips(size);
  const turn = skips.length - 1;
  const received = receiveSchedule(virtual, skips);
  // A rank sends what the receiver's schedule says; nobody sends to the root.
  const sent = skips.slice(0, turn).map((skip, k) => {
    const to = (virtual + skip) % size;
    return to === 0 ? null : receiveSchedule(to, skips)[k];
  });
  const start = (block: number): number => Math.floor((bytes * block) / blocks);
  /** A block in its turn; what would come behind the last one is the last one. Null: it is before the first one. */
  const rangeOf = (block: number): [offset: number, length: number] | null => {
    if (block < 0) return null;
    const index = Math.min(block, blocks - 1);
    return [start(index), start(index + 1) - start(index)];
  };

  // The last turn is a whole one, so the first may begin in its middle.
  const late = (turn - ((blocks - 1) % turn)) % turn;
  for (let round = late; round < late + turn - 1 + blocks; round++) {
    const k = round % turn;
    const ahead = round - k - late;
    const out = sent[k] === null ? null : rangeOf(sent[k] + ahead);
    const into = virtual === 0 ? null : rangeOf(received[k] + ahead);
    if (out !== null) schedule.send((rank + skips[k]) % size, Role.RECEIVE, ...out);
    if (into !== null) schedule.recv((rank - skips[k] + size) % size, Role.RECEIVE, ...into);
    schedule.round();
  }
  return schedule;
}

/** The number of ranks, halved and rounded up until it is 1; the smallest first. */
function circulantSkips(size: number): number[] {
  const skips = [size];
  while (skips[0] > 1) skips.unshift(Math.ceil(skips[0] / 2));
  return skips;
}

/**
 * The blocks that a virtual rank receives in the rounds of a turn, relative to the first block of that turn: its *base
 * block*, and negative ones that it missed in the turn before. The root has a schedule, too, which it does not need.
 *
 * Each rank is a sum of different skips, found greedily; the base block of the rank is the index of the smallest one. A
 * rank receives in round k what a rank in [rank − skip k + 1, rank − skip k] has as its base block: the largest block
 * that it does not receive otherwise.
 */
function receiveSchedule(virtual: number, skips: readonly number[]): number[] {
  const turn = skips.length - 1;
  const size = skips[turn];
  const base = baseBlock(virtual, skips);
  /** Blocks that are left, the largest first. In the place of the base block stands `turn`, whose skip leads round. */
  const left = [...skips.keys()].reverse().filter((block) => block !== base || block === turn);
  const blocks: number[] = [];
  let last = Infinity;

  for (let k = 0; k < turn; k++) {
    // Ranks are counted on, so that none of these is negative. No rank is taken twice.
    const low = virtual + size - skips[k + 1];
    const high = Math.min(virtual + size - skips[k], last - 1);
    const found = largest(left, skips, 0, { low, high })!;
    const [block] = left.splice(found.index, 1);
    blocks.push(block === turn ? base : block - turn);
    last = found.sum;
  }
  return blocks;
}

function baseBlock(virtual: number, skips: readonly number[]): number {
  let block = skips.length - 1;
  for (let rest = virtual; rest > 0; rest -= skips[block]) {
    do block--;
    while (skips[block] > rest);
  }
  return block;
}

/**
 * The first sum of skips in a range, where those with larger skips come first: the sum, and where its smallest one
 * stands in the list. The lower bound itself is taken only where nothing can be added to it.
 */
function largest(
  left: readonly number[],
  skips: readonly number[],
  from: number,
  range: { low: number; high: number },
  before = 0,
): { index: number; sum: number } | undefined {
  for (let index = from; index < left.length; index++) {
    const sum = before + skips[left[index]];
    if (sum > range.high) continue;
    if (sum > range.low) return { index, sum };
    const found = largest(left, skips, index + 1, range, sum);
    if (found !== undefined) return found;
    if (sum === range.low) return { index, sum };
  }
  return undefined;
}
