/**
 * A sum of which each rank needs only its own block: ireduceScatterBlock.
 *
 *     nbcrun -n 4 out/examples/calls/reduce-scatter.js
 *
 *     rank 0: 6
 *     rank 1: 10
 *     rank 2: 14
 *     rank 3: 18
 */
import { init, SUM } from 'node-nbc';

const world = await init();
const { rank, size } = world;
const contribution = Float32Array.from({ length: size }, (_, block) => rank + block);
const own = new Float32Array(1);
await world.ireduceScatterBlock(contribution, own, SUM);
console.log(`rank ${rank}: ${own.join()}`);
await world.close();
