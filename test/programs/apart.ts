/**
 * Four ranks on two hosts, two on each, that meet through a store: scripts/guest/pair runs the scenarios on two guests.
 */
import assert from 'node:assert/strict';
import { type Communicator, init, MAX, type NbcError, type Request } from 'node-nbc';
import { play, report, say } from './scenario.js';

await play({ overlap, away, cut, lost });

/** An exchange is complete at the first test after a computation of several times its own length. */
async function overlap(): Promise<void> {
  const world = await init();
  const send = new Float64Array(world.size * 8192).fill(world.rank);
  const recv = new Float64Array(send.length);
  const exchange = (): Request => world.ialltoall(send, recv);
  exchange().wait();
  world.ibarrier().wait();
  const began = performance.now();
  exchange().wait();
  const alone = new Float64Array([performance.now() - began]);
  const longest = new Float64Array(1);
  world.iallreduce(alone, longest, MAX).wait();
  const request = exchange();
  const until = performance.now() + 8 * longest[0];
  while (performance.now() < until);
  assert(request.test(), `not complete after ${8 * longest[0]} ms`);
  assert(recv.every((value, at) => value === Math.floor(at / 8192)));
  await world.close();
  say(`overlapped: rank ${world.rank}`);
}

/** Exchanges go on, and stay right, where the network between the hosts is silent for some seconds meanwhile. */
async function away(): Promise<void> {
  const SECONDS = 9;
  const world = await init();
  const send = new Float64Array(world.size * 8192);
  const recv = new Float64Array(send.length);
  const elapsed = new Float64Array(2);
  const latest = new Float64Array(2);
  await world.ibarrier();
  say('ready');
  const began = performance.now();
  for (let round = 0, longest = 0; latest[0] < SECONDS * 1000; round++) {
    const before = performance.now();
    await world.ialltoall(send.fill(world.rank + round), recv);
    assert(recv.every((value, at) => value === Math.floor(at / 8192) + round));
    longest = Math.max(longest, performance.now() - before);
    // All stop after the same round.
    elapsed.set([performance.now() - began, longest]);
    await world.iallreduce(elapsed, latest, MAX);
  }
  assert(latest[1] > 2000, `the longest exchange took ${latest[1]} ms: the network was not away`);
  await world.close();
  say(`outlasted: rank ${world.rank}`);
}

/**
 * The network between the hosts goes for ever. The ranks of each host learn that those of the other one are out of
 * reach, and go on with each other.
 */
async function cut(): Promise<void> {
  const world = await init();
  await world.ibarrier();
  say('ready');
  await goOnWithout(world, world.rank < 2 ? [2, 3] : [0, 1]);
  say(`goes on: rank ${world.rank}`);
}

/** The host of ranks 2 and 3 ends. The ranks of the other one learn of it, and go on with each other. */
async function lost(): Promise<void> {
  const world = await init();
  const { rank } = world;
  await world.ibarrier();
  say('ready');
  // A message that never comes: the host ends first.
  if (rank >= 2) await world.irecv(new Uint8Array(1), 0, 9);
  await goOnWithout(world, [2, 3]);
  report('goes on');
}

/** The other host has these ranks, two as this one. Closes the world. */
async function goOnWithout(world: Communicator, others: readonly number[]): Promise<void> {
  for (const peer of others) {
    const ended = async (): Promise<unknown> => world.irecv(new Uint8Array(1), peer, 1);
    await assert.rejects(ended, (error: NbcError) => {
      assert(['ERR_NBC_PEER_CLOSED', 'ERR_NBC_UNREACHABLE'].includes(error.code), error.message);
      return true;
    });
  }
  const neighbor = world.rank ^ 1;
  const near = new Uint8Array(200_000);
  await Promise.all([world.irecv(near, neighbor, 2), world.isend(new Uint8Array(200_000).fill(7), neighbor, 2)]);
  assert(near.every((byte) => byte === 7));
  await world.close();
}
