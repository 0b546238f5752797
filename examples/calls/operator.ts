/**
 * An operator of the program's own: createOp. b[i] becomes a[i] op b[i]; `a` comes from lower ranks.
 *
 *     nbcrun -n 4 out/examples/calls/operator.js
 *
 *     greatest common divisors: 6,35
 */
import { createOp, init } from 'node-nbc';

const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
const GCD = createOp<Int32Array>(
  (a, b) => {
    for (let i = 0; i < b.length; i++) b[i] = divisor(a[i], b[i]);
  },
  { commutative: true },
);

const world = await init();
const numbers = [Int32Array.of(12, 35), Int32Array.of(18, 70), Int32Array.of(30, 105), Int32Array.of(6, 140)];
const result = new Int32Array(2);
await world.iallreduce(numbers[world.rank], result, GCD);
if (world.rank === 0) console.log(`greatest common divisors: ${result.join()}`);
await world.close();
