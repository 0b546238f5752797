/**
 * How often does the progress thread wake up while nothing can move? Rank 1 has a send pending whose receiver comes a
 * second later. Argument: what it does meanwhile.
 */
import { init } from 'node-nbc';
import { report } from './scenario.js';

const SECOND = 1000;
const [, , meanwhile] = process.argv;
const world = await init();
const buffer = new Uint8Array(1 << 20);
world.ibcast(new Uint8Array(1), 0).wait(); // connected
if (world.rank === 0) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SECOND);
  world.irecv(buffer, 1).wait();
} else {
  const request = world.isend(buffer, 0);
  if (meanwhile === 'await') {
    await request;
  } else if (meanwhile === 'compute') {
    for (const end = performance.now() + SECOND; performance.now() < end;);
    request.wait();
  } else {
    request.wait();
  }
}
const { progressWakeups, progressPasses } = world.stats();
await world.close();
report({ progressWakeups, progressPasses });
