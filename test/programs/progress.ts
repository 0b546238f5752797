/**
 * Who makes progress while the main thread computes? Every rank starts an ialltoall and computes, without a call into
 * the library and without going back to the event loop, then asks test() once. Argument: the size of the whole buffer
 * in bytes.
 *
 * How long to compute: until the others have started too (they say so in a file, argument 2), and from then on for
 * many times (argument 4) what the exchange takes when nobody computes.
 */
import { openSync, readSync, writeSync } from 'node:fs';
import { alloc, init } from 'node-nbc';
import { assertBytes, piece } from './noise.js';
import { report } from './scenario.js';

const [, , bytesText, boardPath, memory, timesText] = process.argv;
const bytes = Number(bytesText);
const world = await init();
const { rank, size } = world;
const block = bytes / size;
const board = openSync(boardPath, 'r+');

const make = (): Uint8Array => (memory === 'alloc' ? alloc(Uint8Array, bytes) : new Uint8Array(bytes));
const send = make();
const receive = make();
for (let to = 0; to < size; to++) send.set(piece(1, rank, to, block), to * block);

// What the exchange takes: the longest of three, on the slowest rank. Also makes the connections.
let longest = 0;
for (let repetition = 0; repetition < 3; repetition++) {
  receive.fill(0);
  world.igather(new Uint8Array(1), rank === 0 ? new Uint8Array(size) : null, 0).wait();
  world.ibcast(new Uint8Array(1), 0).wait();
  const begin = performance.now();
  world.ialltoall(send, receive, { algorithm: 'linear' }).wait();
  longest = Math.max(longest, performance.now() - begin);
}
const times = new Float64Array(size);
world.igather(Float64Array.of(longest), rank === 0 ? times : null, 0).wait();
const slowest = Float64Array.of(Math.max(...times));
world.ibcast(slowest, 0).wait();
const blocking = slowest[0];
receive.fill(0);

world.ibcast(new Uint8Array(1), 0).wait();
const request = world.ialltoall(send, receive, { algorithm: 'linear' });
writeSync(board, Uint8Array.of(1), 0, 1, rank);
compute(() => allStarted());
const enough = performance.now() + Math.max(500, Number(timesText) * blocking);
compute(() => performance.now() >= enough);
const first = request.test();

// Nobody ends, and so nobody helps the others along, before everybody has asked.
writeSync(board, Uint8Array.of(1), 0, 1, size + rank);
compute(() => allStarted(size));
request.wait();
for (let from = 0; from < size; from++) {
  const arrived = receive.subarray(from * block, (from + 1) * block);
  assertBytes(arrived, piece(1, from, rank, block), `block of rank ${from}`);
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
