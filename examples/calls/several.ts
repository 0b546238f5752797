/**
 * Several requests at once: waitAny takes what ends first, testAll asks for all, waitAll waits for the rest.
 *
 *     nbcrun -n 3 out/examples/calls/several.js
 *
 *     first: number 1 with 200; all are there: false
 *     then: 100,200
 */
import { init, testAll, waitAll, waitAny } from 'node-nbc';

const world = await init();
const { rank } = world;
const go = new Uint8Array(1);
if (rank === 0) {
  const answers = [new Int32Array(1), new Int32Array(1)];
  const requests = answers.map((answer, index) => world.irecv(answer, index + 1));
  const first = waitAny(requests);
  console.log(`first: number ${first} with ${answers[first][0]}; all are there: ${testAll(requests)}`);
  world.isend(go, 1).wait();
  waitAll(requests);
  console.log(`then: ${answers.join()}`);
} else {
  if (rank === 1) await world.irecv(go, 0); // rank 2 is the first
  await world.isend(Int32Array.of(100 * rank), 0);
}
await world.close();
