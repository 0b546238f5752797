/**
 * Everybody gets what everybody has: iallgather.
 *
 *     nbcrun -n 4 out/examples/calls/allgather.js
 *
 *     rank 0 sees 100,101,102,103
 *     rank 1 sees 100,101,102,103
 *     rank 2 sees 100,101,102,103
 *     rank 3 sees 100,101,102,103
 */
import { init } from 'node-nbc';

const world = await init();
const all = new Int32Array(world.size);
await world.iallgather(Int32Array.of(100 + world.rank), all);
console.log(`rank ${world.rank} sees ${all.join()}`);
await world.close();
