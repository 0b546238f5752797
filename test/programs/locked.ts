/**
 * Memory that is locked. First, a rank that may lock little of it: two ranks; the limit is rank 0's, and rank 1 has
 * none. Then what ranks lock for each other, without a limit.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  AbandonedError,
  alloc,
  type Communicator,
  ExhaustedError,
  init,
  NbcError,
  PeerClosedError,
  type Request,
} from 'node-nbc';
import { assertBytes, piece } from './noise.js';
import { play, report } from './scenario.js';

const LARGE = 8 << 20;
const FITTING = 1 << 19;
const TAG = 1;

async function outcome(request: Request): Promise<NbcError | null> {
  return request.then(
    () => null,
    (error: unknown) => {
      assert(error instanceof NbcError, String(error));
      return error;
    },
  );
}

/** The rank that cannot register gets the reason, and the other an error of its own; what fits goes on. */
async function buffers(): Promise<void> {
  const world = await init();
  const { rank } = world;
  const texts: string[] = [];
  const failed = async (request: Request): Promise<void> => {
    const error = await outcome(request);
    if (rank === 0) {
      assert(error instanceof ExhaustedError && error.code === 'ERR_NBC_MEMORY', String(error));
      texts.push(error.message);
    } else {
      // Which of its messages rank 1 hears of first is open.
      assert(error instanceof AbandonedError && error.origin === 0, String(error));
      assert.equal(error.reason, 'ERR_NBC_MEMORY');
    }
  };
  if (rank === 0) {
    assert.throws(
      () => alloc(Uint8Array, LARGE),
      (error: unknown) => {
        assert(error instanceof ExhaustedError && error.code === 'ERR_NBC_NO_MEMORY', String(error));
        texts.push(error.message);
        return true;
      },
    );
    await failed(world.isend(new Uint8Array(LARGE), 1, TAG));
    await failed(world.irecv(new Uint8Array(LARGE), 1, TAG));
  } else {
    await failed(world.irecv(new Uint8Array(LARGE), 0, TAG));
    await failed(world.isend(new Uint8Array(LARGE), 0, TAG));
  }
  await failed(world.ialltoall(new Uint8Array(2 * LARGE), new Uint8Array(2 * LARGE)));
  await exchange(world);
  await world.close();
  report(texts);
}

async function exchange(world: Communicator): Promise<void> {
  const { rank } = world;
  const received = rank === 0 ? alloc(Uint8Array, FITTING) : new Uint8Array(FITTING);
  const requests = [
    world.irecv(received, 1 - rank, TAG),
    world.isend(Uint8Array.from(piece(1, rank, 0, FITTING)), 1 - rank, TAG),
  ];
  for (const request of requests) await request;
  assertBytes(received, piece(1, 1 - rank, 0, FITTING), 'what fits');
}

/** Rank 0 may lock next to nothing: it cannot join. It lives on until a signal, and rank 1 must not wait for that. */
async function opening(): Promise<void> {
  if (process.env['NBC_RANK'] === '0') {
    process.once('SIGUSR2', () => process.exit(0));
    setInterval(() => {}, 1000);
    await assert.rejects(init(), (error: unknown) => {
      assert(error instanceof NbcError && error.code === 'ERR_NBC_TRANSPORT', String(error));
      report([error.message]);
      return true;
    });
    return;
  }
  const world = await init();
  const errors = [
    await outcome(world.irecv(new Uint8Array(8), 0, TAG)),
    await outcome(world.irecv(new Uint8Array(LARGE), 0, TAG)),
    await outcome(world.isend(new Uint8Array(LARGE), 0, TAG)),
  ];
  for (const error of errors) assert(error instanceof PeerClosedError, String(error));
  await world.close();
  report([]);
}

/** KiB that this process has pinned, as far as the kernel counts them. */
function pinned(): number {
  const line = /^VmPin:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
  return Number(line![1]);
}

/**
 * Rank 0 talks with one rank after another, and no other two talk. Each reports what it has pinned at each time. A
 * receive connects too, so the others wait for a signal: the test gives it when rank 0 has measured itself alone.
 */
async function peers(): Promise<void> {
  const begin = once(process, 'SIGUSR2');
  console.log('ready');
  const world = await init();
  const found = [pinned()];
  if (world.rank === 0) console.log('measured');
  const awake = setInterval(() => {}, 1000);
  await begin;
  clearInterval(awake);
  const answer = new Uint8Array(8);
  for (let peer = 1; peer < world.size; peer++) {
    if (world.rank !== 0 && world.rank !== peer) continue;
    if (world.rank === 0) await world.isend(new Uint8Array(8), peer, TAG);
    await world.irecv(answer, world.rank === 0 ? peer : 0, TAG);
    if (world.rank !== 0) await world.isend(answer, 0, TAG);
    found.push(pinned());
  }
  report(found);
  await world.close();
}

await play({ buffers, opening, peers });
