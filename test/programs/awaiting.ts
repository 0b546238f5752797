/**
 * Awaited requests and the event loop. Two ranks. Scenarios:
 *
 * - `crowd`: rank 0 awaits many receives in one turn, of one size and of another; reports the processor time of each.
 * - `woken`: rank 0 awaits messages that come when it sleeps in its event loop.
 * - `chain`: rank 0 awaits answers that come at once, without end, until a timer has fired.
 * - `computes`: rank 0 awaits a large exchange, and then computes in its event loop until the exchange is over.
 */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Communicator, init } from 'node-nbc';
import { play, report } from './scenario.js';

await play({ crowd, woken, chain, computes });

async function opened(run: (world: Communicator) => Promise<void>, options = {}): Promise<void> {
  const world = await init(options);
  world.ibcast(new Uint8Array(1), 0).wait();
  await run(world);
  world.ibcast(new Uint8Array(1), 0).wait();
  world.ibcast(new Uint8Array(1), 1).wait();
  await world.close();
}

async function crowd(): Promise<void> {
  const sizes = [1000, 1000, 20000];
  await opened(async (world) => {
    const times: number[] = [];
    for (const count of sizes) {
      if (world.rank === 0) {
        const begin = process.cpuUsage();
        const requests = Array.from({ length: count }, (_, tag) => world.irecv(new Uint8Array(8), 1, tag));
        const all = Promise.all(requests);
        // One turn of the event loop, with all of them awaited and none complete.
        await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
        const { user, system } = process.cpuUsage(begin);
        times.push(user + system);
        world.ibcast(new Uint8Array(1), 0).wait();
        await all;
      } else {
        world.ibcast(new Uint8Array(1), 0).wait();
        for (let tag = 0; tag < count; tag++) world.isend(new Uint8Array(8), 0, tag).wait();
      }
    }
    if (world.rank === 0) report({ sizes, times });
    else report(null);
  });
}

async function woken(): Promise<void> {
  await opened(async (world) => {
    for (let i = 0; i < 20; i++) {
      if (world.rank === 0) {
        await world.irecv(new Uint8Array(8), 1, 1);
        world.isend(new Uint8Array(8), 1, 2).wait();
      } else {
        await sleep(5);
        world.isend(new Uint8Array(8), 0, 1).wait();
        world.irecv(new Uint8Array(8), 0, 2).wait();
      }
    }
    report(world.stats());
  });
}

async function chain(): Promise<void> {
  await opened(async (world) => {
    const word = new Int32Array(1);
    if (world.rank === 0) {
      const timer = { fired: false };
      setTimeout(() => (timer.fired = true), 20);
      do {
        word[0] = timer.fired ? 1 : 0;
        await world.isend(word, 1);
        await world.irecv(word, 1);
      } while (word[0] === 0);
      assert(timer.fired);
    } else {
      do {
        world.irecv(word, 0).wait();
        world.isend(word, 0).wait();
      } while (word[0] === 0);
    }
  });
}

async function computes(): Promise<void> {
  const board = process.argv[3];
  await opened(
    async (world) => {
      const bytes = 8 << 20;
      if (world.rank === 0) {
        const received = Promise.resolve(world.irecv(new Uint8Array(bytes), 1));
        // The event loop has gone to sleep by now, and is woken by this timer.
        await sleep(50);
        writeFileSync(`${board}-computes`, '');
        let over = false;
        for (const end = performance.now() + 30_000; !over && performance.now() < end;)
          over = existsSync(`${board}-over`);
        report(over);
        await received;
      } else {
        while (!existsSync(`${board}-computes`));
        world.isend(new Uint8Array(bytes), 0).wait();
        writeFileSync(`${board}-over`, '');
        report(true);
      }
    },
    // Then the receiver has to take part in what it receives.
    { crossMemory: 'off', awaitSpin: 0 },
  );
}
