/**
 * A matrix is transposed that has one row on each rank: ialltoall. Block i of what a rank sends goes to rank i.
 *
 *     nbcrun -n 4 out/examples/calls/transpose.js
 *
 *     row 0: 0,10,20,30
 *     row 1: 1,11,21,31
 *     row 2: 2,12,22,32
 *     row 3: 3,13,23,33
 */
import { init } from 'node-nbc';

const world = await init();
const { rank, size } = world;
const row = Int32Array.from({ length: size }, (_, column) => 10 * rank + column);
const column = new Int32Array(size);
await world.ialltoall(row, column);
console.log(`row ${rank}: ${column.join()}`);
await world.close();
