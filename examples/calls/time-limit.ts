/**
 * A limit of time: wait(milliseconds). After a TimeoutError the request is still pending: it can be waited for again.
 * The option `timeout` of init() is a limit for every wait.
 *
 *     nbcrun -n 2 out/examples/calls/time-limit.js
 *
 *     ERR_NBC_TIMEOUT: irecv waits for rank 1
 *     later: 7
 */
import { init, TimeoutError } from 'node-nbc';

const world = await init();
const go = new Uint8Array(1);
if (world.rank === 0) {
  const buffer = new Int32Array(1);
  const request = world.irecv(buffer, 1);
  try {
    request.wait(10);
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    console.log(`${error.code}: ${error.operation} waits for rank ${error.waitsFor.join()}`);
  }
  await world.isend(go, 1);
  await request;
  console.log(`later: ${buffer[0]}`);
} else {
  await world.irecv(go, 0);
  await world.isend(Int32Array.of(7), 0);
}
await world.close();
