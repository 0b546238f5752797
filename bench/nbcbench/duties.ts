/**
 * What a rank of node-nbc does when nbcbench tells it to. `bench/peers/nbcbench_mpi.c` does the same on MPI, line for
 * line; a change here belongs there too. The commands are listed at `obey`. All times are microseconds of
 * CLOCK_MONOTONIC.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout } from 'node:timers/promises';
import { waitAll, type Communicator, type NeighborCommunicator, type Request } from 'node-nbc';
import type { Gate } from './gate.js';
import { hasNeighbors, type Op } from './operations.js';
import { Prepared } from './prepared.js';
import { MODES, STARTS, type BufferKind, type Form, type Mode, type Start, type Writes } from './wire.js';

const BLOCKING: number = MODES.indexOf('blocking');
const OVERLAP: number = MODES.indexOf('overlap');
const COMPUTE: number = MODES.indexOf('compute');
const INSTANT: number = STARTS.indexOf('instant');
const GATE: number = STARTS.indexOf('gate');
const OSU: number = STARTS.indexOf('osu');

/** The cheapest precise clock of Node 20: 35 ns a reading, no garbage (hrtime.bigint: 45 ns and a BigInt). In ms. */
const now = performance.now.bind(performance);

let world: Communicator;
/** The same ranks as neighbours, once an operation needs them. */
let neighbors: NeighborCommunicator | undefined;
let rank = 0;
let size = 1;
let gate: Gate | undefined;

/** Milliseconds between two readings of the clock with nothing between them. */
let timerCost = 0;
/** Steps of `work` per microsecond on an undisturbed processor. */
let workRate = 1;
/** What `performance.now()` lacks to CLOCK_MONOTONIC, in ms: the ranks agree on an instant of that clock. */
let clockOffset = 0;
let sink = 1;

// ---- computation: a fixed amount of dependent integer work that no compiler shortens and no clock steers ----

function work(steps: number, x: number): number {
  for (; steps > 0; steps--) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  return x;
}

function calibrate(): Float64Array {
  const readings = 2001;
  const costs = new Float64Array(readings);
  for (let pass = 0; pass < 10; pass++) {
    for (let i = 0; i < readings; i++) {
      const t = now();
      costs[i] = now() - t;
    }
  }
  timerCost = costs.sort()[readings >> 1];

  let narrowest = Infinity;
  for (let i = 0; i < 2000; i++) {
    const before = now();
    const clock = Number(process.hrtime.bigint()) / 1e6;
    const after = now();
    if (after - before < narrowest) {
      narrowest = after - before;
      clockOffset = clock - (before + after) / 2;
    }
  }

  const steps = 20_000;
  let best = Infinity; // chunks of some 30 us: far shorter than a time slice, so the fastest one ran undisturbed
  for (let i = 0; i < 400; i++) {
    const t = now();
    sink = work(steps, sink);
    best = Math.min(best, now() - t - timerCost);
  }
  workRate = steps / (best * 1000);
  return Float64Array.of(timerCost * 1000, workRate);
}

// ---- the operations ----

/** Those of one operation and size, by kind of buffers and form: they take turns. */
const preparations = new Map<string, Prepared>();
let current = '';

async function prepare(op: Op, bytes: number, kind: BufferKind, form: Form): Promise<Prepared> {
  if (current !== `${op} ${bytes}`) {
    for (const prepared of preparations.values()) prepared.free();
    preparations.clear();
    current = `${op} ${bytes}`;
  }
  const key = `${kind} ${form}`;
  if (hasNeighbors(op)) neighbors ??= (await world.cart({ dims: [size], periods: [true] }))!;
  const communicator = hasNeighbors(op) ? neighbors! : world;
  const prepared = preparations.get(key) ?? new Prepared(communicator, op, bytes, kind, form);
  preparations.set(key, prepared);
  return prepared;
}

// ---- starting together ----

const outgoing = new Uint8Array(1);
const incoming = new Uint8Array(1);

/** A dissemination barrier of one-byte messages: the same exchanges as on the side of the peers. */
function barrier(): void {
  for (let distance = 1; distance < size; distance <<= 1) {
    const received = world.irecv(incoming, (rank - distance + size) % size, 1);
    const sent = world.isend(outgoing, (rank + distance) % size, 1);
    waitAll([received, sent]);
  }
}

const instant = new Float64Array(1);

/**
 * A processor for every rank: rank 0 names an instant of the common clock, everybody spins until then. Skew: one
 * reading of the clock. Returns the reading that ended the spin, or NaN where the instant had passed before it was
 * known here.
 */
function startInstant(lead: number): number {
  barrier(); // a rank that is late once must not stay late
  if (rank === 0) instant[0] = now() + clockOffset + lead;
  world.ibcast(instant, 0).wait();
  const target = instant[0] - clockOffset;
  let t = now();
  if (t > target) return NaN;
  while (t < target) t = now();
  return t;
}

function startTogether(start: number, lead: number): number {
  if (start === INSTANT) return startInstant(lead);
  if (start === GATE) {
    if (gate === undefined) throw new Error('ranks that have joined have no gate');
    return gate.pass(clockOffset);
  }
  if (start === OSU) world.ibarrier().wait();
  else barrier();
  return now();
}

// ---- one batch of repetitions ----

/**
 * Of each repetition five numbers, in ms: when it began, how long init, test and wait took, and how long it was from
 * the beginning to the end. NaN: this rank reached the agreed instant too late.
 */
let samples = new Float64Array(0);

function repeat(
  at: number,
  mode: number,
  prepared: Prepared,
  steps: number,
  chunk: number,
  tests: number,
  start: number,
  lead: number,
): void {
  const began = startTogether(start, lead);
  const t0 = start === GATE ? now() : began;
  // An instant is the same for all: 0, or NaN. Without a gate ranks may be on several machines, whose clocks differ.
  // With OSU each rank's own time counts.
  const ownTime = start === INSTANT || start === OSU || gate === undefined;
  samples[at] = ownTime ? began - began : began + clockOffset;
  if (mode === BLOCKING) {
    prepared.begin().wait();
    samples[at + 4] = now() - began - timerCost;
  } else if (mode === OVERLAP) {
    const request = prepared.begin();
    const t1 = now();
    let test = 0;
    if (tests < 2) {
      if (tests === 1) {
        request.test();
        test = now() - t1 - timerCost;
      }
      sink = work(steps, sink);
    } else {
      for (let k = 0; k < tests; k++) {
        if (k > 0) sink = work(chunk, sink);
        const before = now();
        request.test();
        test += now() - before - timerCost;
      }
    }
    const t2 = now();
    request.wait();
    const t3 = now();
    samples[at + 1] = t1 - t0 - timerCost;
    samples[at + 2] = test;
    samples[at + 3] = t3 - t2 - timerCost;
    samples[at + 4] = t3 - began - timerCost;
  } else {
    sink = work(steps, sink);
    samples[at + 4] = now() - began - timerCost;
  }
}

function run(
  mode: number,
  prepared: Prepared,
  writes: Writes,
  compute: number,
  tests: number,
  repetitions: number,
  start: number,
  lead: number,
): Float64Array {
  const steps = Math.round(compute * workRate);
  const chunk = tests > 1 ? Math.round((compute * workRate) / (tests - 1)) : 0;
  if (samples.length !== repetitions * 5) samples = new Float64Array(repetitions * 5);
  samples.fill(0);
  let last = 0;
  for (let i = 0; i < repetitions; i++) {
    if (writes === 'fresh' || i === 0) prepared.write((last = i));
    repeat(i * 5, mode, prepared, steps, chunk, tests, start, lead / 1000);
  }
  if (mode !== COMPUTE) prepared.checkWritten(last);
  return samples.map((milliseconds) => milliseconds * 1000);
}

// ---- processor time of ranks that wait: everybody gathers, the root joins late ----

/** Beyond every eager limit: smaller blocks leave a rank at once, and it would not wait. */
const WAIT_BYTES = 256 * 1024;

async function waitForRoot(seconds: number, how: string): Promise<Float64Array> {
  const igather = await prepare('igather', WAIT_BYTES, 'plain', 'nonblocking');
  igather.begin().wait(); // connected and compiled: what is measured is waiting alone
  barrier();
  const cpu = process.cpuUsage();
  const t = now();
  if (rank === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
  const request = igather.begin();
  if (how === 'await') await request;
  else request.wait();
  const used = process.cpuUsage(cpu);
  const result = Float64Array.of(used.user + used.system, (now() - t) * 1000);
  barrier();
  return result;
}

const filled = (bytes: number): Uint8Array<ArrayBuffer> => new Uint8Array(bytes).fill(1); // every page exists

// ---- Netgauge's pattern "nbov": a ping-pong of which each call is timed ----

/**
 * Of each repetition, in µs: isend, irecv, a test (mean), how many tests, the round trip. Ranks above 1 have no part in
 * it.
 */
function pingPong(bytes: number, repetitions: number): Float64Array {
  const outgoing = filled(bytes);
  const incoming = filled(bytes);
  const found = new Float64Array(repetitions * 5);
  barrier();
  if (rank > 1) return found;
  for (let i = 0; i < repetitions; i++) {
    if (rank === 1) {
      testUntilDone(world.irecv(incoming, 0, 2));
      testUntilDone(world.isend(outgoing, 0, 2));
      continue;
    }
    const t0 = now();
    const sent = world.isend(outgoing, 1, 2);
    const t1 = now();
    const received = world.irecv(incoming, 1, 2);
    const t2 = now();
    let tests = 0;
    let cost = 0;
    for (let done = false; !done; tests++) {
      const before = now();
      done = (tests % 2 === 0 ? sent : received).test() && sent.test() && received.test();
      cost += now() - before - timerCost;
    }
    const t3 = now();
    found.set([t1 - t0 - timerCost, t2 - t1 - timerCost, cost / tests, tests / 1000, t3 - t0], i * 5);
  }
  return found.map((milliseconds) => milliseconds * 1000);
}

function testUntilDone(request: Request): void {
  while (!request.test());
}

// ---- round trips ----

/** Of each, on rank 0, its time in µs; rank 1 sends back what it has received. */
function roundTrips(bytes: number, repetitions: number, writes: Writes): Float64Array {
  const outgoing = filled(bytes);
  const incoming = filled(bytes);
  const found = new Float64Array(rank === 0 ? repetitions : 0);
  let value = 0;
  barrier();
  for (let i = 0; i < repetitions && rank < 2; i++) {
    if (rank === 1) {
      world.irecv(incoming, 0, 3).wait();
      world.isend(incoming, 0, 3).wait();
      continue;
    }
    if (writes === 'fresh' || i === 0) {
      outgoing.fill((value = 1 + (i % 100)));
      incoming.fill(0);
    }
    const t = now();
    const received = world.irecv(incoming, 1, 3);
    const sent = world.isend(outgoing, 1, 3);
    waitAll([received, sent]);
    found[i] = now() - t - timerCost;
  }
  const wrong = rank === 0 && repetitions > 0 ? incoming.findIndex((byte) => byte !== value) : -1;
  if (wrong >= 0) throw new Error(`wrong data: round trip of ${bytes} bytes, byte ${wrong}`);
  return found.map((milliseconds) => milliseconds * 1000);
}

// ---- commands ----

/** Once, before any command. Without a gate no repetition can start with one. */
export function takePart(communicator: Communicator, withGate: Gate | undefined): void {
  world = communicator;
  ({ rank, size } = communicator);
  gate = withGate;
  barrier();
}

/**
 * Commands, and what they leave as a result:
 *
 *     calibrate                     measures the clock and work(); cost, rate
 *     check OP BYTES BUFFERS FORM   runs OP once on a pattern and verifies the data
 *     run MODE OP BYTES BUFFERS FORM WRITES COMPUTE TESTS REPETITIONS START LEAD
 *                                   start, init, test, wait, total of each repetition; verifies what the last received
 *     wait SECONDS HOW              processor time, elapsed time
 *     idle SECONDS                  nothing: the event loop runs
 *     nbov BYTES REPETITIONS        isend, irecv, test, tests, round trip of each repetition
 *     pingpong BYTES REPETITIONS WRITES
 *                                   on rank 0 the time of each round trip
 */
export async function obey(line: string): Promise<Float64Array | undefined> {
  const [verb, ...words] = line.trim().split(' ');
  switch (verb) {
    case 'calibrate':
      return calibrate();
    case 'check':
      (await prepare(words[0] as Op, Number(words[1]), words[2] as BufferKind, words[3] as Form)).check();
      barrier();
      return undefined;
    case 'run': {
      const prepared = await prepare(words[1] as Op, Number(words[2]), words[3] as BufferKind, words[4] as Form);
      const [compute, tests, repetitions] = words.slice(6, 9).map(Number);
      const start = STARTS.indexOf(words[9] as Start);
      const mode = MODES.indexOf(words[0] as Mode);
      return run(mode, prepared, words[5] as Writes, compute, tests, repetitions, start, Number(words[10]));
    }
    case 'wait':
      return waitForRoot(Number(words[0]), words[1]);
    case 'idle':
      await setTimeout(Number(words[0]) * 1000);
      return undefined;
    case 'nbov':
      return pingPong(Number(words[0]), Number(words[1]));
    case 'pingpong':
      return roundTrips(Number(words[0]), Number(words[1]), words[2] as Writes);
    default:
      throw new Error(`unknown command: ${line}`);
  }
}
