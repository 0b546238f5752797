/**
 * alloc gives memory that all peers can reach: the fastest buffer for large messages. Parts of it are buffers, too.
 *
 *     nbcrun -n 2 out/examples/calls/shared-buffers.js
 *
 *     rank 0 has 1048576 numbers, first half all 0, second half all 1
 *     rank 1 has 1048576 numbers, first half all 0, second half all 1
 */
import { alloc, IN_PLACE, init } from 'node-nbc';

const world = await init();
const { rank } = world;
const numbers = alloc(Float64Array, 2 ** 20); // after init(); as any typed array otherwise
const half = numbers.length / 2;
numbers.fill(rank, rank * half, (rank + 1) * half);
await world.iallgather(IN_PLACE, numbers);

const same = (from: number): string =>
  numbers.subarray(from, from + half).every((value) => value === numbers[from]) ? `all ${numbers[from]}` : 'mixed';
console.log(`rank ${rank} has ${numbers.length} numbers, first half ${same(0)}, second half ${same(half)}`);
await world.close();
