/**
 * A rank is lost. The others agree on that, and go on in a communicator of their own.
 *
 *     nbcrun -n 3 --on-failure=continue out/examples/calls/survivors.js
 *
 *     rank 0 lost 1; the sum of 2 ranks is 4
 *     rank 2 lost 1; the sum of 2 ranks is 4
 */
import { AbandonedError, init, PeerClosedError, RevokedError, SUM } from 'node-nbc';

const world = await init();
const sum = new Float64Array(1);
const mine = Float64Array.of(world.rank + 1);
if (world.rank === 1) process.kill(process.pid, 'SIGKILL');
try {
  await world.iallreduce(mine, sum, SUM); // needs rank 1
} catch (error) {
  const known = [PeerClosedError, AbandonedError, RevokedError];
  if (!known.some((kind) => error instanceof kind)) throw error;
  world.revoke(); // a rank that waits for this one learns of it, too
}
const { lost } = await world.agree(1);
const left = await world.shrink();
await left.iallreduce(mine, sum, SUM);
console.log(`rank ${world.rank} lost ${lost.join()}; the sum of ${left.size} ranks is ${sum[0]}`);
await left.close();
await world.close();
