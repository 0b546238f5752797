/**
 * Every rank has another number of elements for every rank: ialltoallv. An ialltoall of the counts goes before it.
 *
 *     nbcrun -n 3 out/examples/calls/uneven-exchange.js
 *
 *     rank 0 received 3,3,6
 *     rank 1 received 1,4,4,7,7
 *     rank 2 received 2,2,5
 */
import { init } from 'node-nbc';

const world = await init();
const { rank, size } = world;
// A number belongs to the rank that its remainder names. In the order of their ranks, they lie one behind the other.
const numbers = [
  [1, 2, 2],
  [3, 3, 4, 4, 5],
  [6, 7, 7],
][rank];
const sent = Int32Array.from(numbers).sort((a, b) => (a % size) - (b % size));
const sendCounts = Int32Array.from({ length: size }, (_, to) => numbers.filter((n) => n % size === to).length);

const recvCounts = new Int32Array(size);
await world.ialltoall(sendCounts, recvCounts);
const received = new Int32Array(recvCounts.reduce((sum, count) => sum + count, 0));
await world.ialltoallv(sent, sendCounts, null, received, recvCounts, null);
console.log(`rank ${rank} received ${received.join()}`);
await world.close();
