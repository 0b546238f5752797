/** Ranks that never end, each in its own way; see hang.test.ts. */
import { init } from 'node-nbc';

const world = await init();
const forever = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));

if (world.rank === 0) {
  // Blocks the main thread.
  world.irecv(new Uint8Array(8), 1, 3).wait();
} else if (world.rank === 1) {
  await world.ialltoall(new Uint8Array(3 * 50_000), new Uint8Array(3 * 50_000));
} else {
  await forever();
}
