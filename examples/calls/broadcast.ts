/**
 * A broadcast that goes on while the ranks compute: ibcast.
 *
 *     nbcrun -n 4 out/examples/calls/broadcast.js
 *
 *     rank 0 has 1,2,3 and computed 499500
 *     rank 1 has 1,2,3 and computed 499500
 *     rank 2 has 1,2,3 and computed 499500
 *     rank 3 has 1,2,3 and computed 499500
 */
import { init } from 'node-nbc';

const world = await init();
const data = world.rank === 0 ? Float64Array.of(1, 2, 3) : new Float64Array(3);

const request = world.ibcast(data, 0); // returns at once
let computed = 0;
for (let i = 0; i < 1000; i++) computed += i; // the broadcast progresses by itself meanwhile
await request; // from here on `data` is ours again

console.log(`rank ${world.rank} has ${data.join()} and computed ${computed}`);
await world.close();
