/**
 * Values of any kind, for set-up and control: world.values. They are serialised, so use views for what is large.
 *
 *     nbcrun -n 4 out/examples/calls/values.js
 *
 *     rank 0 has 25 steps of 0.5, and task a
 *     rank 1 has 25 steps of 0.5, and task b
 *     rank 2 has 25 steps of 0.5, and task c
 *     rank 3 has 25 steps of 0.5, and task d
 */
import { init } from 'node-nbc';

const world = await init();
const { rank, values } = world;
const settings = await values.bcast(rank === 0 ? { steps: 25, width: 0.5 } : null, 0);
const task = await values.scatter(rank === 0 ? ['a', 'b', 'c', 'd'] : null, 0);
console.log(`rank ${rank} has ${settings?.steps} steps of ${settings?.width}, and task ${task}`);
await world.close();
