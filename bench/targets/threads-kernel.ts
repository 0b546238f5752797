/** What ranks run for threads-process.ts. It imports nothing, as a bare worker does not. */
import type { Communicator } from 'node-nbc';

const ROUNDS = 3;
const BYTES = 1024;

/**
 * All-to-alls. Returns when they were complete, in ms of the monotonic clock, which all threads have.
 * @param words where given: how many ranks have come that far; and whether they may end
 */
export default async function run(world: Communicator, words?: Int32Array): Promise<number> {
  const [send, recv] = [new Uint8Array(world.size * BYTES), new Uint8Array(world.size * BYTES)];
  for (let round = 0; round < ROUNDS; round++) await world.ialltoall(send, recv);
  const done = Number(process.hrtime.bigint()) / 1e6;
  if (words !== undefined) {
    Atomics.add(words, 0, 1);
    Atomics.wait(words, 1, 0);
  }
  return done;
}
