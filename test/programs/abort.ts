/** Communicators that are revoked. Three ranks: one waits, one awaits, one computes. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import {
  AbortError,
  ArgumentError,
  CartCommunicator,
  type Communicator,
  init,
  MismatchError,
  type Request,
  RevokedError,
  startAll,
  SUM,
} from 'node-nbc';
import { play, report } from './scenario.js';

/** Nothing may hang; this is what a very busy machine may need. */
const LIMIT_MS = Number(process.env['NBC_TEST_LIMIT_MS'] ?? 20_000);
/** Over an emulated device (scripts/rdma-guest) 6 MiB are on their way for longer than 24 MiB elsewhere. */
const LARGE = (process.env['NBC_TRANSPORT'] === 'verbs' ? 6 : 24) << 20;

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
    assert.match(error.message, /^(values\.)?\w+: rank \d of the world has revoked the communicator/);
    assert(error.message.startsWith(`${error.operation!}: `), error.message);
    return true;
  };
}

function withAbort(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(new Error('no longer wanted')) };
}

function abortedBy(signal: AbortSignal, operation?: string) {
  return (error: unknown): boolean => {
    assert(error instanceof AbortError, String(error));
    assert.deepEqual([error.name, error.code, error.cause], ['AbortError', 'ERR_NBC_ABORTED', signal.reason]);
    if (operation !== undefined) assert.equal(error.operation, operation);
    assert.match(error.message, /^(values\.)?\w+ was aborted by its signal: no longer wanted$/);
    return true;
  };
}

const refusesSignal = (error: unknown): boolean => error instanceof ArgumentError && error.argument === 'signal';

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

interface Signalled {
  signal: AbortSignal;
}

/** Every call that gives a promise, as rank 1 makes it where ranks 0 and 2 do not; it works on what `on` makes. */
interface PromiseCall {
  name: string;
  on: () => Promise<Communicator>;
  /** It revokes that communicator when its signal fires. */
  revokes: boolean;
  call: (comm: Communicator, options: Signalled) => Promise<unknown>;
}

const onDup = (): Promise<Communicator> => world.dup();
const onCart = async (): Promise<Communicator> => (await world.cart({ dims: [3] }))!;
const onGraph = (): Promise<Communicator> => world.distGraph({ sources: [], destinations: [] });
const first = (a: unknown): unknown => a;

const PROMISE_CALLS: readonly PromiseCall[] = [
  ...Object.entries<(values: Communicator['values'], options: Signalled) => Promise<unknown>>({
    bcast: (values, options) => values.bcast(null, 2, options),
    gather: (values, options) => values.gather(1, 1, options),
    scatter: (values, options) => values.scatter(null, 2, options),
    allgather: (values, options) => values.allgather(1, options),
    alltoall: (values, options) => values.alltoall([1, 2, 3], options),
    reduce: (values, options) => values.reduce<unknown>(1, first, 1, options),
    allreduce: (values, options) => values.allreduce<unknown>(1, first, options),
    send: (values, options) => values.send(new Uint8Array(LARGE), 2, 5, options),
    recv: (values, options) => values.recv(2, 5, options),
  }).map(([name, call]) => ({
    name: `values.${name}`,
    on: onDup,
    revokes: true,
    call: (comm: Communicator, options: Signalled) => call(comm.values, options),
  })),
  { name: 'dup', on: onDup, revokes: true, call: (comm, options) => comm.dup(options) },
  { name: 'dup', on: onCart, revokes: true, call: (comm, options) => comm.dup(options) },
  { name: 'dup', on: onGraph, revokes: true, call: (comm, options) => comm.dup(options) },
  { name: 'split', on: onDup, revokes: true, call: (comm, options) => comm.split(0, 0, options) },
  { name: 'cart', on: onDup, revokes: true, call: (comm, options) => comm.cart({ dims: [3], ...options }) },
  {
    name: 'distGraph',
    on: onDup,
    revokes: true,
    call: (comm, options) => comm.distGraph({ sources: [], destinations: [], ...options }),
  },
  {
    name: 'sub',
    on: onCart,
    revokes: true,
    call: async (comm, options) => {
      assert(comm instanceof CartCommunicator);
      return comm.sub([true], options);
    },
  },
  { name: 'agree', on: onDup, revokes: false, call: (comm, options) => comm.agree(1, options) },
  { name: 'shrink', on: onDup, revokes: false, call: (comm, options) => comm.shrink(options) },
];

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
    // Their errors name them, and not what they have started for their own needs.
    for (const [operation, call] of Object.entries<() => Promise<unknown>>({
      'values.allgather': () => comm.values.allgather(rank),
      'values.recv': () => comm.values.recv(1),
      split: () => comm.split(0),
    })) {
      const named = (error: unknown): boolean => error instanceof RevokedError && error.operation === operation;
      await assert.rejects(call(), (error: unknown) => revokedBy(1)(error) && named(error));
    }
    await assert.rejects(comm.dup(), RevokedError);
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
      assert.throws(() => comm.irecv(small, 0, 1, { signal }), refusesSignal);
      assert.throws(() => comm.ibarrier({ signal }), refusesSignal);
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

  /** Calls that give promises, whose signal has fired before: nothing is sent, and the ranks are in step. */
  async promisesFiredBefore() {
    const { signal, abort } = withAbort();
    abort();
    for (const { name, on, call } of PROMISE_CALLS) {
      const comm = await on();
      await assert.rejects(call(comm, { signal }), abortedBy(signal, name));
      for (const signal of [null, 1, {}] as unknown as AbortSignal[]) {
        await assert.rejects(call(comm, { signal }), refusesSignal);
      }
      comm.ibarrier().wait();
      assert.deepEqual(await comm.values.allgather(rank), [0, 1, 2]);
      assert.deepEqual(await comm.agree(1), { value: 1, lost: [] });
      await (await comm.dup()).close();
      await comm.close();
      await assert.rejects(async () => call(comm, { signal }), { code: 'ERR_NBC_CLOSED' });
    }
    assert.equal(listenersOf(signal), 0);
  },

  /** The same where it fires later, on rank 1: the others, which have not made the call, learn it. */
  async promisesFiredLater() {
    for (const { name, on, revokes, call } of PROMISE_CALLS) {
      const comm = await on();
      const { signal, abort } = withAbort();
      if (rank === 1) {
        // The second one waits for the first.
        const calls = [call(comm, { signal }), call(comm, { signal })];
        assert.equal(listenersOf(signal), 1);
        setTimeout(abort, 5);
        for (const each of calls) await assert.rejects(each, abortedBy(signal, name));
        assert.equal(listenersOf(signal), 0);
      }
      if (revokes) fails(comm.irecv(new Uint8Array(8), (rank + 1) % 3), 1);
      else comm.ibarrier().wait();
      together();
      await comm.close();
    }
  },

  /** A signal that fires when its call has ended does nothing, however many calls there were. */
  async promisesEnded() {
    const comm = await world.dup();
    const { signal, abort } = withAbort();
    const calls = Array.from({ length: 20 }, () => comm.values.allgather(rank, { signal }));
    assert.equal(listenersOf(signal), 1);
    await Promise.all(calls);
    const made = await comm.dup({ signal });
    await comm.agree(1, { signal });
    assert.equal(listenersOf(signal), 0);
    abort();
    for (const each of [comm, made]) {
      assert.deepEqual(await each.values.allgather(rank), [0, 1, 2]);
      await each.close();
    }
  },

  /** A rank that no longer waits for an agreement has called it all the same. */
  async agreementsLeft() {
    for (const revoked of [false, true]) {
      const comm = await world.dup();
      if (revoked) comm.revoke();
      const { signal, abort } = withAbort();
      if (rank === 1) {
        const calls = [comm.agree(~2, { signal }), comm.shrink({ signal })];
        setTimeout(abort, 5);
        const [agreed, shrunk] = await Promise.allSettled(calls);
        abortedBy(signal, 'agree')(agreed.status === 'rejected' && agreed.reason);
        abortedBy(signal, 'shrink')(shrunk.status === 'rejected' && shrunk.reason);
      }
      together();
      if (rank !== 1) {
        assert.deepEqual(await comm.agree(~4), { value: ~6, lost: [] });
        const left = await comm.shrink();
        assert.equal(left.size, 3);
        await assert.rejects(async () => await left.irecv(new Uint8Array(8), 1), revokedBy(1));
        await left.close();
      }
      assert.deepEqual(await comm.agree(1), { value: 1, lost: [] });
      if (!revoked) comm.ibarrier().wait();
      together();
      await comm.close();
    }
  },

  /** One signal for persistent requests that are started together. */
  async startsTogether() {
    const comm = await world.dup();
    const { signal, abort } = withAbort();
    const [next, before] = [(rank + 1) % 3, (rank + 2) % 3];
    const requests = [comm.recvInit(new Uint8Array(8), before, 3), comm.barrierInit()];
    startAll(requests, { signal: new AbortController().signal });
    comm.isend(new Uint8Array(8), next, 3).wait();
    for (const request of requests) request.wait();
    for (const signal of [null, 1, {}] as unknown as AbortSignal[]) {
      assert.throws(() => startAll(requests, { signal }), refusesSignal);
    }
    assert.throws(() => startAll([], { signal: 1 as unknown as AbortSignal }), refusesSignal);
    together();
    if (rank === 1) {
      startAll(requests, { signal });
      assert.equal(listenersOf(signal), 1);
      setTimeout(abort, 5);
      for (const request of requests) await assert.rejects(async () => await request, abortedBy(signal));
      assert.equal(listenersOf(signal), 0);
      startAll(requests, { signal });
      for (const request of requests) assert.throws(() => request.wait(), abortedBy(signal));
    } else {
      fails(comm.irecv(new Uint8Array(8), next), 1);
    }
    for (const request of requests) request.free();
    together();
    await comm.close();
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
