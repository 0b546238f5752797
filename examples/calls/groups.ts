/**
 * Communicators of some of the ranks: split. Collectives of two communicators never meet.
 *
 *     nbcrun -n 4 out/examples/calls/groups.js
 *
 *     even ranks: 0,2
 *     odd ranks: 1,3
 */
import { init } from 'node-nbc';

const world = await init();
const odd = world.rank % 2;
const group = await world.split(odd);
if (group === null) throw new Error('every rank has a color');

const members = new Int32Array(group.size);
await group.iallgather(Int32Array.of(world.rank), members);
if (group.rank === 0) console.log(`${odd === 1 ? 'odd' : 'even'} ranks: ${members.join()}`);
await group.close();
await world.close();
