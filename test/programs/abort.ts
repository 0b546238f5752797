/** Communicators that are revoked. Three ranks: one waits, one awaits, one computes. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import {
  AbortError,
  ArgumentError,
  type Communicator,
  init,
  MismatchError,
  type Request,
  RevokedError,
  SUM,
} from 'node-nbc';
import { play, report } from './scenario.js';

/** Nothing may hang; this is what a very busy machine may need. */
const LIMIT_MS = Number(process.env['NBC_TEST_LIMIT_MS'] ?? 20_000);
const LARGE = 24 << 20;

const world = await init({ timeout: LIMIT_MS });
const { rank } = world;

/** Every rank has come here, whatever has become of other communicators. */
const together = (): void => world.ibarrier().wait();

function spin(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;);
}

function revokedBy(...ranks: number[]) {
  return (error: unknown): boolean => {
    assert(error instanceof RevokedError, String(error));
    assert.equal(error.code, 'ERR_NBC_REVOKED');
    assert(ranks.includes(error.revokedBy), error.message);
    assert.match(error.message, /^\w+: rank \d of the world has revoked the communicator/);
    return true;
  };
}

function withAbort(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(new Error('no longer wanted')) };
}

function abortedBy(signal: AbortSignal) {
  return (error: unknown): boolean => {
    assert(error instanceof AbortError, String(error));
    assert.deepEqual([error.name, error.code, error.cause], ['AbortError', 'ERR_NBC_ABORTED', signal.reason]);
    assert.match(error.message, /^\w+ was aborted by its signal: no longer wanted$/);
    return true;
  };
}

const fails = (request: Request, by = 0): void => assert.throws(() => request.wait(), revokedBy(by));

/** A request of each kind. They need others, unless they are revoked. */
function start(comm: Communicator, kind: number): Request {
  const [small, large] = [new Uint8Array(8), new Uint8Array(1 << 20)];
  const next = (comm.rank + 1) % comm.size;
  const kinds = [
    () => comm.irecv(small, next, 1),
    () => comm.irecv(large, next, 2),
    () => comm.isend(large, next, 3),
    () => comm.isendrecv(small, next, large, next, 4, 5),
    () => comm.ibarrier(),
    () => comm.iallreduce(new Float64Array(8), new Float64Array(8), SUM),
    () => comm.ibcast(large, next),
  ];
  return kinds[kind % kinds.length]();
}

const scenarios = {
  /** One rank waits, one awaits, one has something pending while it computes; then all call again. */
  async everywhere() {
    for (const size of [8, 1 << 20]) {
      const comm = await world.dup();
      const buffer = new Uint8Array(size);
      // It is rank 0 that they wait for.
      const message = world.irecv(new Uint8Array(8), (rank + 2) % 3, 7);
      if (rank === 0) {
        together();
        comm.revoke();
        assert.throws(() => comm.irecv(buffer, 1).wait(), revokedBy(0));
      } else if (rank === 1) {
        together();
        assert.throws(() => comm.irecv(buffer, 0).wait(), revokedBy(0));
      } else {
        const [collective, received] = [comm.ibarrier(), comm.irecv(buffer, 0)];
        together();
        await assert.rejects(async () => await collective, revokedBy(0));
        await assert.rejects(async () => await received, revokedBy(0));
      }
      // Another communicator goes on.
      world.isend(new Uint8Array(8), (rank + 1) % 3, 7).wait();
      message.wait();
      together();
      await comm.close();
    }
  },

  /** What is pending when its communicator is closed ends with it all the same, a message alone, too. */
  async afterClose() {
    for (const kinds of [[0], [1, 2], [5], [4, 0]]) {
      const comm = await world.dup();
      const pending = rank === 0 ? [] : kinds.map((kind) => start(comm, kind));
      if (rank !== 0) await comm.close();
      together();
      if (rank === 0) comm.revoke();
      for (const request of pending) fails(request);
      if (rank === 0) await comm.close();
    }
  },

  async computes() {
    const comm = await world.dup();
    const pending = rank === 0 ? [] : [0, 1, 2, 3, 4].map((kind) => start(comm, kind));
    together();
    if (rank === 0) comm.revoke();
    spin(300);
    for (const request of pending) fails(request);
    // What has nothing pending learns from its next call, at the latest from one that waits.
    for (let kind = 0; kind < 7; kind++) fails(start(comm, kind));
    together();
    await comm.close();
  },

  /** After that, everything fails, on a rank that has never used the communicator, too. */
  async later() {
    const comm = await world.dup();
    const persistent = comm.recvInit(new Uint8Array(8), 0, 9);
    const sending = comm.sendInit(new Uint8Array(8), 0, 9);
    const collective = comm.allreduceInit(new Float64Array(8), new Float64Array(8), SUM);
    if (rank === 1) comm.revoke();
    fails(comm.irecv(new Uint8Array(8), (rank + 1) % 3), 1);
    for (const request of [persistent, sending, collective]) {
      request.start();
      fails(request, 1);
      assert.throws(() => request.test(), revokedBy(1));
      request.free();
    }
    for (let kind = 0; kind < 7; kind++) {
      fails(start(comm, kind), 1);
      await assert.rejects(async () => await start(comm, kind), revokedBy(1));
    }
    fails(comm.isend(new Uint8Array(8), 0), 1);
    await assert.rejects(comm.values.allgather(rank), RevokedError);
    await assert.rejects(comm.values.recv(1), RevokedError);
    await assert.rejects(comm.dup(), RevokedError);
    await assert.rejects(comm.split(0), RevokedError);
    together();
    await comm.close();
  },

  /** What is in flight stops, and buffers are not written once their request has failed. */
  async large() {
    for (let round = 0; round < 6; round++) {
      const comm = await world.dup();
      const other = await world.dup();
      const into = new Uint8Array(LARGE);
      const from = new Uint8Array(LARGE).fill(round + 1);
      const beside = new Uint8Array(LARGE);
      const [next, before] = [(rank + 1) % 3, (rank + 2) % 3];
      const goesOn = [other.irecv(beside, before), other.isend(from, next)];
      const stops = [comm.irecv(into, before), comm.isend(from, next), comm.ibcast(from, round % 3)];
      if (rank === round % 3) {
        spin(round);
        comm.revoke();
      }
      const ends = await Promise.allSettled(stops);
      for (const end of ends) if (end.status === 'rejected') revokedBy(round % 3)(end.reason);
      const mark = 77;
      if (ends[0].status === 'rejected') into.fill(mark);
      for (const request of goesOn) await request;
      assert(beside.every((value) => value === round + 1));
      together();
      if (ends[0].status === 'rejected') {
        assert(
          into.every((value) => value === mark),
          'written after the request had failed',
        );
      }
      await comm.close();
      await other.close();
    }
  },

  /** The signal of rank 1 fires: its requests say so, those of the others that it has revoked. */
  async signals() {
    for (const size of [8, LARGE]) {
      const comm = await world.dup();
      const { signal, abort } = withAbort();
      const [next, before] = [(rank + 1) % 3, (rank + 2) % 3];
      const options = rank === 1 ? { signal } : {};
      // They need rank 2, or rank 2 itself, which has not made these calls.
      const requests = [
        comm.irecv(new Uint8Array(size), before, 2, options),
        comm.isendrecv(new Uint8Array(LARGE), next, new Uint8Array(8), before, 3, 4, options),
        ...(rank === 2 ? [] : [comm.ibarrier(options), comm.ibcast(new Uint8Array(size), 2, options)]),
      ];
      if (rank === 1) {
        assert.equal(getEventListeners(signal, 'abort').length, 1);
        setTimeout(abort, 5);
      }
      for (const request of requests) {
        const error = await request.then(
          () => assert.fail(),
          (thrown: unknown) => thrown,
        );
        if (rank !== 1) revokedBy(1)(error);
        else abortedBy(signal)(error);
      }
      assert.equal(getEventListeners(signal, 'abort').length, 0);
      together();
      await comm.close();
    }
  },

  /** A signal that has fired before the call: nothing is sent, and nothing else happens. */
  async firedBefore() {
    const comm = await world.dup();
    const { signal, abort } = withAbort();
    const receives = comm.recvInit(new Uint8Array(8), (rank + 1) % 3, 3);
    abort();
    const aborted = abortedBy(signal);
    const small = new Uint8Array(8);
    for (const request of [
      comm.isend(small, 0, 1, { signal }),
      comm.irecv(small, 0, 1, { signal }),
      comm.ibcast(small, 0, { signal, algorithm: 'binomial' }),
      comm.ialltoallw([null, null, null], [null, null, null], { signal }),
      comm.iallgatherv(small, new Uint8Array(24), [8, 8, 8], null, { signal }),
    ]) {
      assert.throws(() => request.wait(), aborted);
      await assert.rejects(async () => await request, aborted);
    }
    receives.start({ signal });
    assert.throws(() => receives.wait(), aborted);
    assert.equal(getEventListeners(signal, 'abort').length, 0);
    // All ranks are in step.
    comm.ibarrier().wait();
    const message = comm.isend(small.fill(5), (rank + 2) % 3, 3);
    receives.start({ signal: new AbortController().signal });
    receives.wait();
    message.wait();
    receives.free();
    for (const signal of [null, 1, {}, new EventTarget()] as unknown as AbortSignal[]) {
      const refused = (error: unknown): boolean => error instanceof ArgumentError && error.argument === 'signal';
      assert.throws(() => comm.irecv(small, 0, 1, { signal }), refused);
      assert.throws(() => comm.ibarrier({ signal }), refused);
    }
    const unused = new AbortController();
    assert.throws(() => comm.bcastInit(small, 0, { signal: unused.signal }), ArgumentError);
    await comm.close();
  },

  /** Thousands of operations with one signal: their listener goes, and to fire it then does nothing. */
  async manyWithOneSignal() {
    const { signal, abort } = withAbort();
    const warnings: Error[] = [];
    process.on('warning', (warning) => warnings.push(warning));
    for (let round = 0; round < 20; round++) {
      const requests = Array.from({ length: 50 }, () => world.ibarrier({ signal }));
      assert(getEventListeners(signal, 'abort').length <= 1);
      for (const request of requests) await request;
      assert.equal(getEventListeners(signal, 'abort').length, 0);
      const dropped = world.iallreduce(new Float64Array(8), new Float64Array(8), SUM, { signal });
      while (getEventListeners(signal, 'abort').length > 0) await new Promise((resolve) => setImmediate(resolve));
      assert(dropped.done);
    }
    abort();
    assert.deepEqual(warnings, []);
    together();
  },

  async atOnce() {
    const comm = await world.dup();
    const request = comm.irecv(new Uint8Array(8), (rank + 1) % 3);
    together();
    comm.revoke();
    comm.revoke();
    assert.throws(() => request.wait(), revokedBy(0, 1, 2));
    together();
    await comm.close();
    assert.throws(() => comm.revoke(), { code: 'ERR_NBC_CLOSED' });
  },

  /** Calls that differ leave the messages of a communicator alone; to revoke it ends them, too. */
  async afterMismatch() {
    const comm = await world.dup();
    const message = comm.irecv(new Uint8Array(8), (rank + 1) % 3);
    assert.throws(() => start(comm, rank === 0 ? 4 : 5).wait(), MismatchError);
    together();
    assert.equal(message.test(), false);
    together();
    if (rank === 2) comm.revoke();
    fails(message, 2);
    fails(comm.ibarrier(), 2);
    together();
    await comm.close();
  },
};

await play(scenarios);
await world.close();
report('ended');
