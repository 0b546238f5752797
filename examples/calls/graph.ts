/**
 * Neighbours in a graph of the program's own: distGraph, ineighborAlltoallv. Each rank names those that it hears from
 * and those that it sends to; here a tree, in which a parent sends down and children send up.
 *
 *     nbcrun -n 4 out/examples/calls/graph.js
 *
 *     rank 0 hears from 1,2: 10,20,20
 *     rank 1 hears from 0,3: 0,30,30,30
 *     rank 2 hears from 0: 0
 *     rank 3 hears from 1: 10
 */
import { init } from 'node-nbc';

const world = await init();
const { rank, size } = world;
const above = rank > 0 ? [Math.floor((rank - 1) / 2)] : [];
const below = [2 * rank + 1, 2 * rank + 2].filter((child) => child < size);
const neighbors = [...above, ...below];
const tree = await world.distGraph({ sources: neighbors, destinations: neighbors });

// Down goes one number, up as many as the rank's number.
const sendCounts = neighbors.map((to) => (to < rank ? rank : 1));
const recvCounts = neighbors.map((from) => (from < rank ? 1 : from));
const sum = (counts: number[]): number => counts.reduce((a, b) => a + b, 0);
const received = new Int32Array(sum(recvCounts));
const sent = new Int32Array(sum(sendCounts)).fill(10 * rank);
await tree.ineighborAlltoallv(sent, sendCounts, null, received, recvCounts, null);
console.log(`rank ${rank} hears from ${neighbors.join()}: ${received.join()}`);
await tree.close();
await world.close();
