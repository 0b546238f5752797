/**
 * Sums, the largest value and where it is: ireduce and iallreduce. Several operations may go on at the same time.
 *
 *     nbcrun -n 4 out/examples/calls/reduce.js
 *
 *     sums: 6,60
 *     the largest is 27, on rank 3
 */
import { init, MAXLOC, SUM, waitAll } from 'node-nbc';

const world = await init();
const { rank } = world;
const sums = rank === 0 ? new Float64Array(2) : null;
const largest = new Float64Array(2); // pairs: a value, and an index that goes with it
waitAll([
  world.ireduce(Float64Array.of(rank, 10 * rank), sums, SUM, 0),
  world.iallreduce(Float64Array.of(9 * rank, rank), largest, MAXLOC),
]);
if (sums !== null) {
  console.log(`sums: ${sums.join()}`);
  console.log(`the largest is ${largest[0]}, on rank ${largest[1]}`);
}
await world.close();
