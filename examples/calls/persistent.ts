/**
 * An operation that is repeated is set up once: allreduceInit. Each start uses what the buffers hold then.
 *
 *     nbcrun -n 4 out/examples/calls/persistent.js
 *
 *     after 10 steps: 40
 */
import { init, SUM } from 'node-nbc';

const world = await init();
const own = new Float64Array(1);
const sum = new Float64Array(1);
const request = world.allreduceInit(own, sum, SUM);
for (let step = 1; step <= 10; step++) {
  own[0] = step;
  request.start();
  // Here the program computes what does not need the sum.
  await request;
}
request.free();
if (world.rank === 0) console.log(`after 10 steps: ${sum[0]}`);
await world.close();
