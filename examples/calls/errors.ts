/**
 * Errors are classes with a code, and say what they know: here about a wrong argument, and about a peer that is gone.
 *
 *     nbcrun -n 2 out/examples/calls/errors.js
 *
 *     ERR_NBC_ARGUMENT: argument root of ibcast
 *     ERR_NBC_PEER_CLOSED: rank 1 is gone
 */
import { ArgumentError, init, PeerClosedError } from 'node-nbc';

const world = await init();
const buffer = new Int32Array(1);
if (world.rank === 0) {
  try {
    world.ibcast(buffer, 2); // there are ranks 0 and 1: nothing is sent, and the communicator stays usable
  } catch (error) {
    if (!(error instanceof ArgumentError)) throw error;
    console.log(`${error.code}: argument ${error.argument} of ${error.operation}`);
  }
  try {
    await world.irecv(buffer, 1); // rank 1 closes its world instead
  } catch (error) {
    if (!(error instanceof PeerClosedError)) throw error;
    console.log(`${error.code}: rank ${error.peer} is gone`);
  }
}
await world.close();
