/**
 * igatherv with blocks of many sizes, empty ones among them, in order and out of order, in place and not; and what its
 * arguments may not be.
 */
import assert from 'node:assert/strict';
import { alloc, ArgumentError, ClosedError, type Counts, init, IN_PLACE } from 'node-nbc';
import { report } from './scenario.js';

const world = await init();
const { rank, size } = world;
const word = (from: number, at: number): number => from * 1e6 + at;
const filled = (from: number, count: number): Float64Array =>
  Float64Array.from({ length: count }, (_, i) => word(from, i));

let cases = 0;
for (const scale of [1, 100, 20_000]) {
  const counts = Array.from({ length: size }, (_, from) => (from % 3 === 1 ? 0 : (from + 1) * scale));
  const backwards = counts.map((_, from) => counts.slice(from + 1).reduce((sum, count) => sum + count + 1, 0));
  for (const displs of [null, backwards]) {
    for (const make of [(n: number) => new Float64Array(n), (n: number) => alloc(Float64Array, n)]) {
      for (const inPlace of [false, true]) {
        for (let root = 0; root < size; root++) gather(counts, displs, make, root, inPlace);
      }
    }
  }
}

function gather(
  counts: number[],
  displs: number[] | null,
  make: (length: number) => Float64Array,
  root: number,
  inPlace: boolean,
): void {
  const own = filled(rank, counts[rank]);
  if (rank !== root) {
    const send = make(own.length);
    send.set(own);
    world.igatherv(send, null, null, null, root).wait();
    cases++;
    return;
  }
  let next = 0;
  const places = displs ?? counts.map((count) => (next += count) - count);
  const length = Math.max(...places.map((place, from) => place + counts[from])) + 1;
  const recv = make(length).fill(-1);
  const expected = new Float64Array(length).fill(-1);
  for (const [from, count] of counts.entries()) expected.set(filled(from, count), places[from]);
  if (inPlace) recv.set(own, places[rank]);
  const counted: Counts = root % 2 === 0 ? counts : Int32Array.from(counts);
  world.igatherv(inPlace ? IN_PLACE : own, recv, counted, displs, root).wait();
  assert.deepEqual(recv, expected);
  cases++;
}

// Nothing of this is sent, so the communicator stays usable.
if (rank === 0) {
  const recv = new Float64Array(4 * size);
  const ones = new Array<number>(size).fill(1);
  const wrong = (argument: string, ...args: unknown[]): void => {
    const call = world.igatherv.bind(world) as (...given: unknown[]) => unknown;
    assert.throws(
      () => call(...args),
      (error: unknown) => error instanceof ArgumentError && error.argument === argument,
      `${argument} is wrong`,
    );
  };
  const send = new Float64Array(1);
  wrong('root', send, recv, ones, null, size);
  wrong('recv', send, null, ones, null, 0);
  wrong('counts', send, recv, null, null, 0);
  wrong('counts', send, recv, [...ones, 1], null, 0);
  wrong('counts', send, recv, [-1, ...ones.slice(1)], null, 0);
  wrong('counts', send, recv, [1.5, ...ones.slice(1)], null, 0);
  wrong('counts', send, recv, [1, 4 * size, ...ones.slice(2)], null, 0);
  wrong('displs', send, recv, ones, ones, 0); // all at one place
  wrong('displs', send, recv, ones, [4 * size, ...ones.slice(1)], 0);
  wrong('displs', send, recv, ones, 'there', 0);
  wrong('send', new Float64Array(2), recv, ones, null, 0);
  wrong('recv', recv.subarray(0, 1), recv, ones, null, 0);
  wrong('send', null, recv, ones, null, 0);
} else {
  assert.throws(() => world.igatherv(IN_PLACE, null, null, null, 0), ArgumentError);
}
gather(new Array<number>(size).fill(1), null, (n) => new Float64Array(n), 0, false);
await world.close();
assert.throws(
  () => world.igatherv(new Float64Array(1), new Float64Array(size), new Array<number>(size).fill(1), null, 0),
  ClosedError,
);
report(cases);
