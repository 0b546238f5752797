/**
 * Ranks that end in the middle of operations, with and without a word. Three ranks, except where it says otherwise.
 */
import assert from 'node:assert/strict';
import { ClosedError, type Communicator, init, NbcError, PeerClosedError, type Request } from 'node-nbc';
import { play, report, say } from './scenario.js';

/** Every operation is large: it cannot complete without the rank that ends. */
const BYTES = 3 * 200_000;
const LEAVER = 1;

await play({
  exitOne: () =>
    leave(
      (world) => void start(world),
      () => process.exit(7),
    ),
  exitZero: () =>
    leave(
      (world) => void start(world),
      () => process.exit(0),
    ),
  exitAll,
  throwOne: () =>
    leave(
      (world) => void start(world),
      () => {
        throw new Error('thrown on purpose');
      },
    ),
  exitBeforeStart: () =>
    leave(
      () => {},
      () => process.exit(7),
    ),
  killOne: () =>
    leave(
      (world) => void start(world),
      () => void process.kill(process.pid, 'SIGKILL'),
    ),
  exitInCallback,
  closeEarly: () =>
    leave(
      () => {},
      (world) => world.close(),
    ),
  closeWithPending: () =>
    leave(
      (world) => void start(world),
      (world) => world.close(),
    ),
  endWithoutClose,
  endWithPendingReceive,
  pendingKeepsAlive,
  completeDoesNot,
  neverInitialised: () => {},
});

function start(world: Communicator, receive = new Uint8Array(BYTES)): Request {
  return world.ialltoall(new Uint8Array(BYTES).fill(world.rank + 1), receive);
}

/**
 * One rank ends in the manner given; the operations of the others fail, whether they wait or await, started before or
 * after.
 */
async function leave(
  before: (world: Communicator) => void,
  end: (world: Communicator) => void | Promise<void>,
): Promise<void> {
  const world = await init();
  start(world).wait(); // all are there
  if (world.rank === LEAVER) {
    before(world);
    await end(world);
    return;
  }
  const begin = performance.now();
  const small = world.irecv(new Uint8Array(8), LEAVER, 1);
  const large = world.irecv(new Uint8Array(BYTES), LEAVER, 2);
  const send = world.isend(new Uint8Array(BYTES), LEAVER, 3);
  // The one that leaves may have started this one. Then it may just have completed: with the right data.
  const receive = new Uint8Array(BYTES);
  const collective = start(world, receive);
  const codes = [failure(() => collective.wait())];
  if (codes[0] === 'fulfilled') {
    const block = BYTES / world.size;
    assert(receive.every((byte, index) => byte === Math.floor(index / block) + 1));
  }
  for (const request of [small, large, send]) {
    codes.push(
      await request.then(
        () => 'fulfilled',
        (error: unknown) => codeOf(error),
      ),
    );
  }
  // What is started now fails as well, and does not hang.
  codes.push(failure(() => start(world).wait()));
  codes.push(failure(() => world.irecv(new Uint8Array(8), LEAVER, 4).wait()));
  codes.push(
    await start(world).then(
      () => 'fulfilled',
      (error: unknown) => codeOf(error),
    ),
  );
  const elapsed = performance.now() - begin;
  // Those who are still there can go on.
  const other = 2 - world.rank;
  const [out, back] = [new Uint8Array(BYTES).fill(world.rank + 1), new Uint8Array(BYTES)];
  const requests = [world.irecv(back, other, 5), world.isend(out, other, 5)];
  for (const request of requests) await request;
  assert(back.every((byte) => byte === other + 1));
  await world.close();
  report({ codes, elapsed });
}

function failure(call: () => void): string {
  try {
    call();
    return 'fulfilled';
  } catch (error) {
    return codeOf(error);
  }
}

function codeOf(error: unknown): string {
  assert(error instanceof NbcError, String(error));
  if (error instanceof PeerClosedError) assert.match(error.message, /rank \d/);
  return error.code;
}

async function exitAll(): Promise<void> {
  const world = await init();
  start(world).wait();
  for (let number = 0; number < 10; number++) start(world);
  void start(world).then(
    () => {},
    () => {},
  );
  process.exit(0);
}

async function exitInCallback(): Promise<void> {
  const world = await init();
  void start(world).then(() => {
    start(world);
    process.exit(0);
  });
}

/** Ends by itself, with an open world. */
async function endWithoutClose(): Promise<void> {
  const world = await init();
  start(world).wait();
  await start(world);
}

/** A job of one rank and of two: waits for ever, until the peer goes. */
async function endWithPendingReceive(): Promise<void> {
  const world = await init();
  if (world.rank === LEAVER) return world.close();
  world.irecv(new Uint8Array(1), LEAVER, 0).then(
    () => report('fulfilled'),
    (error: unknown) => report(codeOf(error)),
  );
}

/** Two ranks. The first has nothing but a pending request; the second one sends when told to by a signal. */
async function pendingKeepsAlive(): Promise<void> {
  const world = await init();
  if (world.rank === 0) {
    const buffer = new Uint8Array(1000);
    // Nobody awaits it, and still it keeps the process alive until it is complete.
    const request = world.irecv(buffer, 1, 0);
    process.once('exit', () => report({ done: request.done, byte: buffer[999] }));
    setTimeout(() => say('waiting'), 100);
  } else {
    process.once('SIGUSR2', () => {
      world.isend(new Uint8Array(1000).fill(5), 0, 0).wait();
      process.exit(0);
    });
    setInterval(() => {}, 1000);
    say('ready');
  }
}

/** Two ranks. Completed requests, seen or not, and an open world don't keep the process alive. */
async function completeDoesNot(): Promise<void> {
  const world = await init();
  const buffer = new Uint8Array(1000);
  await world.ibcast(buffer, 0);
  world.ibcast(buffer, 1); // nobody looks at it
  world.ialltoall(buffer, new Uint8Array(1000)).wait();
  world.ibcast(buffer, 0).then(
    () => say('awaited'),
    (error: unknown) => assert(error instanceof ClosedError),
  );
}
