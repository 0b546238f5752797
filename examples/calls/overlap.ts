/**
 * The same exchange twice, blocking and beside a computation. With a trace one sees what overlaps:
 *
 *     nbcrun -n 2 out/examples/calls/overlap.js
 *
 *     rank 0: computed 4 times
 *     rank 1: computed 4 times
 *
 * `nbcrun --trace traces …`, then `nbctrace traces --svg overlap.svg`: docs/tracing.md shows the picture.
 */
import { init } from 'node-nbc';

const world = await init();
const [send, recv] = [new Float64Array(2 ** 19), new Float64Array(2 ** 19)];
let computed = 0;

/** Stands for a computation of 40 ms. */
function compute(): void {
  for (const end = performance.now() + 40; performance.now() < end;);
  computed++;
}

world.ialltoall(send, recv).wait(); // makes connections
world.ibarrier().wait();
for (let i = 0; i < 2; i++) {
  world.ialltoall(send, recv).wait();
  compute();
}
world.ibarrier().wait();
for (let i = 0; i < 2; i++) {
  const request = world.ialltoall(send, recv);
  compute();
  request.wait();
}
console.log(`rank ${world.rank}: computed ${computed} times`);
await world.close();
