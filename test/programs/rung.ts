/**
 * A rank that closes with a call of its event loop outstanding: rank 0 awaits an operation, so that its peer rings for
 * the event loop; but it computes at that moment, and closes before the event loop has its turn. Two ranks.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { init } from 'node-nbc';

/** Rank 1 comes in the middle of what rank 0 computes. If the machine is slow it comes later, and nothing is shown. */
const APART = 40;

const world = await init();
if (world.rank === 0) {
  const request = world.ibarrier();
  const awaited = request.then(() => undefined);
  await delay(APART);
  const until = performance.now() + 3 * APART;
  while (performance.now() < until);
  request.wait();
  await world.close();
  await awaited;
} else {
  await delay(2 * APART);
  await world.ibarrier();
  await world.close();
}
