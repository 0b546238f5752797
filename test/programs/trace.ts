/**
 * Ranks that are traced (test/trace.test.ts). Two ranks. Scenarios:
 *
 * - `overlap FOLDER`: rank 0 starts a large exchange and computes, without any call, until rank 1 has completed it. A
 *   barrier follows.
 * - `kinds`: operations of all kinds: collectives, messages, persistent ones, a schedule of the program, a failure.
 * - `exits`: operations, and no end of the world.
 */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { init, SUM, TruncatedError } from 'node-nbc';
import { Role, Schedule } from 'node-nbc/schedules';
import { play } from './scenario.js';

/** Bytes to each rank. */
const LARGE = 4 << 20;

await play({ overlap, kinds, exits });

function computeUntil(file: string): void {
  while (!existsSync(file));
}

async function overlap(): Promise<void> {
  const folder = process.argv[3];
  const [started, complete] = [join(folder, 'started'), join(folder, 'complete')];
  const world = await init();
  const [send, recv] = [new Uint8Array(LARGE * 2), new Uint8Array(LARGE * 2)];
  if (world.rank === 0) {
    const request = world.ialltoall(send, recv);
    writeFileSync(started, '');
    computeUntil(complete);
    world.ibarrier().wait();
    request.wait();
  } else {
    computeUntil(started);
    world.ialltoall(send, recv).wait();
    writeFileSync(complete, '');
    world.ibarrier().wait();
  }
  await world.close();
}

async function kinds(): Promise<void> {
  const world = await init();
  const peer = 1 - world.rank;
  const numbers = new Float64Array(2000);
  world.iallreduce(numbers, new Float64Array(2000), SUM).wait();
  await world.ibcast(numbers, 0);
  const receive = world.irecv(new Uint8Array(8), peer, 3);
  world.isend(new Uint8Array(8), peer, 3).wait();
  while (!receive.test());
  const persistent = world.barrierInit();
  for (let i = 0; i < 3; i++) {
    persistent.start();
    persistent.wait();
  }
  const schedule = new Schedule().send(peer, Role.SEND, 0, 8).recv(peer, Role.RECEIVE, 0, 8);
  world.start(schedule, new Uint8Array(8), new Uint8Array(8)).wait();
  const short = world.irecv(new Uint8Array(8), peer, 4);
  world.isend(new Uint8Array(16), peer, 4).wait();
  assert.throws(() => short.wait(), TruncatedError);
  await world.close();
}

async function exits(): Promise<void> {
  const world = await init();
  world.ibarrier().wait();
  process.exit(0);
}
