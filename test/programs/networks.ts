/** Ranks in two network namespaces, 0 and 1 in one, 2 and 3 in the other; see networks.test.ts. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { alloc, type Communicator, init, waitAll } from 'node-nbc';
import { codeWhereItBegan } from './codes.js';
import { listeners } from './listeners.js';
import { play, report, say } from './scenario.js';

const BULK = 64 << 20;

await play({ together, cut, cutBeforeTheFirst });

interface Failure {
  what: string;
  code: string;
  message: string;
}

/** All three collectives, from both kinds of memory, from every root; then how the data went, and who listens where. */
async function together(): Promise<void> {
  const world = await init();
  const { rank, size } = world;
  for (const make of [(n: number) => new Uint8Array(n), (n: number) => alloc(Uint8Array, n)]) {
    for (const block of [3, 5_000, 300_001]) {
      for (let root = 0; root < size; root++) {
        const message = make(block);
        if (rank === root) fillBlock(message, root, 99);
        const mine = fillBlock(make(block), rank, root);
        const all = rank === root ? make(block * size) : null;
        waitAll([world.ibcast(message, root), world.igather(mine, all, root)]);
        checkBlock(message, root, 99);
        for (let from = 0; all !== null && from < size; from++) checkBlock(blockOf(all, from, block), from, root);
      }
      const send = make(block * size);
      const receive = make(block * size);
      for (let to = 0; to < size; to++) fillBlock(blockOf(send, to, block), rank, to);
      world.ialltoall(send, receive).wait();
      for (let from = 0; from < size; from++) checkBlock(blockOf(receive, from, block), from, rank);
    }
  }
  // All are still here: each sees the listeners of both ranks of its side.
  report({ stats: world.stats(), listeners: listeners('namespace') });
  world.ialltoall(new Uint8Array(size), new Uint8Array(size)).wait();
  await world.close();
}

/** The link goes while 0 and 2 wait for a small message that nobody sends, and 1 and 3 send each other much. */
async function cut(): Promise<void> {
  const world = await init();
  const { rank } = world;
  const other = (rank + 2) % 4;
  world.ialltoall(new Uint8Array(400_000), new Uint8Array(400_000)).wait();
  const small = rank % 2 === 0;
  const begun: [string, PromiseLike<void>][] = small
    ? [['irecv of 8 bytes', world.irecv(new Uint8Array(8), other, 1)]]
    : [
        ['irecv of 64 MiB', world.irecv(new Uint8Array(BULK), other, 1)],
        ['isend of 64 MiB', world.isend(new Uint8Array(BULK), other, 1)],
      ];
  const settled = Promise.all(begun.map(([what, request]) => failure(what, () => request)));
  say('ready');
  report([...(await settled), ...(await afterwards(world))]);
  await world.close();
}

/** The link goes before ranks of different sides have talked: there is no connection yet. */
async function cutBeforeTheFirst(): Promise<void> {
  const world = await init();
  checkNeighbour(world);
  const isCut = once(process, 'SIGUSR2');
  const awake = setInterval(() => undefined, 1000);
  say('ready');
  await isCut;
  clearInterval(awake);
  report(await afterwards(world));
  await world.close();
}

/** What needs the other side fails, whichever way it is waited for; what does not, does not. */
async function afterwards(world: Communicator): Promise<Failure[]> {
  const other = (world.rank + 2) % 4;
  const failures = [
    await failure('irecv of 8 bytes', () => world.irecv(new Uint8Array(8), other, 2).wait()),
    await failure('isend of 100 kB', () => world.isend(new Uint8Array(100_000), other, 3)),
    await failure('ialltoall', () => world.ialltoall(new Uint8Array(400_000), new Uint8Array(400_000)).wait()),
  ];
  checkNeighbour(world);
  return failures;
}

function checkNeighbour(world: Communicator): void {
  const { rank } = world;
  for (const bytes of [8, 200_000]) {
    const mine = fillBlock(new Uint8Array(bytes), rank, 0);
    const back = new Uint8Array(bytes);
    waitAll([world.isend(mine, rank ^ 1, 4), world.irecv(back, rank ^ 1, 4)]);
    checkBlock(back, rank ^ 1, 0);
  }
}

async function failure(what: string, start: () => PromiseLike<void> | void): Promise<Failure> {
  try {
    await start();
  } catch (error) {
    return { what, code: codeWhereItBegan(error), message: (error as Error).message };
  }
  return { what, code: 'fulfilled', message: '' };
}

function blockOf(all: Uint8Array, index: number, block: number): Uint8Array {
  return all.subarray(index * block, (index + 1) * block);
}

/** Different for every pair and place. */
function fillBlock(block: Uint8Array, from: number, to: number): Uint8Array {
  for (let at = 0; at < block.length; at++) block[at] = byteAt(at, from, to);
  return block;
}

function checkBlock(block: Uint8Array, from: number, to: number): void {
  const wrong = block.findIndex((byte, at) => byte !== byteAt(at, from, to));
  assert(wrong < 0, `byte ${wrong} of ${block.length} from ${from} for ${to}`);
}

function byteAt(at: number, from: number, to: number): number {
  return (at * 7 + (at >> 8) * 13 + from * 31 + to * 17 + 3) & 255;
}
