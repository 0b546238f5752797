/**
 * How long `test()` and a start last while 16 large operations are in flight: a call does no more than a piece of what
 * there is to copy, and waits for the engine no longer than such a piece takes.
 *
 * Runs as a job of two ranks: `npx nbcrun -n 2 --bind core out/bench/in-flight.js [--what WHAT] [--bytes N]
 * [--rounds N]`. While one of the 16 operations is pending, each rank calls `test()`, and starts small messages to
 * itself; it waits for nothing. Rank 0 prints the median, the percentiles 99 and 99.9, and the longest of the two in
 * µs.
 *
 * WHAT: messages (one each way), in-place (all-to-all, which copies first), bruck (all-to-all, which copies between its
 * rounds) or allreduce (sums of float64). Bytes are those of a rank's buffer.
 */
import { parseArgs } from 'node:util';
import { IN_PLACE, init, type Request, SUM, waitAll } from 'node-nbc';

const { values } = parseArgs({
  options: {
    what: { type: 'string', default: 'messages' },
    bytes: { type: 'string', default: '8388608' },
    rounds: { type: 'string', default: '30' },
  },
});
const BYTES = Number(values.bytes);
const ROUNDS = Number(values.rounds);
const IN_FLIGHT = 16;
/** The tag of messages to itself. */
const OWN = 100;

const world = await init();
const peer = 1 - world.rank;
const buffers = Array.from({ length: IN_FLIGHT }, () => {
  const view = (): Float64Array => new Float64Array(BYTES / 8).fill(1);
  return { send: view(), recv: view() };
});

/** What starts one round of operations. */
const STARTS: Partial<Record<string, () => Request[]>> = {
  messages: () => {
    const receives = buffers.map(({ recv }, tag) => world.irecv(recv, peer, tag));
    world.ibarrier().wait(); // from here on, no send waits for its receive
    return [...buffers.map(({ send }, tag) => world.isend(send, peer, tag)), ...receives];
  },
  'in-place': () => buffers.map(({ recv }) => world.ialltoall(IN_PLACE, recv)),
  bruck: () => buffers.map(({ send, recv }) => world.ialltoall(send, recv, { algorithm: 'bruck' })),
  allreduce: () => buffers.map(({ send, recv }) => world.iallreduce(send, recv, SUM)),
};
const start = STARTS[values.what];
if (start === undefined) throw new Error(`--what must be one of ${Object.keys(STARTS).join(', ')}`);

const [small, own] = [new Uint8Array(8), new Uint8Array(8)];
const tests: number[] = [];
const starts: number[] = [];

for (let round = 0; round < ROUNDS; round++) {
  const requests = start();
  let receive: Request | undefined;
  for (;;) {
    const pending = requests.find((request) => !request.done);
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
  waitAll([...requests, ...(receive === undefined ? [] : [receive])]);
}

function figures(name: string, milliseconds: number[]): string {
  const sorted = milliseconds.map((ms) => ms * 1000).sort((a, b) => a - b);
  const at = (part: number): string => sorted[Math.floor((sorted.length - 1) * part)].toFixed(1);
  return `${name}: median ${at(0.5)}, p99 ${at(0.99)}, p99.9 ${at(0.999)}, longest ${at(1)} us, of ${sorted.length}`;
}

if (world.rank === 0) console.log(`${figures('test()', tests)}\n${figures('irecv()', starts)}`);
await world.close();
