/**
 * Worlds in worker threads. Two ranks; rank 1 is a plain peer.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { alloc, init, NbcError, PeerClosedError, waitAll } from 'node-nbc';
import { native } from '#library/native.js';
import { assertBytes, piece } from './noise.js';
import { play, report } from './scenario.js';

const BYTES = 500_000;

if (isMainThread)
  await play({
    inWorker,
    twoWorlds,
    terminated,
    terminatedWithAlloc,
    terminatedInWait,
    terminatedInErrors,
    exitPastWait,
    workerExits,
  });
else if (workerData === 'errors') failForEver();
else await workerMain();

function launch(what: string): Worker {
  return new Worker(fileURLToPath(import.meta.url), { workerData: what });
}

async function workerMain(): Promise<void> {
  const world = await init();
  const what = workerData as string;
  if (what === 'exchange') {
    const buffer = alloc(Uint8Array, BYTES);
    if (world.rank === 0) buffer.set(piece(1, 0, 0, BYTES));
    await world.ibcast(buffer, 0);
    assertBytes(buffer, piece(1, 0, 0, BYTES), 'ibcast from a worker');
    world.ibcast(buffer, 1).wait();
    await world.close();
    parentPort!.postMessage('ready');
    return;
  }
  // Never completes: the peer does not take part.
  const buffer = what === 'alloc' ? alloc(Uint8Array, BYTES) : new Uint8Array(BYTES);
  world.irecv(buffer, 1, 7).then(
    () => {},
    () => {},
  );
  const tests = world.ibcast(buffer, 1);
  parentPort!.postMessage('ready');
  if (what === 'exit') process.exit(3);
  if (what === 'wait') waitAll([tests]);
  for (;;) tests.test();
}

/** Calls of native code that throw. */
function failForEver(): void {
  parentPort!.postMessage('ready');
  for (;;) assert.throws(() => native.stats());
}

/** An error that native code throws finds its thread in the middle of its end, in one of many. */
async function terminatedInErrors(): Promise<void> {
  const rounds = process.env['NBC_TEST_BRIEF'] === '1' ? 15 : 60;
  for (let round = 0; round < rounds; round++) {
    const worker = launch('errors');
    await once(worker, 'message');
    await setTimeout(round % 5);
    await worker.terminate();
  }
}

/** The peer of rank 0's worker. */
async function peer(): Promise<void> {
  const world = await init();
  const request = world.irecv(new Uint8Array(BYTES), 0, 9);
  await assert.rejects(async () => request, PeerClosedError);
  await world.close();
}

async function inWorker(): Promise<void> {
  if (process.env['NBC_RANK'] === '1') {
    const world = await init();
    const buffer = new Uint8Array(BYTES);
    await world.ibcast(buffer, 0);
    await world.ibcast(buffer, 1);
    await world.close();
    return;
  }
  const worker = launch('exchange');
  const ends = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
  const [[answer], [code]] = ends as [unknown[], unknown[]];
  assert.equal(answer, 'ready');
  assert.equal(code, 0);
}

/** A process has one world: a second init() fails, in any thread, and the first one goes on. */
async function twoWorlds(): Promise<void> {
  const world = await init();
  const buffer = new Uint8Array(BYTES);
  const request = world.ibcast(buffer, 0);
  if (world.rank === 0) {
    await assert.rejects(init(), { name: 'NbcError', code: 'ERR_NBC_ALREADY_OPEN' });
    const worker = launch('exchange');
    const [error] = (await once(worker, 'error')) as [NbcError];
    assert.equal(error.code, 'ERR_NBC_ALREADY_OPEN');
    assert.match(error.message, /in the thread that called init\(\) and pass data to it, or start more ranks/);
  }
  await request;
  await world.ibcast(buffer, 1);
  await world.close();
  // A rank cannot come back to a job that it has left; that must be an error, too.
  await assert.rejects(init(), (error: unknown) => {
    assert(error instanceof NbcError);
    report(error.code);
    return true;
  });
}

async function terminated(): Promise<void> {
  await terminate('plain');
}
async function terminatedWithAlloc(): Promise<void> {
  await terminate('alloc');
}
async function terminatedInWait(): Promise<void> {
  await terminate('wait');
}

/** The main thread ends the process while a worker is in a wait() that nothing else ends. */
async function exitPastWait(): Promise<void> {
  if (process.env['NBC_RANK'] === '1') return peer();
  await once(launch('wait'), 'message');
  await setTimeout(50);
  process.exit(0);
}

/** A worker is ended from outside while its operations are pending; its peers hear of it, and the process lives on. */
async function terminate(what: string): Promise<void> {
  if (process.env['NBC_RANK'] === '1') return peer();
  const worker = launch(what);
  await once(worker, 'message');
  await worker.terminate();
  report('alive');
}

async function workerExits(): Promise<void> {
  if (process.env['NBC_RANK'] === '1') return peer();
  const worker = launch('exit');
  const [code] = (await once(worker, 'exit')) as [number];
  report(code);
}
