/**
 * A communicator of its own for a part of a program: dup. Collectives of one communicator are started in the same order
 * on all ranks; those of two need not be.
 *
 *     nbcrun -n 4 out/examples/calls/dup.js
 *
 *     sum 6, largest 3
 */
import { init, MAX, SUM, waitAll } from 'node-nbc';

const world = await init();
const { rank } = world;
const other = await world.dup();
const [sum, largest] = [new Int32Array(1), new Int32Array(1)];
const add = () => world.iallreduce(Int32Array.of(rank), sum, SUM);
const compare = () => other.iallreduce(Int32Array.of(rank), largest, MAX);
waitAll(rank % 2 === 0 ? [add(), compare()] : [compare(), add()]);
if (rank === 0) console.log(`sum ${sum[0]}, largest ${largest[0]}`);
await other.close();
await world.close();
