/**
 * Blocks of different lengths: igatherv and iscatterv. Only the root passes counts; displs is null where blocks lie one
 * behind the other.
 *
 *     nbcrun -n 4 out/examples/calls/uneven-blocks.js
 *
 *     gathered: 1,2,2,3,3,3
 *     rank 0 got back nothing
 *     rank 1 got back 1
 *     rank 2 got back 2,2
 *     rank 3 got back 3,3,3
 */
import { init } from 'node-nbc';

const world = await init();
const { rank, size } = world;
const mine = new Uint8Array(rank).fill(rank); // as many elements as the rank's number

const counts = rank === 0 ? Array.from({ length: size }, (_, from) => from) : null;
const all = rank === 0 ? new Uint8Array((size * (size - 1)) / 2) : null;
await world.igatherv(mine, all, counts, null, 0);
if (all !== null) console.log(`gathered: ${all.join()}`);

const back = new Uint8Array(rank);
await world.iscatterv(all, counts, null, back, 0);
console.log(`rank ${rank} got back ${back.length === 0 ? 'nothing' : back.join()}`);
await world.close();
