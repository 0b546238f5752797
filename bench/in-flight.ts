/**
 * How long `test()` and a start last while 16 large operations are in flight: the lock of the engine is held for no
 * longer than one copy.
 *
 * Runs as a job of two ranks: `npx nbcrun -n 2 --bind core out/bench/in-flight.js [--bytes N] [--rounds N]`. Each rank
 * exchanges 16 messages with the other. Meanwhile it calls `test()` on one that is pending, and starts small messages
 * to itself. Rank 0 prints the median, the 99th percentile and the longest of the two in µs.
 */
import { parseArgs } from 'node:util';
import { init, type Request, waitAll } from 'node-nbc';

const { values } = parseArgs({
  options: { bytes: { type: 'string', default: '8388608' }, rounds: { type: 'string', default: '30' } },
});
const BYTES = Number(values.bytes);
const ROUNDS = Number(values.rounds);
const IN_FLIGHT = 16;

const world = await init();
const peer = 1 - world.rank;
const buffers = Array.from({ length: IN_FLIGHT }, () => [new Uint8Array(BYTES).fill(1), new Uint8Array(BYTES).fill(1)]);
const [small, own] = [new Uint8Array(8), new Uint8Array(8)];
const tests: number[] = [];
const starts: number[] = [];

for (let round = 0; round < ROUNDS; round++) {
  world.ibcast(small, 0).wait();
  const requests: Request[] = [];
  for (const [tag, [send, recv]] of buffers.entries())
    requests.push(world.irecv(recv, peer, tag), world.isend(send, peer, tag));
  for (;;) {
    const pending = requests.find((request) => !request.done);
    if (pending === undefined) break;
    const before = performance.now();
    pending.test();
    const between = performance.now();
    const receive = world.irecv(own, world.rank, 100);
    const after = performance.now();
    waitAll([receive, world.isend(small, world.rank, 100)]);
    tests.push(between - before);
    starts.push(after - between);
  }
  waitAll(requests);
}

function figures(name: string, milliseconds: number[]): string {
  const sorted = milliseconds.map((ms) => ms * 1000).sort((a, b) => a - b);
  const at = (part: number): string => sorted[Math.floor((sorted.length - 1) * part)].toFixed(1);
  return `${name}: median ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)} us, of ${sorted.length}`;
}

if (world.rank === 0) console.log(`${figures('test()', tests)}\n${figures('irecv()', starts)}`);
await world.close();
