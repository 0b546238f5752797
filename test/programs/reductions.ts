/** Every operator on every type of elements, in real numbers; and the same bits in every run. Three ranks. */
import assert from 'node:assert/strict';
import { bfloat16, BAND, float16, init, MAX, MAXLOC, MIN, MINLOC, PROD, SUM } from 'node-nbc';
import { report } from './scenario.js';

const LENGTH = 1000;
const world = await init();
const { rank, size } = world;
let cases = 0;

const arrays = [
  Int8Array,
  Uint8Array,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
] as const;
/** Small whole numbers, of which sums and products are exact in every type. */
const value = (from: number, at: number): number => 1 + ((from + at) % 4);
const all = (at: number): number[] => Array.from({ length: size }, (_, from) => value(from, at));
const sum = (values: number[]): number => values.reduce((a, b) => a + b);
const product = (values: number[]): number => values.reduce((a, b) => a * b);

for (const View of arrays) {
  for (const [op, expected] of [
    [SUM, sum],
    [PROD, product],
    [MIN, (values: number[]) => Math.min(...values)],
    [MAX, (values: number[]) => Math.max(...values)],
  ] as const) {
    const send = new View(LENGTH).map((_, at) => value(rank, at));
    const recv = new View(LENGTH);
    world.iallreduce(send, recv, op).wait();
    for (const [at, result] of recv.entries()) assert.equal(result, expected(all(at)), `${View.name} ${op.name}`);
    cases++;
  }
}

for (const View of [BigInt64Array, BigUint64Array]) {
  const recv = new View(LENGTH);
  const big = 2n ** 40n;
  world.iallreduce(new View(LENGTH).fill(big + BigInt(rank)), recv, SUM).wait();
  assert(recv.every((result) => result === big * BigInt(size) + BigInt((size * (size - 1)) / 2)));
  world.iallreduce(new View(LENGTH).fill(big + BigInt(rank)), recv, BAND).wait();
  assert(recv.every((result) => result === big));
  cases += 2;
}

// The bits of 1 to 3 in both half formats, and of 6, their sum.
for (const [view, bits, six] of [
  [float16, [0x3c00, 0x4000, 0x4200], 0x4600],
  [bfloat16, [0x3f80, 0x4000, 0x4040], 0x40c0],
] as const) {
  const recv = new Uint16Array(LENGTH);
  const send = new Uint16Array(LENGTH).fill(bits[rank]);
  world.iallreduce(view(send), view(recv), SUM).wait();
  assert(
    recv.every((result) => result === six),
    `${view.name}: ${recv[0].toString(16)}`,
  );
  cases++;
}

for (const op of [MINLOC, MAXLOC]) {
  // The value is the same at all ranks in even pairs: the lower index wins.
  const send = new Float64Array(LENGTH).map((_, at) => (at % 2 === 1 ? rank : at % 4 === 0 ? 5 : rank));
  const recv = new Float64Array(LENGTH);
  world.iallreduce(send, recv, op).wait();
  const last = op === MAXLOC ? size - 1 : 0;
  for (let at = 0; at < LENGTH; at += 2) {
    assert.deepEqual([...recv.subarray(at, at + 2)], at % 4 === 0 ? [5, 0] : [last, last]);
  }
  cases++;
}

// Numbers whose sum depends on the order: every rank and every run has the same bits.
for (const algorithm of ['recursive-doubling', 'ring', 'rabenseifner'] as const) {
  const send = new Float32Array(LENGTH).map((_, at) => Math.sin(at * 37 + rank * 11) * 10 ** (at % 9));
  const results = Array.from({ length: 5 }, () => {
    const recv = new Float32Array(LENGTH);
    world.iallreduce(send, recv, SUM, { algorithm }).wait();
    return recv;
  });
  const everywhere = new Float32Array(size * LENGTH);
  world.iallgather(results[0], everywhere).wait();
  for (const result of results) assert.deepEqual(result, results[0]);
  for (let from = 0; from < size; from++) {
    assert.deepEqual(everywhere.slice(from * LENGTH, (from + 1) * LENGTH), results[0]);
  }
  cases++;
}
await world.close();
report(cases);
