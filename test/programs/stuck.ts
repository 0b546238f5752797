/**
 * Jobs that make no step, for the reports of nbcrun. Says "ready RANK PID" before the call that hangs. Scenarios:
 *
 * - `elsewhere`: all but rank 1 are in a collective: rank 0 in wait(), the others in their event loops.
 * - `circle`: each rank waits for a message of the next one.
 * - `again`: the others come to a collective one after the other, and wait for rank 1, which comes at SIGUSR1; then for
 *   rank 2, which never comes.
 * - `outside`: rank 1 does not call init(); rank 0 waits for its message.
 * - `threads`: a process with two jobs of `runRanks()`, of 2 and 3 ranks, which are circles.
 * - `refuses`: the same in event loops, and SIGINT does not end the ranks.
 * - `steps`: the ranks meet every 20 ms, and end.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Communicator, init, runRanks, SUM } from 'node-nbc';

const ready = (rank: string | number): void => console.log(`ready ${rank} ${process.pid}`);

async function elsewhere(world: Communicator): Promise<void> {
  const value = new Float64Array(100);
  if (world.rank === 1) for (;;);
  else if (world.rank === 0) world.iallreduce(value, value.slice(), SUM).wait();
  else await world.iallreduce(value, value.slice(), SUM);
}

async function again(world: Communicator): Promise<void> {
  let asked = world.rank !== 1;
  process.on('SIGUSR1', () => (asked = true));
  while (!asked) await sleep(20);
  await sleep(world.rank * 50);
  await world.ibarrier();
  if (world.rank === 2) for (;;) await sleep(1000);
  await sleep(world.rank * 50);
  await world.ibarrier();
}

function circle(world: Communicator): void {
  world.irecv(new Uint8Array(8), (world.rank + 1) % world.size, 5).wait();
}

async function refuses(world: Communicator): Promise<void> {
  process.on('SIGINT', () => console.log(`rank ${world.rank} goes on`));
  await world.irecv(new Uint8Array(8), (world.rank + 1) % world.size, 5);
}

async function steps(world: Communicator): Promise<void> {
  for (let i = 0; i < 30; i++) {
    await world.ibarrier();
    await sleep(20);
  }
}

const [scenario] = process.argv.slice(2);
if (scenario === 'outside' && process.env['NBC_RANK'] === '1') {
  ready(1);
  await new Promise(() => setInterval(() => undefined, 1000));
}
if (scenario === 'threads') {
  const program = new URL('./stuck-ranks.js', import.meta.url);
  await Promise.all([2, 3].map((size) => runRanks(program, { size })));
}
const world = await init();
ready(world.rank);
if (scenario === 'steps') await steps(world);
else if (scenario === 'refuses') await refuses(world);
else if (scenario === 'again') await again(world);
else if (scenario === 'elsewhere') await elsewhere(world);
else circle(world);
await world.close();
