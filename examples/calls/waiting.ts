/**
 * Three ways to wait. await lets the event loop go on; wait() blocks the thread, and is faster; test() asks.
 *
 *     nbcrun -n 2 out/examples/calls/waiting.js
 *
 *     await: the question was asked meanwhile, the answer is 42
 *     wait(): timers ran meanwhile: false, the answer is 43
 *     test(): something was computed meanwhile, the answer is 44
 */
import { init } from 'node-nbc';

const world = await init();
const [question, answer] = [new Int32Array(1), new Int32Array(1)];
const ask = (what: number): void => void world.isend(Int32Array.of(what), 1);
if (world.rank === 0) {
  let request = world.irecv(answer, 1);
  setImmediate(ask, 41); // runs while this program awaits; inside wait() it would not
  await request;
  console.log(`await: the question was asked meanwhile, the answer is ${answer[0]}`);

  let ran = false;
  setImmediate(() => (ran = true));
  ask(42);
  world.irecv(answer, 1).wait();
  console.log(`wait(): timers ran meanwhile: ${ran}, the answer is ${answer[0]}`);

  request = world.irecv(answer, 1);
  ask(43);
  let computed = 0;
  do computed += 1;
  while (!request.test());
  console.log(`test(): ${computed > 0 ? 'something' : 'nothing'} was computed meanwhile, the answer is ${answer[0]}`);
} else {
  for (let i = 0; i < 3; i++) {
    await world.irecv(question, 0);
    await world.isend(Int32Array.of(question[0] + 1), 0);
  }
}
await world.close();
