/**
 * An AbortSignal ends an operation, and with it what is pending on its communicator, on all ranks. The world goes on.
 *
 *     nbcrun -n 2 out/examples/calls/abort.js
 *
 *     rank 0: AbortError, because no result is wanted
 *     rank 1: RevokedError by rank 0
 *     rank 0 goes on
 *     rank 1 goes on
 */
import { AbortError, init, RevokedError } from 'node-nbc';

const world = await init();
const other = 1 - world.rank;
const part = await world.dup(); // what is aborted, revokes its communicator
const controller = new AbortController();
const options = world.rank === 0 ? { signal: controller.signal } : {};
if (world.rank === 0) setImmediate(() => controller.abort('no result is wanted'));
try {
  await part.irecv(new Uint8Array(1), other, 0, options); // nobody sends this message
} catch (error) {
  if (error instanceof AbortError) console.log(`rank 0: AbortError, because ${String(error.cause)}`);
  else if (error instanceof RevokedError) console.log(`rank 1: RevokedError by rank ${error.revokedBy}`);
  else throw error;
}
await part.close();
await world.ibarrier();
console.log(`rank ${world.rank} goes on`);
await world.close();
