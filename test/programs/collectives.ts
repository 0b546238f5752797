/**
 * All operations on all ranks: see all-collectives.ts. Arguments: the progress mode, the form, and where several jobs
 * share the cases, which of how many this one is.
 */
import { init } from 'node-nbc';
import { runCollectives } from './all-collectives.js';
import { report } from './scenario.js';

const mode = process.argv[2] as 'thread' | 'manual';
const world = await init({ progress: mode });
const [turn = 0, jobs = 1] = process.argv.slice(4).map(Number);
const ran = await runCollectives(world, { mode, form: process.argv[3], turn, jobs });
await world.close();
report(ran);
