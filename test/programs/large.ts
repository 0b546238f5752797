/**
 * Views of more than 4 GiB, or of more than 2^31 elements: two ranks move little, at places far behind. Their memory is
 * only used where it is touched. Arguments: scenario, class of the view, its elements.
 */
import assert from 'node:assert/strict';
import { ArgumentError, init, type Request, strided, SUM, waitAll } from 'node-nbc';
import { play, report } from './scenario.js';

const [, , , kind, elements] = process.argv;
type View = Float64Array;
const View = (globalThis as unknown as Record<string, typeof Float64Array>)[kind];
const length = Number(elements);
/** An element behind 4 GiB, or behind 2^31 others. */
const far = length - 1000;

await play({ places, message });

/** Numbers that say where they come from; below 128, so that every type has them. */
function numbers(count: number, first: number): View {
  return View.from({ length: count }, (_, index) => first + index);
}

/** `all` has these numbers from an element on. Clears them. */
function take(all: View, at: number, expected: View, what: string): void {
  const found = all.subarray(at, at + expected.length);
  assert.deepEqual(found.slice(), expected, what);
  found.fill(0);
}

async function places(): Promise<void> {
  const world = await init();
  const { rank } = world;
  const peer = 1 - rank;
  const big = new View(length);
  const width = View.BYTES_PER_ELEMENT;
  /** Where an element would be of whose place in bytes, or in elements, only 32 or 31 bits are left. */
  const wrong = [...new Set([((far * width) % 2 ** 32) / width, far % 2 ** 31])].filter((at) => at !== far);
  const done = (request: Request, what: string): void => {
    request.wait();
    for (const at of wrong) assert.equal(big[at], 0, `${what}: element ${at} is written`);
  };

  done(world.iallgatherv(numbers(3, 10 * rank), big, [3, 3], [far, 7]), 'iallgatherv');
  take(big, far, numbers(3, 0), 'iallgatherv');
  take(big, 7, numbers(3, 10), 'iallgatherv');

  done(world.igatherv(numbers(3, 10 * rank), rank === 1 ? big : null, [3, 3], [0, far], 1), 'igatherv');
  if (rank === 1) {
    take(big, far, numbers(3, 10), 'igatherv');
    take(big, 0, numbers(3, 0), 'igatherv');
  }

  big.set(numbers(2, 20 + rank), far);
  big.set(numbers(2, 40 + rank), 5);
  const four = new View(4);
  done(world.ialltoallv(big, [2, 2], [far, 5], four, [2, 2], null), 'ialltoallv');
  take(four, 0, numbers(2, rank === 0 ? 20 : 40), 'ialltoallv');
  take(four, 2, numbers(2, rank === 0 ? 21 : 41), 'ialltoallv');

  // Parts with all of the view between them.
  const parts = [big.subarray(5, 7), big.subarray(far, far + 2)];
  done(world.ialltoallw(parts, [four.subarray(0, 2), four.subarray(2)]), 'ialltoallw');
  take(four, 0, numbers(2, rank === 0 ? 40 : 20), 'ialltoallw');
  take(big, 5, numbers(2, 40 + rank), 'ialltoallw leaves what it sends');
  take(big, far, numbers(2, 20 + rank), 'ialltoallw leaves what it sends');

  // Elements from one end of the view to the other.
  const stride = Math.floor((far - 10) / 3);
  const spread = strided(big, { shape: [4], strides: [stride], offset: 10 });
  const column = [0, 1, 2, 3].map((index) => 10 + index * stride);
  if (rank === 0) column.forEach((at, index) => (big[at] = 30 + index));
  done(world.ibcast(spread, 0), 'ibcast of a layout');
  const sums = new View(4);
  done(world.iallreduce(spread, sums, SUM), 'iallreduce of a layout');
  take(sums, 0, View.of(60, 62, 64, 66), 'iallreduce of a layout');
  column.forEach((at, index) => take(big, at, View.of(30 + index), 'ibcast of a layout'));

  big.set(numbers(3, 50 + rank), far);
  const inside = big.subarray(far + 100, far + 103);
  waitAll([world.irecv(inside, peer), world.isend(big.subarray(far, far + 3), peer)]);
  take(big, far + 100, numbers(3, 50 + peer), 'isend, irecv');
  big.fill(0, far, far + 3);

  // A message into a view that is far longer: request.bytes says how long it was.
  const request = rank === 0 ? world.isend(numbers(3, 60), 1, 1) : world.irecv(big, 0, 1);
  done(request, 'irecv');
  assert.equal(request.bytes, 3 * width);
  if (rank === 1) take(big, 0, numbers(3, 60), 'irecv');

  const counts = [3, 3];
  const late = (displs: number[]) => () => world.iallgatherv(numbers(3, 0), big, counts, displs);
  for (const displs of [late([0, length - 2]), late([far, far + 2]), late([0, length + far])]) {
    assert.throws(displs, (error: unknown) => error instanceof ArgumentError && error.argument === 'displs');
  }
  await world.close();
  report(length * width);
}

/** One message of all of a view. */
async function message(): Promise<void> {
  const world = await init();
  const big = new View(length);
  // The begin, the end, and around 4 GiB.
  const edge = 2 ** 32 / View.BYTES_PER_ELEMENT;
  const marks = [0, 1, edge - 1, edge, length - 1];
  if (world.rank === 0) marks.forEach((at, index) => (big[at] = 1 + index));
  const request = world.rank === 0 ? world.isend(big, 1) : world.irecv(big, 0);
  await request;
  assert.equal(request.bytes, big.byteLength);
  marks.forEach((at, index) => assert.equal(big[at], 1 + index, `element ${at}`));
  await world.close();
  report(big.byteLength);
}
