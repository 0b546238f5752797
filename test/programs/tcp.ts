/** Ranks over TCP that talk to rank 0 only, then report what that took. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { init, waitAll } from 'node-nbc';
import { report } from './scenario.js';

const LARGE = 100_000;

const world = await init();
const peers = world.rank === 0 ? Array.from({ length: world.size - 1 }, (_, index) => index + 1) : [0];
// In order: a small message, then a large one.
const received = peers.map(() => [new Uint8Array(8), new Uint8Array(LARGE)]);
const requests = peers.flatMap((peer, index) =>
  received[index].flatMap((buffer) => [
    world.irecv(buffer, peer, 1),
    world.isend(new Uint8Array(buffer.length).fill(world.rank), peer, 1),
  ]),
);
waitAll(requests);
for (const [index, peer] of peers.entries()) {
  for (const buffer of received[index]) assert(buffer.every((byte) => byte === peer));
}
report({ threads: readdirSync('/proc/self/task').length, stats: world.stats() });
await world.close();
