/** Ranks that talk, and report the addresses at which their own process listens, while all do. */
import { init } from 'node-nbc';
import { listeners } from './listeners.js';
import { report } from './scenario.js';

const world = await init();
const all = new Int32Array(world.size);
await world.ialltoall(new Int32Array(world.size), all);
report({ rank: world.rank, listeners: listeners('process') });
await world.ialltoall(new Int32Array(world.size), all);
await world.close();
