/**
 * Two ranks, message by message: what perftest measures without this library, and native/transfers.cc without
 * JavaScript. Arguments: cases, latency:BYTES:COUNT or bandwidth:BYTES:COUNT. Prints a line for each: the case, and µs
 * (half of the median round trip) or MB/s (10⁶ bytes).
 */
import { init, type Communicator, type Request } from 'node-nbc';

/** Round trips before any is measured: the optimising compiler has seen enough, and the connection is there. */
const WARM_UP = 500;
/** Messages on their way. */
const WINDOW = 16;

/** Half of the median round trip, in µs. */
function latency(world: Communicator, bytes: number, count: number): number {
  const out = new Uint8Array(bytes);
  const into = new Uint8Array(bytes);
  const other = 1 - world.rank;
  const trips = new Float64Array(count);
  for (let i = -WARM_UP; i < count; i++) {
    const begin = performance.now();
    for (let half = 0; half < 2; half++) {
      if (half === world.rank) world.isend(out, other).wait();
      else world.irecv(into, other).wait();
    }
    if (i >= 0) trips[i] = performance.now() - begin;
  }
  return (trips.sort()[count >> 1] / 2) * 1000;
}

/** From rank 0 to rank 1, a window of messages on their way; ends when the last has arrived. MB/s. */
function bandwidth(world: Communicator, bytes: number, count: number): number {
  const buffers = Array.from({ length: WINDOW }, () => new Uint8Array(bytes).fill(1));
  const last = new Uint8Array(1);
  const stream = (messages: number): void => {
    const onTheirWay: Request[] = [];
    for (let i = 0; i < messages; i++) {
      const slot = i % WINDOW;
      if (i >= WINDOW) onTheirWay[slot].wait();
      onTheirWay[slot] = world.rank === 0 ? world.isend(buffers[slot], 1) : world.irecv(buffers[slot], 0);
    }
    for (const request of onTheirWay) request.wait();
    (world.rank === 0 ? world.irecv(last, 1) : world.isend(last, 0)).wait();
  };
  stream(WINDOW); // all buffers are registered
  const begin = performance.now();
  stream(count);
  return (bytes * count) / ((performance.now() - begin) * 1000);
}

const world = await init();
for (const text of process.argv.slice(2)) {
  const [kind, bytes, count] = text.split(':');
  const measure = { latency, bandwidth }[kind];
  if (measure === undefined || !(Number(bytes) > 0 && Number(count) > 0)) throw new Error(`${text}: no such case`);
  const figure = measure(world, Number(bytes), Number(count));
  if (world.rank === 0) console.log(`${text} ${figure.toFixed(3)}`);
}
await world.close();
