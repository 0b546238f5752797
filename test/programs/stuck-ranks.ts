/** Ranks of `runRanks()` that wait for each other. Each says "ready RANK THREAD" before. */
import { threadId } from 'node:worker_threads';
import type { Communicator } from 'node-nbc';

export default async function stuck(world: Communicator): Promise<void> {
  await world.ibarrier();
  console.log(`ready ${world.rank} ${threadId}`);
  await world.irecv(new Uint8Array(8), (world.rank + 1) % world.size, 5);
}
