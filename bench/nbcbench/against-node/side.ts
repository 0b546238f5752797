/**
 * One mechanism of `nbcbench against-node`: `side.js MECHANISM BYTES REPETITIONS SECONDS` measures round trips of BYTES
 * with a peer that returns what it receives, and prints one line of JSON. The peer is a worker or a child that runs
 * this program again; for node-nbc it is rank 1.
 *
 * Each message carries the number of its round trip in its first and last byte, and each answer is checked.
 */
import { fork, type ForkOptions } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { init, type Request } from '#library/index.js';
import { measuredOf } from '../statistics.js';
import type { Measured } from './mechanisms.js';

/** One round trip: sends `data` and returns the answer. */
type Trip = (data: Uint8Array) => Uint8Array | Promise<Uint8Array>;

interface Partner {
  trip: Trip;
  close(): void | Promise<void>;
}

/** Round trips before those that count. */
const WARM_UP = 0.2;

const HERE = fileURLToPath(import.meta.url);
const OPTIONS: ForkOptions = { serialization: 'advanced', stdio: ['ignore', 'inherit', 'inherit', 'ipc'] };

/** Words of the shared buffer in front of the data: whose turn it is. */
const [TURN, HEAD_BYTES] = [0, 8];
const [OURS, THEIRS, END] = [0, 1, 2];

const open: Record<string, (bytes: number) => Promise<Partner>> = {
  message: () => startWorker('message', false),
  transfer: () => startWorker('message', true),
  socket: openSocket,
  ipc: openIpc,
  zeromq: openZeromq,
  atomics: openAtomics,
};

async function startWorker(echo: string, transfer: boolean): Promise<Partner> {
  const worker = new Worker(HERE, { workerData: { echo, transfer } });
  await once(worker, 'message');
  let arrived: (answer: Uint8Array) => void;
  worker.on('message', (answer: Uint8Array) => arrived(answer));
  const trip: Trip = (data) =>
    new Promise((resolve) => {
      arrived = resolve;
      worker.postMessage(data, transfer ? [data.buffer as ArrayBuffer] : []);
    });
  return {
    trip,
    close: async () => {
      await worker.terminate();
    },
  };
}

function echoMessages(transfer: boolean): void {
  const port = parentPort!;
  port.on('message', (data: Uint8Array) => port.postMessage(data, transfer ? [data.buffer as ArrayBuffer] : []));
  port.postMessage('ready');
}

async function openAtomics(bytes: number): Promise<Partner> {
  const shared = new SharedArrayBuffer(HEAD_BYTES + bytes);
  const worker = new Worker(HERE, { workerData: { echo: 'atomics', shared } });
  await once(worker, 'message');
  const turn = new Int32Array(shared, 0, 1);
  const place = new Uint8Array(shared, HEAD_BYTES);
  const back = new Uint8Array(bytes);
  const give = (value: number): void => {
    Atomics.store(turn, TURN, value);
    Atomics.notify(turn, TURN);
  };
  const trip: Trip = (data) => {
    place.set(data);
    give(THEIRS);
    Atomics.wait(turn, TURN, THEIRS);
    back.set(place);
    return back;
  };
  return {
    trip,
    close: async () => {
      give(END);
      await once(worker, 'exit');
    },
  };
}

function echoAtomics(shared: SharedArrayBuffer): void {
  const turn = new Int32Array(shared, 0, 1);
  const place = new Uint8Array(shared, HEAD_BYTES);
  const copy = new Uint8Array(place.length);
  parentPort!.postMessage('ready');
  for (;;) {
    Atomics.wait(turn, TURN, OURS);
    if (Atomics.load(turn, TURN) === END) return;
    copy.set(place);
    place.set(copy);
    Atomics.store(turn, TURN, OURS);
    Atomics.notify(turn, TURN);
  }
}

/** Calls `whole` with each message of so many bytes. */
function eachMessage(socket: Socket, bytes: number, whole: (message: Uint8Array) => void): void {
  const message = new Uint8Array(bytes);
  let filled = 0;
  socket.on('data', (piece: Buffer) => {
    message.set(piece, filled);
    filled += piece.length;
    if (filled < bytes) return;
    filled = 0;
    whole(message);
  });
}

async function openSocket(bytes: number): Promise<Partner> {
  const folder = mkdtempSync(join(tmpdir(), 'nbcbench-'));
  const path = join(folder, 'socket');
  const server = createServer();
  server.listen(path);
  await once(server, 'listening');
  const child = fork(HERE, ['--echo', 'socket', String(bytes), path], OPTIONS);
  const [socket] = (await once(server, 'connection')) as [Socket];
  rmSync(folder, { recursive: true });
  let arrived: (answer: Uint8Array) => void;
  eachMessage(socket, bytes, (answer) => arrived(answer));
  const trip: Trip = (data) =>
    new Promise((resolve) => {
      arrived = resolve;
      socket.write(data);
    });
  return {
    trip,
    close: async () => {
      const ended = once(child, 'exit');
      socket.destroy();
      server.close();
      child.disconnect();
      await ended;
    },
  };
}

function echoSocket(bytes: number, path: string): void {
  const socket = connect(path);
  eachMessage(socket, bytes, (message) => socket.write(message.slice()));
  process.on('disconnect', () => process.exit());
}

async function openIpc(): Promise<Partner> {
  const child = fork(HERE, ['--echo', 'ipc'], OPTIONS);
  await once(child, 'message');
  let arrived: (answer: Uint8Array) => void;
  child.on('message', (answer) => arrived(answer as Uint8Array));
  const trip: Trip = (data) =>
    new Promise((resolve) => {
      arrived = resolve;
      child.send(data);
    });
  return {
    trip,
    close: async () => {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}

function echoIpc(): void {
  process.on('message', (data) => process.send!(data));
  process.on('disconnect', () => process.exit());
  process.send!('ready');
}

/** What is used of the package zeromq, version 6. */
interface ZeromqPair {
  bind(address: string): Promise<void>;
  connect(address: string): void;
  send(data: Uint8Array): Promise<void>;
  receive(): Promise<[Uint8Array]>;
  close(): void;
}

async function zeromqPair(): Promise<ZeromqPair> {
  const name = 'zeromq';
  const { Pair } = (await import(name)) as { Pair: new () => ZeromqPair };
  return new Pair();
}

async function openZeromq(): Promise<Partner> {
  const folder = mkdtempSync(join(tmpdir(), 'nbcbench-'));
  const address = `ipc://${join(folder, 'socket')}`;
  const pair = await zeromqPair();
  await pair.bind(address);
  const child = fork(HERE, ['--echo', 'zeromq', address], OPTIONS);
  await once(child, 'message');
  const trip: Trip = async (data) => {
    await pair.send(data);
    return (await pair.receive())[0];
  };
  return {
    trip,
    close: async () => {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
      pair.close();
      rmSync(folder, { recursive: true });
    },
  };
}

async function echoZeromq(address: string): Promise<void> {
  const pair = await zeromqPair();
  pair.connect(address);
  process.on('disconnect', () => process.exit());
  process.send!('ready');
  for (;;) await pair.send((await pair.receive())[0]);
}

/** Both ranks. Rank 0 says how many messages rank 1 is to return next; none: it ends. */
async function measureOurs(how: string, bytes: number, repetitions: number, seconds: number): Promise<void> {
  const world = await init();
  const [DATA, GO_ON] = [0, 1];
  const back = new Uint8Array(bytes);
  const blocks = how.endsWith('-wait');
  /** Waits for it, or returns it: to be awaited. */
  const end = (request: Request): Request | undefined => {
    if (!blocks) return request;
    request.wait();
    return undefined;
  };
  const more = new Uint8Array(1);
  if (world.rank === 0) {
    const ended = async (answer: Request, sent: Request): Promise<Uint8Array> => {
      await answer;
      await sent;
      return back;
    };
    const trip: Trip = (data) => {
      const answer = world.irecv(back, 1, DATA);
      const sent = world.isend(data, 1, DATA);
      if (!blocks) return ended(answer, sent);
      answer.wait();
      sent.wait();
      return back;
    };
    const batches = async (count: number): Promise<void> => {
      await world.isend(Uint8Array.of(count), 1, GO_ON);
    };
    print(await measure(trip, bytes, repetitions, seconds, batches));
    await batches(0);
  } else {
    for (;;) {
      await world.irecv(more, 0, GO_ON);
      if (more[0] === 0) break;
      for (let i = 0; i < more[0]; i++) {
        const received = end(world.irecv(back, 0, DATA));
        if (received) await received;
        const sent = end(world.isend(back, 0, DATA));
        if (sent) await sent;
      }
    }
  }
  await world.close();
}

/**
 * Round trips in batches of this number; the time limit is checked between them. The first of a batch does not count:
 * the peer may sleep.
 */
const BATCH = 20;

async function measure(
  trip: Trip,
  bytes: number,
  repetitions: number,
  seconds: number,
  beforeBatch: (count: number) => Promise<void> = () => Promise.resolve(),
): Promise<Measured> {
  let number = 0;
  let data = new Uint8Array(bytes);
  /** One round trip, in milliseconds. */
  const once = async (): Promise<number> => {
    number = (number + 1) % 256;
    data[0] = data[bytes - 1] = number;
    const begin = performance.now();
    const pending = trip(data);
    const answer = pending instanceof Promise ? await pending : pending;
    const end = performance.now();
    if (answer.length !== bytes || answer[0] !== number || answer[bytes - 1] !== number)
      throw new Error(`the answer to message ${number} is wrong`);
    // What was transferred comes back in the answer.
    if (data.length === 0) data = answer as Uint8Array<ArrayBuffer>;
    return end - begin;
  };
  const run = async (most: number, limitMs: number): Promise<number[]> => {
    const samples: number[] = [];
    const end = performance.now() + limitMs;
    while (samples.length < most && (samples.length === 0 || performance.now() < end)) {
      const count = Math.min(BATCH, most - samples.length);
      await beforeBatch(count + 1);
      await once();
      for (let i = 0; i < count; i++) samples.push(await once());
    }
    return samples;
  };
  await run(Math.ceil(repetitions * WARM_UP), seconds * 1000 * WARM_UP);
  return measuredOf(await run(repetitions, seconds * 1000));
}

function print(measured: Measured): void {
  process.stdout.write(`${JSON.stringify(measured)}\n`);
}

async function echo(name: string, rest: readonly string[]): Promise<void> {
  if (name === 'socket') echoSocket(Number(rest[0]), rest[1]);
  else if (name === 'ipc') echoIpc();
  else await echoZeromq(rest[0]);
}

async function main(): Promise<void> {
  const [name, ...rest] = process.argv.slice(2);
  // Ranks that are threads have no such data.
  if (!isMainThread && (workerData as unknown) != null) {
    const given = workerData as { echo: string; transfer: boolean; shared: SharedArrayBuffer };
    if (given.echo === 'atomics') echoAtomics(given.shared);
    else echoMessages(given.transfer);
    return;
  }
  if (name === '--echo') return echo(rest[0], rest.slice(1));
  const [bytes, repetitions, seconds] = rest.map(Number);
  if (name.startsWith('nbc-')) return measureOurs(name, bytes, repetitions, seconds);
  const partner = await open[name](bytes);
  print(await measure(partner.trip, bytes, repetitions, seconds));
  await partner.close();
}

await main();
