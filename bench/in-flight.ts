/**
 * How long `test()` and a start last while 16 large operations are in flight: the lock of the engine is held for no
 * longer than one copy.
 *
 * Runs as a job of two ranks: `npx nbcrun -n 2 --bind core out/bench/in-flight.js [--bytes N] [--rounds N]`. Each rank
 * exchanges 16 messages with the other. While one of those that it sends is pending, it calls `test()`, and starts
 * small messages to itself; it waits for nothing. Rank 0 prints the median, the 99th percentile and the longest of the two in
 * µs.
 */
import { parseArgs } from 'node:util';
import { init, type Request, waitAll } from 'node-nbc';

const { values } = parseArgs({
  options: { bytes: { type: 'string', default: '8388608' }, rounds: { type: 'string', default: '30' } },
});
const BYTES = Number(values.bytes);
const ROUNDS = Number(values.rounds);
const IN_FLIGHT = 16;
/** The tag of messages to itself. */
const OWN = 100;

const world = await init();
const peer = 1 - world.rank;
const buffers = Array.from({ length: IN_FLIGHT }, () => [new Uint8Array(BYTES).fill(1), new Uint8Array(BYTES).fill(1)]);
const [small, own] = [new Uint8Array(8), new Uint8Array(8)];
const tests: number[] = [];
const starts: number[] = [];

for (let round = 0; round < ROUNDS; round++) {
  const receives = buffers.map(([, recv], tag) => world.irecv(recv, peer, tag));
  world.ibarrier().wait(); // from here on, no send waits for its receive
  const sends = buffers.map(([send], tag) => world.isend(send, peer, tag));
  let receive: Request | undefined;
  for (;;) {
    const pending = sends.find((request) => !request.done);
    if (pending === undefined) break;
    const before = performance.now();
    pending.test();
    tests.push(performance.now() - before);
    if (receive?.done === false) continue;
    const began = performance.now();
    receive = world.irecv(own, world.rank, OWN);
    starts.push(performance.now() - began);
    world.isend(small, world.rank, OWN).wait(); // has left at once
  }
  waitAll([...receives, ...sends, ...(receive === undefined ? [] : [receive])]);
}

function figures(name: string, milliseconds: number[]): string {
  const sorted = milliseconds.map((ms) => ms * 1000).sort((a, b) => a - b);
  const at = (part: number): string => sorted[Math.floor((sorted.length - 1) * part)].toFixed(1);
  return `${name}: median ${at(0.5)}, p99 ${at(0.99)}, longest ${at(1)} us, of ${sorted.length}`;
}

if (world.rank === 0) console.log(`${figures('test()', tests)}\n${figures('irecv()', starts)}`);
await world.close();
