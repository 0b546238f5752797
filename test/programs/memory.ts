/**
 * As many operations of all kinds as the command line says, on two ranks; what the process uses after the first tenth
 * and at the end. Needs `--expose-gc`.
 */
import { init, type Request, waitAll } from 'node-nbc';
import { report } from './scenario.js';

const OPERATIONS = Number(process.argv[2]);

const world = await init();
const { rank } = world;
const peer = 1 - rank;
const word = new Float64Array(1);
const pair = new Float64Array(2);
const large = new Uint8Array(4096);
const other = new Uint8Array(4096);

let started = 0;
await run(OPERATIONS / 10);
const before = measure();
await run(OPERATIONS);
const after = measure();
const stats = world.stats();
await world.close();
report({ before, after, started, slots: stats.started });

async function run(until: number): Promise<void> {
  while (started < until) {
    for (let repetition = 0; repetition < 100; repetition++) {
      world.ibcast(word, repetition % 2).wait();
      world.igather(word, rank === 0 ? pair : null, 0).wait();
      world.ialltoall(pair, large.subarray(0, 16)).wait();
      // Several at once, the last of them a rendezvous; some are never looked at.
      const requests: Request[] = [
        world.irecv(word, peer, repetition),
        world.isend(pair.subarray(0, 1), peer, repetition),
        world.ibcast(large, 0),
      ];
      waitAll(requests);
      world.ibcast(word, 1);
      world.ialltoall(large, other).wait();
    }
    started += 100 * 8;
    // Awaited as well, and by way of the event loop.
    await Promise.all([world.ibcast(word, 0), world.ialltoall(large, other)]);
    started += 2;
  }
}

function measure(): NodeJS.MemoryUsage & { allocated: number } {
  globalThis.gc!();
  return { ...process.memoryUsage(), allocated: world.stats().allocatedBytes };
}
