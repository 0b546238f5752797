/**
 * What a request can do: be awaited, waited for, asked; alone and with others; in time, too late, and after the end.
 * Two ranks.
 *
 * Rank 0 looks at its requests. Rank 1 sends what is missing when rank 0 tells it to, with a message of its own.
 */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import {
  alloc,
  ClosedError,
  type Communicator,
  init,
  PeerClosedError,
  type PersistentRequest,
  Request,
  startall,
  testAll,
  TimeoutError,
  waitAll,
  waitAny,
} from 'node-nbc';
import { play, say } from './scenario.js';

/** Bytes: through the mailbox, and by rendezvous. */
const SIZES = [8, 100_000];
const GO = 1000;

await play({ awaiting, many, timeouts, missing, defaultTimeout, closing, peerCloses, dropped, exhaustion, persistent });

/** Rank 0 plays a part; rank 1 sends message `tag` of `bytes` each time it is told to. */
async function withSender(
  part: (world: Communicator, send: (tag: number, bytes: number) => void) => Promise<void>,
  options = {},
): Promise<void> {
  const world = await init(options);
  const order = new Int32Array(2);
  if (world.rank === 0) {
    const send = (tag: number, bytes: number): void => {
      order.set([tag, bytes]);
      world.isend(order, 1, GO).wait(Infinity);
    };
    await part(world, send);
    send(-1, 0);
  } else {
    for (;;) {
      world.irecv(order, 0, GO).wait(Infinity);
      const [tag, bytes] = order as unknown as [number, number];
      if (tag < 0) break;
      world.isend(new Uint8Array(bytes).fill(tag + 1), 0, tag);
    }
  }
  // Both have done all they wanted from each other.
  world.ibcast(new Uint8Array(1), 0).wait(Infinity);
  world.ibcast(new Uint8Array(1), 1).wait(Infinity);
  await world.close();
}

function assertArrived(buffer: Uint8Array, tag: number): void {
  assert(
    buffer.every((byte) => byte === tag + 1),
    `message ${tag} has arrived`,
  );
}

async function awaiting(): Promise<void> {
  await withSender(async (world, send) => {
    for (const bytes of SIZES) {
      const buffer = new Uint8Array(bytes);
      const request = world.irecv(buffer, 1, 5);
      assert(request instanceof Request);
      assert.equal(request.done, false);
      assert.equal(request.test(), false);
      assert.match(inspect(request), /irecv.*pending/);

      const order: string[] = [];
      const chained = request.then(() => {
        order.push('first');
        return 42;
      });
      assert(chained instanceof Promise, 'then returns a promise');
      const again = request.then(() => order.push('second'));
      const through = request.then();
      const nothing: PromiseLike<void> = request.then(null, null);
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual(order, [], 'pending');

      send(5, bytes);
      assert.equal(await Promise.resolve<unknown>(request), undefined, 'a request has no value');
      assertArrived(buffer, 5);
      assert.equal(request.done, true);
      assert.equal(request.test(), true);
      request.wait();
      request.wait(0);
      assert.equal(await chained, 42);
      await Promise.all([again, through, nothing, request, request]);
      assert.deepEqual(order, ['first', 'second'], 'handlers run in the order in which they were given');
      assert.match(inspect(request), /irecv.*complete/);

      // Handlers never run before then() has returned, even if the request is complete.
      let called = false;
      const late = request.then(() => (called = true));
      assert.equal(called, false);
      await late;
      assert.equal(called, true);
      await assert.rejects(
        request.then(() => {
          throw new RangeError('from the handler');
        }),
        RangeError,
      );
    }
    // Awaited and waited for at the same time.
    const buffer = new Uint8Array(SIZES[1]);
    const request = world.irecv(buffer, 1, 6);
    const promise = Promise.resolve(request);
    send(6, buffer.length);
    request.wait();
    assertArrived(buffer, 6);
    await promise;
  });
}

async function many(): Promise<void> {
  await withSender(async (world, send) => {
    waitAll([]);
    assert.equal(testAll([]), true);
    startall([]);
    for (const bytes of SIZES) {
      const buffers = Array.from({ length: 40 }, () => new Uint8Array(bytes));
      const requests = buffers.map((buffer, tag) => world.irecv(buffer, 1, tag));
      assert.equal(testAll(requests), false);
      assert.throws(() => waitAny(requests, 0), TimeoutError);
      assert.throws(() => waitAll(requests, 5), TimeoutError);

      send(17, bytes);
      assert.equal(waitAny(requests), 17);
      assertArrived(buffers[17], 17);
      assert.equal(waitAny(requests), 17, 'a complete request counts each time');
      assert.equal(testAll(requests), false);
      assert.throws(() => waitAll(requests, 1), TimeoutError);

      const left = requests.filter((request) => request !== requests[17]);
      for (const tag of [3, 39, 0]) {
        send(tag, bytes);
        const index = waitAny(left);
        assert.equal(left[index], requests[tag]);
        assertArrived(buffers[tag], tag);
        left.splice(index, 1);
      }
      for (const request of left) send(requests.indexOf(request), bytes);
      startall(requests, 10);
      waitAll(requests);
      assert.equal(testAll(requests), true);
      waitAll(requests, 0);
      for (const [tag, buffer] of buffers.entries()) assertArrived(buffer, tag);
      assert.equal(waitAny(requests), 0, 'the lowest of several');
    }
    // The same one twice, in all of them.
    const buffer = new Uint8Array(8);
    const request = world.irecv(buffer, 1, 0);
    assert.equal(testAll([request, request]), false);
    send(0, 8);
    waitAll([request, request, request]);
    assert.equal(waitAny([request, request]), 0);
  });
}

/** Rank 3 comes late to a gather: the root's error names it, once all others have come. */
async function missing(): Promise<void> {
  const world = await init();
  const { rank, size } = world;
  const late = 3;
  const blocks = rank === 0 ? new Uint8Array(8 * size) : null;
  if (rank === late) world.irecv(new Uint8Array(1), 0, GO).wait(Infinity);
  const request = world.igather(new Uint8Array(8).fill(rank), blocks, 0);
  for (let named = rank !== 0; !named;) {
    const error = timeoutOf(() => waitAll([request], 10));
    if (error.waitsFor.length > 1) continue;
    named = true;
    assert.deepEqual([error.waitsFor, error.round], [[late], 1]);
    assert.match(
      error.message,
      /^waitAll \(1 of 1 pending, the first: igather\) is not complete after 10 ms: round 1 of \d /,
    );
    assert.match(error.message, / waits for rank 3; the request stays pending$/);
    await assert.rejects(
      async () => request,
      ({ message }: Error) => /^igather .* waits for rank 3;/.test(message),
    );
    world.isend(new Uint8Array(1), late, GO).wait(Infinity);
  }
  request.wait(Infinity);
  if (blocks !== null) assert.equal(blocks[8 * late], late);
  world.ibarrier().wait(Infinity);
  await world.close();
}

function timeoutOf(wait: () => void): TimeoutError {
  try {
    wait();
  } catch (error) {
    assert(error instanceof TimeoutError, String(error));
    return error;
  }
  throw new Error('it did not time out');
}

async function timeouts(): Promise<void> {
  await withSender(async (world, send) => {
    for (const bytes of SIZES) {
      const buffer = new Uint8Array(bytes);
      const request = world.irecv(buffer, 1, 1);
      for (const limit of [0, 0.5, 20]) {
        const begin = performance.now();
        assert.throws(
          () => request.wait(limit),
          (error: unknown) => {
            assert(error instanceof TimeoutError);
            assert.equal(error.code, 'ERR_NBC_TIMEOUT');
            assert.equal(error.timeoutMs, limit);
            assert.equal(error.operation, 'irecv');
            assert.match(error.message, /: it waits for rank 1; the request stays pending$/);
            assert.deepEqual([error.waitsFor, error.round], [[1], undefined]);
            assert.equal(error.rank, 0);
            return true;
          },
        );
        assert(performance.now() - begin >= limit, 'not before the time has passed');
        assert.equal(request.done, false, 'still pending');
      }
      const both = [request, world.irecv(new Uint8Array(bytes), 1, 2)];
      assert.throws(() => waitAll(both, 5), {
        name: 'TimeoutError',
        message: /2 of 2 pending, the first: irecv.* it waits for rank 1;/,
      });
      send(2, bytes);
      both[1].wait();
      assert.throws(() => waitAll(both, 5), TimeoutError);
      send(1, bytes);
      await request;
      assertArrived(buffer, 1);
      waitAll(both, 5);
    }
  });
}

/** `timeout` of init() holds for wait() and for awaited requests; an argument of wait() wins. */
async function defaultTimeout(): Promise<void> {
  await withSender(
    async (world, send) => {
      for (const bytes of SIZES) {
        const buffer = new Uint8Array(bytes);
        const request = world.irecv(buffer, 1, 1);
        assert.throws(() => request.wait(), { name: 'TimeoutError', timeoutMs: 30 });
        assert.throws(() => waitAll([request]), TimeoutError);
        assert.throws(() => waitAny([request]), TimeoutError);
        await assert.rejects(async () => request, { name: 'TimeoutError', timeoutMs: 30 });
        assert.equal(request.done, false);
        send(1, bytes);
        request.wait(Infinity);
        assertArrived(buffer, 1);
        await request;
      }
    },
    { timeout: 30 },
  );
}

/**
 * close() ends what is pending, and everything after it fails; twice is as good as once. Rank 1 is there until rank 0
 * is done.
 */
async function closing(): Promise<void> {
  const world = await init();
  const peer = 1 - world.rank;
  const memory = alloc(Uint8Array, 1000).fill(7);
  const dup = await world.dup();
  const another = await world.dup();
  world.ialltoall(new Uint8Array(8), new Uint8Array(8)).wait();

  // A communicator by itself: what is in progress goes on.
  const [back, out] = [new Uint8Array(50_000), new Uint8Array(50_000).fill(4)];
  const inProgress = dup.irecv(back, peer, 1);
  const send = dup.isend(out, peer, 1);
  await dup.close();
  await dup.close();
  await dup[Symbol.asyncDispose]();
  assert.throws(() => dup.ibcast(memory, 0), ClosedError);
  assert.throws(() => dup.isend(memory, peer), ClosedError);
  await assert.rejects(dup.dup(), ClosedError);
  waitAll([inProgress, send]);
  assert.deepEqual(back, out);
  const complete = another.ialltoall(new Uint8Array(8), new Uint8Array(8));
  complete.wait();
  if (world.rank === 1) {
    assert.throws(() => world.irecv(new Uint8Array(8), peer, 99).wait(), PeerClosedError);
    await world.close();
    return;
  }

  // The world. Nobody sends these messages.
  const pending = [
    world.irecv(new Uint8Array(8), peer, 7),
    world.irecv(new Uint8Array(100_000), peer, 8),
    another.irecv(memory, peer, 7),
    world.isend(new Uint8Array(100_000), peer, 9),
  ];
  const awaited = pending.slice(0, 2).map((request) =>
    request.then(
      () => 'fulfilled',
      (error: unknown) => (error as Error).name,
    ),
  );
  await Promise.all([world.close(), world.close()]);
  await world.close();
  await world[Symbol.asyncDispose]();
  await another.close();
  assert.deepEqual(await Promise.all(awaited), ['ClosedError', 'ClosedError']);
  for (const request of pending) {
    assert.equal(request.done, true);
    assert.throws(() => request.wait(), { name: 'ClosedError', code: 'ERR_NBC_CLOSED', operation: /^i(recv|send)$/ });
    assert.throws(() => request.test(), ClosedError);
    assert.throws(() => waitAll([complete, request]), ClosedError);
    assert.throws(() => waitAny([request]), ClosedError);
    assert.throws(() => testAll([request]), ClosedError);
    await assert.rejects(async () => request, ClosedError);
  }
  complete.wait();
  assert.equal(testAll([complete]), true);
  assert.equal(waitAny([complete]), 0);

  for (const communicator of [world, another, dup]) {
    assert.throws(() => communicator.ibcast(memory, 0), ClosedError);
    assert.throws(() => communicator.igather(new Uint8Array(500), memory, 0), ClosedError);
    assert.throws(() => communicator.ialltoall(new Uint8Array(8), new Uint8Array(8)), ClosedError);
    assert.throws(() => communicator.isend(memory, peer), ClosedError);
    assert.throws(() => communicator.irecv(memory, peer), ClosedError);
    assert.throws(() => communicator.stats(), ClosedError);
    await assert.rejects(communicator.dup(), ClosedError);
    await assert.rejects(communicator.split(0), ClosedError);
  }
  assert.throws(() => alloc(Uint8Array, 8), ClosedError);
  // Memory of alloc() stays ordinary memory.
  memory.fill(8);
  globalThis.gc?.();
  assert(memory.every((byte) => byte === 8));
}

/** What a rank sent before it closed arrives; everything else fails, now and later. */
async function peerCloses(): Promise<void> {
  const world = await init();
  const dup = await world.dup();
  if (world.rank === 1) {
    world.isend(new Uint8Array(8).fill(6), 0, 5).wait();
    world.isend(new Uint8Array(8).fill(7), 0, 6).wait();
    world.ibcast(new Uint8Array(8), 0).wait();
    await world.close();
    return;
  }
  const early = world.irecv(new Uint8Array(8), 1, 1);
  const large = world.irecv(new Uint8Array(100_000), 1, 2);
  const send = world.isend(new Uint8Array(100_000), 1, 3);
  const collective = dup.ialltoall(new Uint8Array(100_000), new Uint8Array(100_000));
  world.ibcast(new Uint8Array(8), 0).wait();
  const awaited = [large, collective].map((request) => assert.rejects(async () => request, PeerClosedError));
  assert.throws(() => early.wait(), { name: 'PeerClosedError', code: 'ERR_NBC_PEER_CLOSED', message: /rank 1/ });
  assert.throws(() => send.wait(), PeerClosedError);
  await Promise.all(awaited);
  for (const tag of [6, 5]) {
    const buffer = new Uint8Array(8);
    world.irecv(buffer, 1, tag).wait();
    assertArrived(buffer, tag);
  }
  assert.throws(() => world.irecv(new Uint8Array(8), 1, 5).wait(), PeerClosedError);
  assert.throws(() => world.isend(new Uint8Array(100_000), 1, 5).wait(), PeerClosedError);
  await assert.rejects(async () => world.irecv(new Uint8Array(8), 1, 5), PeerClosedError);
  await assert.rejects(dup.split(0), PeerClosedError);
  await world.close();
}

/** Requests that nobody keeps complete all the same, and their slots are used again. */
async function dropped(): Promise<void> {
  const world = await init();
  const peer = 1 - world.rank;
  const sink = new Uint8Array(8);
  for (let round = 0; round < 200; round++) {
    for (let tag = 0; tag < 100; tag++) {
      world.irecv(sink, peer, tag);
      world.isend(new Uint8Array(8), peer, tag);
    }
    world.ialltoall(new Uint8Array(8), new Uint8Array(8)).wait();
  }
  await world.ialltoall(new Uint8Array(8), new Uint8Array(8));
  await world.close();
}

/** As many persistent requests as there can be, none of them started; then one operation among them. */
async function persistent(): Promise<void> {
  const world = await init();
  const buffer = new Uint8Array(1);
  const requests: PersistentRequest[] = [];
  const exhausted = (message: RegExp): object => ({ code: 'ERR_NBC_TOO_MANY_REQUESTS', message });
  const all = exhausted(/^1048576 persistent requests exist, which is the most there can be; free\(\) some of them/);
  assert.throws(() => {
    for (;;) requests.push(world.sendInit(buffer, 0, 1));
  }, all);
  assert.equal(requests.length, 2 ** 20);
  assert.throws(() => world.irecv(buffer, 0, 1), all);
  requests.pop()!.free();
  const receive = world.irecv(buffer, 0, 1);
  const together = exhausted(
    /^1048575 persistent requests exist and 1 operation is pending, which together is the most/,
  );
  assert.throws(() => world.irecv(buffer, 0, 1), together);
  requests[0].start();
  receive.wait();
  await world.close();
}

/**
 * There is a most of pending operations; to reach it is an error, which passes when some have completed. Rank 1 must
 * not send before rank 0 has said that it has reached it, for which it can use no message: a signal tells.
 */
async function exhaustion(): Promise<void> {
  const SOME = 3;
  const world = await init();
  const buffer = new Uint8Array(1);
  if (world.rank === 1) {
    process.once('SIGUSR2', () => {
      for (let sent = 0; sent < SOME; sent++) world.isend(buffer, 0, 1).wait();
      assert.throws(() => world.irecv(buffer, 0, 2).wait(), PeerClosedError);
      void world.close().then(() => process.exit(0));
    });
    setInterval(() => {}, 1000);
    say('ready');
    return;
  }
  const requests: Request[] = [];
  const more = (): void => {
    for (;;) requests.push(world.irecv(buffer, 1, 1));
  };
  const exhausted = { name: 'ExhaustedError', code: 'ERR_NBC_TOO_MANY_REQUESTS' };
  assert.throws(more, exhausted);
  assert(requests.length >= 10_000, `${requests.length} may be pending`);
  assert.throws(() => world.isend(new Uint8Array(100_000), 1), exhausted);
  say('ready');
  for (const request of requests.slice(0, SOME)) request.wait();
  for (let again = 0; again < SOME; again++) requests.push(world.irecv(buffer, 1, 1));
  assert.throws(more, exhausted);
  await world.close();
  assert.throws(() => waitAll(requests), ClosedError);
}
