/**
 * A rank that may lock little memory. Two ranks; the limit is rank 0's, and rank 1 has none.
 */
import assert from 'node:assert/strict';
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

await play({ buffers, opening });
