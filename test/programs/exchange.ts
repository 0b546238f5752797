/**
 * The smallest job that uses all of the library: one ialltoall of small and one of large blocks, every word checked.
 */
import assert from 'node:assert/strict';
import { init } from 'node-nbc';
import { say } from './scenario.js';

const world = await init();
const { rank, size } = world;
/** Words of 8 bytes in a block: one message goes eagerly, the other by rendezvous. */
for (const words of [1, 8192]) {
  const word = (from: number, to: number, at: number): number => (from * size + to) * words + at;
  const send = Float64Array.from({ length: size * words }, (_, i) => word(rank, Math.floor(i / words), i % words));
  const recv = new Float64Array(size * words);
  await world.ialltoall(send, recv);
  for (let i = 0; i < recv.length; i++) assert.equal(recv[i], word(Math.floor(i / words), rank, i % words));
}
await world.close();
say(`exchanged: rank ${rank} of ${size}`);
