/**
 * Who makes progress while the main thread computes? Every rank starts a collective and computes, without a call into
 * the library and without going back to the event loop, then asks test() once. Arguments: the size of the whole buffer
 * in bytes (1), and which collective (5).
 *
 * How long to compute: until the others have started too (they say so in a file, argument 2), and from then on for
 * many times (argument 4) what the exchange takes when nobody computes.
 */
import { openSync, readSync, writeSync } from 'node:fs';
import { alloc, init, type Request, SUM } from 'node-nbc';
import { assertBytes, piece } from './noise.js';
import { report } from './scenario.js';

const [, , bytesText, boardPath, memory, timesText, operation] = process.argv;
const bytes = Number(bytesText);
const world = await init();
const { rank, size } = world;
const block = bytes / size;
const board = openSync(boardPath, 'r+');

const make = (): Uint8Array => (memory === 'alloc' ? alloc(Uint8Array, bytes) : new Uint8Array(bytes));
const send = make();
const receive = make();
for (let to = 0; to < size; to++) send.set(piece(1, rank, to, block), to * block);

interface Collective {
  start: () => Request;
  /** What must arrive as block `index`. */
  expected: (index: number) => Uint8Array;
}

const numbers = (bytesOf: Uint8Array): Uint32Array =>
  new Uint32Array(bytesOf.buffer, bytesOf.byteOffset, bytesOf.length / Uint32Array.BYTES_PER_ELEMENT);

const collectives: Record<string, Collective> = {
  ialltoall: {
    start: () => world.ialltoall(send, receive, { algorithm: 'linear' }),
    expected: (index) => piece(1, index, rank, block),
  },
  // Several rounds, and a reduction behind each receive.
  iallreduce: {
    start: () => world.iallreduce(numbers(send), numbers(receive), SUM, { algorithm: 'rabenseifner' }),
    expected: (index) => {
      const sum = new Uint32Array(block / Uint32Array.BYTES_PER_ELEMENT);
      for (let from = 0; from < size; from++) {
        numbers(piece(1, from, index, block).slice()).forEach((value, i) => (sum[i] += value));
      }
      return new Uint8Array(sum.buffer);
    },
  },
};
const { start, expected } = collectives[operation];

// What the exchange takes: the longest of three, on the slowest rank. Also makes the connections.
let longest = 0;
for (let repetition = 0; repetition < 3; repetition++) {
  receive.fill(0);
  world.igather(new Uint8Array(1), rank === 0 ? new Uint8Array(size) : null, 0).wait();
  world.ibcast(new Uint8Array(1), 0).wait();
  const begin = performance.now();
  start().wait();
  longest = Math.max(longest, performance.now() - begin);
}
const times = new Float64Array(size);
world.igather(Float64Array.of(longest), rank === 0 ? times : null, 0).wait();
const slowest = Float64Array.of(Math.max(...times));
world.ibcast(slowest, 0).wait();
const blocking = slowest[0];
receive.fill(0);

world.ibcast(new Uint8Array(1), 0).wait();
const request = start();
writeSync(board, Uint8Array.of(1), 0, 1, rank);
compute(() => allStarted());
const enough = performance.now() + Math.max(500, Number(timesText) * blocking);
compute(() => performance.now() >= enough);
const first = request.test();

// Nobody ends, and so nobody helps the others along, before everybody has asked.
writeSync(board, Uint8Array.of(1), 0, 1, size + rank);
compute(() => allStarted(size));
request.wait();
for (let index = 0; index < size; index++) {
  assertBytes(receive.subarray(index * block, (index + 1) * block), expected(index), `block ${index}`);
}
const stats = world.stats();
await world.close();
report({ first, blocking, stats });

function allStarted(offset = 0): boolean {
  const seen = new Uint8Array(size);
  readSync(board, seen, 0, size, offset);
  return seen.every((mark) => mark === 1);
}

/** Keeps the processor busy, looking up from time to time. */
function compute(until: () => boolean): number {
  let x = 0.5;
  do {
    for (let step = 0; step < 50_000; step++) x = 3.9 * x * (1 - x);
  } while (!until());
  return x;
}
