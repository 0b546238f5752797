/**
 * Ranks in a grid that exchange with their neighbours: dimsCreate, cart, ineighborAllgather, shift and isendrecv.
 *
 *     nbcrun -n 4 out/examples/calls/grid.js
 *
 *     rank 0 at 0,0: neighbours 2,2,1,1, received 1 from the left
 *     rank 1 at 0,1: neighbours 3,3,0,0, received 0 from the left
 *     rank 2 at 1,0: neighbours 0,0,3,3, received 3 from the left
 *     rank 3 at 1,1: neighbours 1,1,2,2, received 2 from the left
 */
import { dimsCreate, init } from 'node-nbc';

const world = await init();
const grid = await world.cart({ dims: dimsCreate(world.size, 2), periods: [true, true] });
if (grid === null) throw new Error('every rank is in the grid');

const neighbors = new Int32Array(4); // for each dimension, the lower and the upper one
await grid.ineighborAllgather(Int32Array.of(grid.rank), neighbors);

const { source, dest } = grid.shift(1, 1); // one to the right
const left = new Int32Array(1);
await grid.isendrecv(Int32Array.of(grid.rank), dest, left, source);

const place = grid.coords().join();
console.log(`rank ${grid.rank} at ${place}: neighbours ${neighbors.join()}, received ${left[0]} from the left`);
await grid.close();
await world.close();
