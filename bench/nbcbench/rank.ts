/**
 * One rank of node-nbc under nbcbench. `bench/peers/nbcbench_mpi.c` is the same program on MPI, line for line; a change
 * here belongs there too. nbcbench drives both over FIFOs in one directory, which is the only argument:
 *
 *     ctl.R      commands to rank R, one line each; blocking in read() is how a rank waits for its turn
 *     done       answers of all ranks: "R ok" or "R error TEXT"
 *     result.R   doubles, rewritten by every command that measures
 *     gate.in, gate.0, gate.1   the start gate for more ranks than processors (see startGate)
 *
 * The commands are listed at `obey`. All times are microseconds of CLOCK_MONOTONIC.
 */
import { closeSync, constants, openSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { alloc, init, waitAll, type Communicator, type Request } from 'node-nbc';
import { MODES, OPS, STARTS, type BufferKind, type Mode, type Op, type Start } from './wire.js';

const BLOCKING: number = MODES.indexOf('blocking');
const OVERLAP: number = MODES.indexOf('overlap');
const IBCAST: number = OPS.indexOf('ibcast');
const IGATHER: number = OPS.indexOf('igather');
const INSTANT: number = STARTS.indexOf('instant');
const GATE: number = STARTS.indexOf('gate');

/** The cheapest precise clock of Node 20: 35 ns a reading, no garbage (hrtime.bigint: 45 ns and a BigInt). In ms. */
const now = performance.now.bind(performance);

if (process.argv.length !== 3) {
  process.stderr.write('usage: rank.js DIRECTORY (started by nbcbench)\n');
  process.exit(2);
}
const directory = process.argv[2];

let world: Communicator;
let rank = 0;
let size = 1;
let send = new Uint8Array(0);
let receive: Uint8Array | null = null;
let prepared = '';

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

function filled(bytes: number, kind: BufferKind): Uint8Array<ArrayBuffer> {
  // Every page exists before the first repetition.
  return (kind === 'alloc' ? alloc(Uint8Array, bytes) : new Uint8Array(bytes)).fill(1);
}

function prepare(op: number, bytes: number, kind: BufferKind): void {
  const key = `${op} ${bytes} ${kind}`;
  if (prepared === key) return;
  receive = null;
  if (op === IBCAST) {
    send = filled(bytes, kind);
  } else if (op === IGATHER) {
    send = filled(bytes, kind);
    if (rank === 0) receive = filled(bytes * size, kind);
  } else {
    send = filled(bytes * size, kind);
    receive = filled(bytes * size, kind);
  }
  prepared = key;
}

function begin(op: number): Request {
  switch (op) {
    case IBCAST:
      return world.ibcast(send, 0);
    case IGATHER:
      return world.igather(send, receive, 0);
    default:
      return world.ialltoall(send, receive!);
  }
}

/** Byte i of what rank `from` has for rank `to`. */
const pattern = (from: number, to: number, i: number): number => (from * 31 + to * 17 + i * 7 + 3) & 255;

function check(op: number, bytes: number, kind: BufferKind): void {
  prepare(op, bytes, kind);
  const name = `${OPS[op]} of ${bytes} bytes (${kind} buffers)`;
  const blocks = op === IBCAST || op === IGATHER ? 1 : size;
  for (let to = 0; to < blocks; to++) {
    for (let i = 0; i < bytes; i++) send[to * bytes + i] = op === IBCAST && rank !== 0 ? 0 : pattern(rank, to, i);
  }
  receive?.fill(0);
  begin(op).wait();
  if (op === IBCAST) {
    for (let i = 0; i < bytes; i++) {
      if (send[i] !== pattern(0, 0, i)) throw new Error(`wrong data: ${name}, byte ${i}`);
    }
  } else if (receive !== null) {
    const to = op === IGATHER ? 0 : rank;
    for (let from = 0; from < size; from++) {
      for (let i = 0; i < bytes; i++) {
        if (receive[from * bytes + i] !== pattern(from, to, i)) {
          throw new Error(`wrong data: ${name}, block ${from}, byte ${i}`);
        }
      }
    }
  }
}

// ---- starting together ----

function openFifo(name: string, flags: number): number {
  return openSync(join(directory, name), flags);
}

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

let gateIn = -1;
let nextGate = 0;
const gates = [-1, -1];
const gateBytes = Buffer.alloc(1024);

/**
 * More ranks than processors: spinning would keep a rank from the processor that it waits for. So everybody reports at
 * one pipe and sleeps in read() of another; rank 0 closes that one's writing end, and the kernel wakes all of them at
 * once with an end of file. Two pipes take turns, since a closed one can be opened again only when its readers have
 * left. No library has a part in it, so it is equal for all. (A rank whose wait has returned must not be needed for the
 * progress of others; else the job hangs and nbcbench says so.)
 */
function startGate(): number {
  const gate = nextGate;
  nextGate = 1 - gate;
  if (rank === 0) {
    for (let missing = size - 1; missing > 0;) {
      missing -= readSync(gateIn, gateBytes, 0, Math.min(missing, gateBytes.length), null);
    }
    if (gates[nextGate] < 0) gates[nextGate] = openFifo(`gate.${nextGate}`, constants.O_WRONLY);
    const released = now(); // waking all the others takes its time, and the clock runs
    closeSync(gates[gate]);
    gates[gate] = -1;
    return released;
  }
  writeSync(gateIn, gateBytes, 0, 1);
  readSync(gates[gate], gateBytes, 0, 1, null);
  return now();
}

function startTogether(start: number, lead: number): number {
  if (start === INSTANT) return startInstant(lead);
  if (start === GATE) return startGate();
  barrier();
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
  op: number,
  steps: number,
  chunk: number,
  tests: number,
  start: number,
  lead: number,
): void {
  const began = startTogether(start, lead);
  const t0 = start === GATE ? now() : began;
  samples[at] = start === INSTANT ? began - began : began + clockOffset; // an instant is the same for all: 0, or NaN
  if (mode === BLOCKING) {
    begin(op).wait();
    samples[at + 4] = now() - began - timerCost;
  } else if (mode === OVERLAP) {
    const request = begin(op);
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
  op: number,
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
  for (let i = 0; i < repetitions; i++) repeat(i * 5, mode, op, steps, chunk, tests, start, lead / 1000);
  return samples.map((milliseconds) => milliseconds * 1000);
}

// ---- processor time of ranks that wait: everybody gathers, the root joins late ----

/** Beyond every eager limit: smaller blocks leave a rank at once, and it would not wait. */
const WAIT_BYTES = 256 * 1024;

async function waitForRoot(seconds: number, how: string): Promise<Float64Array> {
  prepare(IGATHER, WAIT_BYTES, 'plain');
  begin(IGATHER).wait(); // connected and compiled: what is measured is waiting alone
  barrier();
  const cpu = process.cpuUsage();
  const t = now();
  if (rank === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
  const request = begin(IGATHER);
  if (how === 'await') await request;
  else request.wait();
  const used = process.cpuUsage(cpu);
  const result = Float64Array.of(used.user + used.system, (now() - t) * 1000);
  barrier();
  return result;
}

// ---- Netgauge's pattern "nbov": a ping-pong of which each call is timed ----

/**
 * Of each repetition, in µs: isend, irecv, a test (mean), how many tests, the round trip. Ranks above 1 have no part in
 * it.
 */
function pingPong(bytes: number, repetitions: number): Float64Array {
  const outgoing = filled(bytes, 'plain');
  const incoming = filled(bytes, 'plain');
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
function roundTrips(bytes: number, repetitions: number): Float64Array {
  const outgoing = filled(bytes, 'plain');
  const incoming = filled(bytes, 'plain');
  const found = new Float64Array(rank === 0 ? repetitions : 0);
  for (let i = 0; i < bytes; i++) outgoing[i] = pattern(0, 1, i);
  barrier();
  for (let i = 0; i < repetitions && rank < 2; i++) {
    if (rank === 1) {
      world.irecv(incoming, 0, 3).wait();
      world.isend(incoming, 0, 3).wait();
      continue;
    }
    const t = now();
    const received = world.irecv(incoming, 1, 3);
    const sent = world.isend(outgoing, 1, 3);
    waitAll([received, sent]);
    found[i] = now() - t - timerCost;
  }
  for (let i = 0; i < bytes && rank === 0; i++) {
    if (incoming[i] !== pattern(0, 1, i)) throw new Error(`wrong data: round trip of ${bytes} bytes, byte ${i}`);
  }
  return found.map((milliseconds) => milliseconds * 1000);
}

// ---- commands ----

/**
 *     calibrate                                                          measures the clock and work(); result: cost,
 *                                                                        rate
 *     check OP BYTES BUFFERS                                             runs OP once on a pattern and verifies the
 *                                                                        data
 *     run MODE OP BYTES BUFFERS COMPUTE TESTS REPETITIONS START LEAD     result: start, init, test, wait, total of each
 *                                                                        repetition
 *     wait SECONDS HOW                                                   result: processor time, elapsed time
 *     nbov BYTES REPETITIONS                                             result: isend, irecv, test, tests, round trip
 *                                                                        of each repetition
 *     pingpong BYTES REPETITIONS                                         result: on rank 0 the time of each round trip
 *     quit
 */
async function obey(line: string): Promise<boolean> {
  const [verb, ...words] = line.trim().split(' ');
  let result: Float64Array | undefined;
  switch (verb) {
    case 'quit':
      return false;
    case 'calibrate':
      result = calibrate();
      break;
    case 'check':
      check(OPS.indexOf(words[0] as Op), Number(words[1]), words[2] as BufferKind);
      barrier();
      break;
    case 'run': {
      const op = OPS.indexOf(words[1] as Op);
      prepare(op, Number(words[2]), words[3] as BufferKind);
      result = run(
        MODES.indexOf(words[0] as Mode),
        op,
        Number(words[4]),
        Number(words[5]),
        Number(words[6]),
        STARTS.indexOf(words[7] as Start),
        Number(words[8]),
      );
      break;
    }
    case 'wait':
      result = await waitForRoot(Number(words[0]), words[1]);
      break;
    case 'nbov':
      result = pingPong(Number(words[0]), Number(words[1]));
      break;
    case 'pingpong':
      result = roundTrips(Number(words[0]), Number(words[1]));
      break;
    default:
      throw new Error(`unknown command: ${line}`);
  }
  if (result) writeFileSync(join(directory, `result.${rank}`), result);
  return true;
}

const done = openFifo('done', constants.O_WRONLY);
try {
  world = await init();
  rank = world.rank;
  size = world.size;
  const control = openFifo(`ctl.${rank}`, constants.O_RDONLY);
  gateIn = openFifo('gate.in', rank === 0 ? constants.O_RDONLY : constants.O_WRONLY);
  for (const gate of size > 1 ? [0, 1] : []) {
    gates[gate] = openFifo(`gate.${gate}`, rank === 0 ? constants.O_WRONLY : constants.O_RDONLY);
  }
  barrier();

  const buffer = Buffer.alloc(512);
  for (let goOn = true; goOn;) {
    writeSync(done, `${rank} ok\n`);
    let got = 0; // one command is outstanding at a time, so what read() returns ends with its end of line
    do {
      const more = readSync(control, buffer, got, buffer.length - got, null);
      if (more === 0) process.exit(1); // nbcbench is gone
      got += more;
    } while (buffer[got - 1] !== 10);
    goOn = await obey(buffer.toString('latin1', 0, got));
  }
  await world.close();
} catch (error) {
  const text = error instanceof Error ? error.message : String(error);
  writeSync(done, `${process.env.NBC_RANK ?? rank} error ${text.replaceAll('\n', ' ').slice(0, 400)}\n`);
  process.exit(1);
}
