/**
 * One mechanism of `nbcbench against-node` for an all-to-all: `all-to-all.js MECHANISM BYTES REPETITIONS SECONDS`. Each
 * of eight ranks gives each a block of BYTES. Rank 0 measures, and prints one line of JSON. Ranks are those of nbcrun,
 * or workers that this program starts.
 *
 * The first byte of each block has the number of its all-to-all, and of rank 0's, whether it is the last one; the last
 * byte has the number, too. Each block that arrives is checked.
 */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { isMainThread, MessageChannel, type MessagePort, Worker, workerData } from 'node:worker_threads';
import { init } from '#library/index.js';
import { measuredOf } from '../statistics.js';
import { CROWD } from './mechanisms.js';

/** Gives block i to rank i, and returns the blocks of all. Those that were given may be written again then. */
type Exchange = (blocks: Uint8Array[]) => Uint8Array[] | Promise<Uint8Array[]>;

interface Side {
  rank: number;
  /** The blocks that are given first. */
  blocks: Uint8Array[];
  exchange: Exchange;
}

/** What a worker is made with. */
interface Seat {
  how: string;
  rank: number;
  ports: MessagePort[];
  shared: SharedArrayBuffer;
}

const WARM_UP = 0.2;
const LAST = 0x80;

const cut = (whole: Uint8Array, bytes: number): Uint8Array[] =>
  Array.from({ length: CROWD }, (_, rank) => whole.subarray(rank * bytes, (rank + 1) * bytes));

async function measure({ rank, blocks, exchange }: Side, repetitions: number, seconds: number): Promise<void> {
  const bytes = blocks[0].length;
  const samples: number[] = [];
  let warm = Math.ceil(repetitions * WARM_UP);
  const warmUntil = performance.now() + seconds * 1000 * WARM_UP;
  const limit = warmUntil + seconds * 1000;
  for (let round = 1, over = false; !over; round++) {
    const number = round % LAST;
    if (round < warm && performance.now() > warmUntil) warm = round;
    const last = rank === 0 && (round >= warm + repetitions || (round > warm && performance.now() > limit));
    for (const block of blocks) {
      block[bytes - 1] = number;
      block[0] = number | (last ? LAST : 0);
    }
    const begin = performance.now();
    const pending = exchange(blocks);
    const got = pending instanceof Promise ? await pending : pending;
    const end = performance.now();
    if (round > warm) samples.push(end - begin);
    if (got.some((block) => block.length !== bytes || ((block[0] ^ number) & ~LAST) !== 0))
      throw new Error(`a block of all-to-all ${round} is wrong`);
    over = (got[0][0] & LAST) !== 0;
    blocks = got === blocks ? blocks : blocks.map((block, peer) => (block.length > 0 ? block : got[peer]));
  }
  if (rank === 0) process.stdout.write(`${JSON.stringify(measuredOf(samples))}\n`);
}

async function sideOfNbc(how: string, bytes: number): Promise<Side & { close(): Promise<void> }> {
  const world = await init();
  const [send, receive] = [new Uint8Array(CROWD * bytes), new Uint8Array(CROWD * bytes)];
  const got = cut(receive, bytes);
  const awaited = async (): Promise<Uint8Array[]> => {
    await world.ialltoall(send, receive);
    return got;
  };
  const waited = (): Uint8Array[] => {
    world.ialltoall(send, receive).wait();
    return got;
  };
  const exchange = how.endsWith('-await') ? awaited : waited;
  return { rank: world.rank, blocks: cut(send, bytes), exchange, close: () => world.close() };
}

/** A block that is transferred is written again by the one who gets it. */
function sideOfMessages({ rank, ports }: Seat, bytes: number, transfer: boolean): Side {
  const inbox: Uint8Array[][] = ports.map(() => []);
  let arrived: (() => void) | undefined;
  const complete = (): boolean => inbox.every((queue, peer) => peer === rank || queue.length > 0);
  for (const [peer, port] of ports.entries()) {
    if (peer === rank) continue;
    port.on('message', (block: Uint8Array) => {
      inbox[peer].push(block);
      if (complete()) arrived?.();
    });
  }
  const exchange: Exchange = async (blocks) => {
    for (const [peer, block] of blocks.entries())
      if (peer !== rank) ports[peer].postMessage(block, transfer ? [block.buffer as ArrayBuffer] : []);
    if (!complete()) await new Promise<void>((resolve) => (arrived = resolve));
    arrived = undefined;
    return blocks.map((block, peer) => (peer === rank ? block : inbox[peer].shift()!));
  };
  return { rank, blocks: ports.map(() => new Uint8Array(bytes)), exchange };
}

/** Words of the shared buffer in front of the blocks: who has come to a barrier, and how many barriers there were. */
const [COME, BARRIERS, HEAD_BYTES] = [0, 1, 8];
const sharedBytes = (bytes: number): number => HEAD_BYTES + 2 * CROWD * CROWD * bytes;

/** Two places for the blocks in turns: who writes to one has met all at the barrier after that was read. */
function sideOfAtomics({ rank, shared }: Seat, bytes: number): Side {
  const words = new Int32Array(shared, 0, 2);
  const place = (turn: number, from: number, to: number): Uint8Array =>
    new Uint8Array(shared, HEAD_BYTES + ((turn * CROWD + from) * CROWD + to) * bytes, bytes);
  const blocks = cut(new Uint8Array(CROWD * bytes), bytes);
  const got = cut(new Uint8Array(CROWD * bytes), bytes);
  let turn = 0;
  const exchange: Exchange = (given) => {
    turn = 1 - turn;
    for (const [peer, block] of given.entries()) place(turn, rank, peer).set(block);
    const before = Atomics.load(words, BARRIERS);
    if (Atomics.add(words, COME, 1) === CROWD - 1) {
      Atomics.store(words, COME, 0);
      Atomics.add(words, BARRIERS, 1);
      Atomics.notify(words, BARRIERS);
    } else {
      while (Atomics.load(words, BARRIERS) === before) Atomics.wait(words, BARRIERS, before);
    }
    for (const [peer, block] of got.entries()) block.set(place(turn, peer, rank));
    return got;
  };
  return { rank, blocks, exchange };
}

async function runWorkers(how: string, bytes: number): Promise<void> {
  const shared = new SharedArrayBuffer(how === 'all-atomics' ? sharedBytes(bytes) : 0);
  const ports: MessagePort[][] = Array.from({ length: CROWD }, () => []);
  for (let one = 0; one < CROWD; one++) {
    for (let other = one; other < CROWD; other++) {
      const { port1, port2 } = new MessageChannel();
      ports[other][one] = port2;
      ports[one][other] = port1;
    }
  }
  const ends = ports.map((own, rank) => {
    const seat: Seat = { how, rank, ports: own, shared };
    const argv = process.argv.slice(2);
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: seat, transferList: own, argv });
    return once(worker, 'exit');
  });
  await Promise.all(ends);
}

async function main(): Promise<void> {
  const [how, ...numbers] = process.argv.slice(2);
  const [bytes, repetitions, seconds] = numbers.map(Number);
  if (how.startsWith('all-nbc-')) {
    const side = await sideOfNbc(how, bytes);
    await measure(side, repetitions, seconds);
    await side.close();
  } else if (isMainThread) {
    await runWorkers(how, bytes);
  } else {
    const seat = workerData as Seat;
    const atomics = how === 'all-atomics';
    await measure(
      atomics ? sideOfAtomics(seat, bytes) : sideOfMessages(seat, bytes, how === 'all-transfer'),
      repetitions,
      seconds,
    );
    for (const port of seat.ports) port.close();
  }
}

await main();
