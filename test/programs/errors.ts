/** Mistakes: wrong arguments, and ranks that disagree. Two ranks, three, or eight. */
import assert from 'node:assert/strict';
import { constants } from 'node:buffer';
import {
  AbandonedError,
  alloc,
  bfloat16,
  float16,
  ArgumentError,
  BAND,
  type Communicator,
  IN_PLACE,
  init,
  MINLOC,
  MismatchError,
  NbcError,
  type Request,
  startall,
  strided,
  SUM,
  testAll,
  TruncatedError,
  waitAll,
  waitAny,
} from 'node-nbc';
import { bcastBinomial, gatherBinomial, OPERATIONS } from 'node-nbc/schedules';
import { arrange, ORACLES, withOperator } from '../oracle.js';
import { play, report } from './scenario.js';

/** Newer than the library of types that the compiler is told to use. */
type Resizable<T> = new (bytes: number, options: { maxByteLength: number }) => T;
const ResizableArrayBuffer = ArrayBuffer as unknown as Resizable<ArrayBuffer>;
const GrowableSharedArrayBuffer = SharedArrayBuffer as unknown as Resizable<SharedArrayBuffer>;

await play({ arguments: wrongArguments, sizes, sizesOfCollectives, eagerLimits, fields, lateBlock, failingTree });

/** Calls and the argument that their error must name. All fail on one rank alone: nothing may reach the other one. */
async function wrongArguments(): Promise<void> {
  const world = await init();
  const { rank } = world;
  const peer = 1 - rank;
  const eight = new Uint8Array(8);
  const sixteen = new Uint8Array(16);
  const options = (algorithm: unknown): { algorithm: never } => ({ algorithm: algorithm as never });
  const any = (value: unknown): never => value as never;
  // Both are there, so that nothing connects later.
  waitAll([world.irecv(new Uint8Array(1), peer, 98), world.isend(new Uint8Array(1), peer, 98)]);
  // Its message comes at the very end, when both ranks have made all their mistakes.
  const pending = world.irecv(new Uint8Array(4), peer, 99);

  const detached = new Uint8Array(8);
  const detachedDataView = new DataView(new ArrayBuffer(8));
  structuredClone(null, { transfer: [detached.buffer, detachedDataView.buffer] });
  const resizable = new ResizableArrayBuffer(8, { maxByteLength: 16 });
  const growable = new GrowableSharedArrayBuffer(8, { maxByteLength: 16 });
  const notViews: unknown[] = [
    undefined,
    null,
    8,
    'buffer',
    [1, 2, 3],
    {},
    { byteLength: 8 },
    new ArrayBuffer(8),
    new SharedArrayBuffer(8),
    () => 8,
    detached,
    detachedDataView,
    new Uint8Array(resizable),
    new DataView(resizable),
    new Uint8Array(growable),
  ];
  const notRanks: unknown[] = [-1, 2, 0.5, NaN, Infinity, '0', undefined, null, [0], 2 ** 32, -(2 ** 32)];

  const calls: WrongCall[] = [];
  for (const value of [...notViews, IN_PLACE]) {
    calls.push(['buffer', () => world.ibcast(any(value), 0)]);
    calls.push(['buffer', () => world.isend(any(value), peer)]);
    calls.push(['buffer', () => world.irecv(any(value), peer)]);
    calls.push(['recv', () => world.ialltoall(eight, any(value))]);
    calls.push(['recv', () => world.ialltoall(IN_PLACE, any(value))]);
    calls.push(['recv', () => world.igather(eight, any(value), rank)]);
    calls.push(['recv', () => world.igather(IN_PLACE, any(value), rank)]);
  }
  for (const value of notViews) {
    calls.push(['send', () => world.ialltoall(any(value), eight)]);
    calls.push(['send', () => world.igather(any(value), sixteen, rank)]);
    calls.push(['send', () => world.igather(any(value), null, peer)]);
  }
  for (const value of notRanks) {
    calls.push(['root', () => world.ibcast(eight, any(value))]);
    calls.push(['root', () => world.igather(eight, sixteen, any(value))]);
    calls.push(['root', () => world.igather(IN_PLACE, sixteen, any(value))]);
    calls.push(['dest', () => world.isend(eight, any(value))]);
    calls.push(['source', () => world.irecv(eight, any(value))]);
  }
  for (const value of ['quick', 'bruck', '', 1, null, {}]) {
    calls.push(['algorithm', () => world.ibcast(eight, 0, options(value))]);
  }
  for (const value of ['chain', 1]) {
    calls.push(['algorithm', () => world.igather(eight, sixteen, rank, options(value))]);
    calls.push(['algorithm', () => world.ialltoall(eight, new Uint8Array(8), options(value))]);
  }
  for (const value of [-1, 32_768, 1.5, NaN, '1', null]) {
    calls.push(['tag', () => world.isend(eight, peer, any(value))]);
    calls.push(['tag', () => world.irecv(eight, peer, any(value))]);
  }
  calls.push(
    ['recv', () => world.igather(eight, eight, rank)],
    ['recv', () => world.igather(eight, new Uint8Array(24), rank)],
    ['recv', () => world.igather(eight, new Uint8Array(0), rank)],
    ['recv', () => world.igather(sixteen.subarray(8), sixteen, rank)],
    ['recv', () => world.igather(IN_PLACE, new Uint8Array(7), rank)],
    ['send', () => world.igather(IN_PLACE, sixteen, peer)],
    ['recv', () => world.ialltoall(eight, sixteen)],
    ['recv', () => world.ialltoall(new Uint8Array(7), new Uint8Array(7))],
    ['recv', () => world.ialltoall(IN_PLACE, new Uint8Array(7))],
    ['recv', () => world.ialltoall(eight, eight)],
    ['recv', () => world.ialltoall(sixteen.subarray(0, 8), sixteen.subarray(7, 15))],
  );
  // Blocks that split elements, and elements of another type, where this rank sees both.
  const three = (): Float64Array => new Float64Array(3);
  calls.push(
    ['recv', () => world.ialltoall(three(), three())],
    ['recv', () => world.ialltoall(new Uint8Array(24), three())],
    ['send', () => world.ialltoall(three(), new Uint8Array(24))],
    ['recv', () => world.ialltoall(IN_PLACE, three())],
    ['recv', () => world.ialltoall(new Float32Array(4), new Float64Array(2))],
    ['recv', () => world.ialltoall(new Int32Array(4), new Float32Array(4))],
    ['recv', () => world.igather(new Float32Array(4), new Float64Array(4), rank)],
    ['recv', () => world.igather(new Float32Array(3), three(), rank)],
    ['recv', () => world.igather(new Uint8Array(12), three(), rank)],
    ['recv', () => world.igather(new DataView(new ArrayBuffer(12)), three(), rank)],
    ['recv', () => world.igather(IN_PLACE, three(), rank)],
    ['recv', () => world.igatherv(new Float32Array(2), three(), [1, 1], null, rank)],
    ['op', () => world.iallreduce(three(), three(), BAND)],
    ['op', () => world.iallreduce(three(), three(), MINLOC)],
    ['recv', () => world.iallreduce(three(), new Float64Array(2), SUM)],
    ['recv', () => world.iallreduce(new Uint8Array(24), three(), SUM)],
    ['recv', () => world.ireduce(new Float32Array(3), three(), SUM, rank)],
    ['send', () => world.ireduce(IN_PLACE, three(), SUM, peer)],
    ['recv', () => world.ireduceScatterBlock(IN_PLACE, three(), SUM)],
    ['recv', () => world.iallgather(new Float32Array(2), new Float64Array(2))],
    ['recv', () => world.iallgather(IN_PLACE, three())],
    ['recv', () => world.iallgatherv(new Int32Array(2), new Float64Array(2), [1, 1], null)],
    ['recv', () => world.iscatter(new Float64Array(4), new Int32Array(4), rank)],
    ['send', () => world.iscatter(three(), new Uint8Array(12), rank)],
    ['send', () => world.iscatter(three(), IN_PLACE, rank)],
    ['recv', () => world.iscatter(null, IN_PLACE, peer)],
    ['recv', () => world.iscatterv(null, null, null, IN_PLACE, peer)],
    ['recv', () => world.iscatterv(new Float64Array(4), [2, 2], null, new Uint8Array(8), rank)],
    ['send', () => world.iallgatherv(new Float64Array(2), new Float64Array(2), [1, 1], null)],
    ['recvCounts', () => world.ialltoallv(sixteen, [8, 8], null, new Uint8Array(16), [4, 4], null)],
    ['recvDispls', () => world.ialltoallv(sixteen, [8, 8], null, new Uint8Array(16), [8, 8], [0, 4])],
    ['recvDispls', () => world.ialltoallv(IN_PLACE, null, null, new Uint8Array(16), [8, 8], [0, 4])],
    ['recv', () => world.ialltoallv(new Int32Array(2), [1, 1], null, new Float32Array(2), [1, 1], null)],
  );
  for (const value of [-1, NaN, '5', {}]) {
    calls.push(['timeoutMs', () => pending.wait(any(value))]);
    calls.push(['timeoutMs', () => waitAll([pending, pending], any(value))]);
    calls.push(['timeoutMs', () => waitAny([pending], any(value))]);
  }
  calls.push(
    ['requests', () => waitAny([])],
    ['requests', () => waitAny(any(5))],
    ['requests', () => waitAll(any(pending))],
    ['requests', () => testAll(any(undefined))],
    ['requests', () => startall(any('x'))],
    ['requests[1]', () => waitAll([pending, any({})])],
    ['requests[0]', () => testAll([any(null)])],
    ['microseconds', () => startall([pending], -1)],
    ['microseconds', () => startall([pending], NaN)],
    ['constructor', () => alloc(any(Array), 1)],
    ['constructor', () => alloc(any(ArrayBuffer), 1)],
    ['constructor', () => alloc(any('Uint8Array'), 1)],
    ['constructor', () => alloc(any(undefined), 1)],
    ['length', () => alloc(Uint8Array, -1)],
    ['length', () => alloc(Uint8Array, any(Symbol('length')))],
    ['length', () => alloc(Uint8Array, any(Object.create(null)))],
    ['microseconds', () => startall([], any(Object.create(null)))],
    ['bits', () => bfloat16(any(undefined))],
    ['bits', () => float16(any(Object.create(Uint16Array.prototype)))],
    ['one', () => world.utilization(any(null))],
    ['two', () => world.utilization({ idle: 0, active: 0, utilization: 0 }, any(1))],
    ['length', () => alloc(Uint8Array, 1.5)],
    ['length', () => alloc(Uint8Array, any('8'))],
    ['length', () => alloc(Float64Array, 2 ** 53)],
  );

  for (const value of [...notViews, IN_PLACE]) {
    calls.push(['send', () => world.isendrecv(any(value), peer, eight, peer)]);
    calls.push(['recv', () => world.isendrecv(eight, peer, any(value), peer)]);
  }
  for (const value of notRanks) {
    if (value === null || value === undefined) continue;
    calls.push(['dest', () => world.isendrecv(eight, any(value), sixteen, peer)]);
    calls.push(['source', () => world.isendrecv(eight, peer, sixteen, any(value))]);
  }
  const overlapping = strided(eight, { shape: [4, 4], strides: [1, 1] });
  const detachedLayout = strided(new Uint8Array(8), { shape: [2], strides: [3] });
  structuredClone(null, { transfer: [detachedLayout.view.buffer as ArrayBuffer] });
  const everySecond = strided(sixteen, { shape: [8], strides: [2] });
  calls.push(
    ['sendTag', () => world.isendrecv(eight, peer, sixteen, peer, -1)],
    ['recvTag', () => world.isendrecv(eight, peer, sixteen, peer, 0, 32_768)],
    ['recv', () => world.isendrecv(eight, peer, eight, peer)],
    ['recv', () => world.isendrecv(sixteen.subarray(8), peer, sixteen, peer)],
    ['recv', () => world.isendrecv(everySecond, peer, sixteen.subarray(1, 9), peer)],
    ['buffer', () => world.irecv(overlapping, peer)],
    ['recv', () => world.isendrecv(sixteen, peer, overlapping, peer)],
    ['recv', () => world.ialltoall(sixteen, overlapping)],
    ['buffer', () => world.ibcast(strided(eight, { shape: [2], strides: [0] }), 0)],
    ['buffer', () => world.isend(detachedLayout, peer)],
    ['buffer', () => world.ibcast(detachedLayout, 0)],
    ['send', () => world.ialltoall(detachedLayout, eight)],
    ['recv', () => world.ialltoall(everySecond, eight.subarray(2))],
    ['recv', () => world.ialltoall(strided(new Float64Array(9), { shape: [3], strides: [2] }), new Float64Array(3))],
    ['recv', () => world.ialltoall(everySecond, sixteen.subarray(3, 11))],
    ['recv', () => world.iallgather(strided(new Int32Array(8), { shape: [2], strides: [4] }), new Float32Array(4))],
  );

  calls.push(...wrongArgumentsOfAll(world, notViews, notRanks));

  /** A shape that was used last takes a shorter way through the checks: all mistakes are made on both. */
  const warm = (): void => {
    world.ibcast(eight, 0).wait();
    world.igather(eight, rank === 0 ? sixteen : null, 0).wait();
    world.igather(eight, rank === 1 ? sixteen : null, 1).wait();
    world.ialltoall(eight, new Uint8Array(8)).wait();
    // Shapes whose byte counts the mistakes above have.
    world.ialltoall(new Uint8Array(24), new Uint8Array(24)).wait();
    world.igather(new Uint8Array(12), rank === 0 ? new Uint8Array(24) : null, 0).wait();
    world.igather(new Uint8Array(12), rank === 1 ? new Uint8Array(24) : null, 1).wait();
  };
  const traffic = (): unknown => {
    const { started, rounds, eagerSent, rtrSent, dataSent, connections, allocatedBytes } = world.stats();
    return { started, rounds, eagerSent, rtrSent, dataSent, connections, allocatedBytes };
  };
  for (const warmed of [false, true]) {
    if (warmed) warm();
    const before = traffic();
    for (const [argument, call, operation] of calls) {
      assert.throws(
        call,
        (error: unknown) => {
          assert(error instanceof ArgumentError, `${String(call)} throws ${String(error)}`);
          assert.equal(error.argument, argument, `${String(call)} blames ${error.argument}: ${error.message}`);
          assert.equal(error.code, 'ERR_NBC_ARGUMENT');
          assert(error.message.startsWith(`${argument}: `), error.message);
          if (operation !== undefined) assert.equal(error.operation, operation, error.message);
          return true;
        },
        `${String(call)} must throw`,
      );
    }
    assert.deepEqual(traffic(), before, 'nothing was sent');
  }
  for (const value of [-1, 1.5, 2 ** 31, 'a', null, NaN]) {
    await assert.rejects(world.split(any(value)), { name: 'ArgumentError', argument: 'color' });
  }
  for (const value of [1.5, 2 ** 31, -(2 ** 31) - 1, 'a', NaN]) {
    await assert.rejects(world.split(0, any(value)), { name: 'ArgumentError', argument: 'key' });
  }
  for (const bytes of [constants.MAX_LENGTH + 1, 2 ** 52])
    assert.throws(() => alloc(Uint8Array, bytes), { name: 'ExhaustedError', code: 'ERR_NBC_NO_MEMORY' });

  // All is as before.
  assert.equal(pending.done, false);
  warm();
  world.isend(Uint8Array.of(1, 2, 3, 4), peer, 99).wait();
  pending.wait();
  warm();
  await (await world.dup()).ibcast(eight, 1);
  await world.close();
  report(calls.length);
}

/** The argument and, where it is given, the method that the error names. */
type WrongCall = [argument: string, call: () => unknown, operation?: string];

/** For each operation and its persistent form, arguments that would be right, with one of them replaced. */
function wrongArgumentsOfAll(
  world: Communicator,
  notViews: readonly unknown[],
  notRanks: readonly unknown[],
): WrongCall[] {
  const { rank, size } = world;
  const calls: WrongCall[] = [];
  const methods = world as unknown as Record<string, (...given: unknown[]) => unknown>;
  for (const { name, parameters } of OPERATIONS) {
    const right = withOperator({ size, root: rank, count: 8, inPlace: false, gaps: false }, 0);
    const { args } = arrange(ORACLES[name], right, rank, (bytes) => new Uint8Array(bytes));
    for (const form of [name, `${name.slice(1)}Init`]) {
      const call = (...given: unknown[]): unknown => methods[form](...given);
      for (const [index, parameter] of parameters.entries()) {
        for (const value of wrongValuesOf(parameter, notViews, notRanks)) {
          calls.push([parameter, () => call(...args.toSpliced(index, 1, value)), form]);
        }
      }
      for (const algorithm of ['quick', '', 1, null, {}]) {
        calls.push(['algorithm', () => call(...args, { algorithm }), form]);
      }
    }
  }
  return calls;
}

/** What an argument of this name cannot be, on two ranks. */
function wrongValuesOf(parameter: string, notViews: readonly unknown[], notRanks: readonly unknown[]) {
  const notCounts = [5, 'all', [1], [1, 1, 1], [-1, 1], [1, 0.5], [1, '1'], [1, 2 ** 40]];
  if (parameter === 'root') return notRanks;
  if (parameter === 'op') return ['SUM', 0, null, undefined, {}, () => 0];
  if (/counts$/i.test(parameter)) return [undefined, ...notCounts];
  return /displs$/i.test(parameter) ? notCounts : notViews;
}

/** Which sizes the ranks have, by rank. */
type Pair = [zero: number, one: number];

/** The ranks begin at opposite ends, so that each is the first one for half of the pairs. */
function eachPair(rank: number, start: (pair: Pair, index: number) => void): void {
  const pairs = [...(JSON.parse(process.env['TEST_PAIRS'] ?? '') as Pair[]).entries()];
  if (rank === 1) pairs.reverse();
  for (const [index, pair] of pairs) start(pair, index);
}

/** Messages whose sender (rank 0) and receiver have different sizes. Reports what became of each on this rank. */
async function sizes(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const buffers: Uint8Array[] = [];
  const requests: Request[] = [];
  eachPair(rank, (pair, tag) => {
    buffers[tag] = new Uint8Array(pair[rank]).fill(9);
    requests[tag] = rank === 0 ? world.isend(buffers[tag], 1, tag) : world.irecv(buffers[tag], 0, tag);
  });
  report(requests.map((request, tag) => `${outcomeOf(`message ${tag}`, () => request)} ${request.bytes}`));
  for (const buffer of buffers) {
    assert(
      buffer.every((byte) => byte === 9),
      'no byte is written of a message that does not fit',
    );
  }
  // Nothing is left over that the next messages could meet.
  const peer = 1 - rank;
  const [out, back] = [new Uint8Array(1000).fill(3), new Uint8Array(1000)];
  for (let tag = 0; tag < buffers.length; tag++) {
    back.fill(0);
    waitAll([world.irecv(back, peer, tag), world.isend(out, peer, tag)]);
    assert.deepEqual(back, out);
  }
  await world.close();
}

function outcomeOf(what: string, call: () => Request): string {
  const request = call();
  try {
    request.wait();
    return 'fulfilled';
  } catch (error) {
    assert(error instanceof NbcError, String(error));
    assert.equal(request.done, true);
    assert.throws(() => request.test(), { code: error.code });
    return `${error.name}: ${error.message}`;
  }
}

/** Collectives in which rank 1 has other sizes than rank 0. */
async function sizesOfCollectives(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  // A communicator each: ranks that disagree are out of step there.
  const communicators: Communicator[][] = [];
  for (let index = 0; index < (JSON.parse(process.env['TEST_PAIRS'] ?? '') as Pair[]).length; index++) {
    communicators.push([await world.dup(), await world.dup(), await world.dup()]);
  }
  const requests: Record<string, Request[]> = { ibcast: [], igather: [], ialltoall: [] };
  eachPair(rank, (pair, index) => {
    const bytes = pair[rank];
    const [a, b, c] = communicators[index];
    const all = new Uint8Array(2 * bytes);
    requests['ibcast'][index] = a.ibcast(new Uint8Array(bytes), 0);
    requests['igather'][index] = b.igather(new Uint8Array(bytes), rank === 0 ? all : null, 0);
    requests['ialltoall'][index] = c.ialltoall(new Uint8Array(2 * bytes), all);
  });
  const outcomes: Record<string, string[]> = {};
  for (const [name, list] of Object.entries(requests)) {
    outcomes[name] = list.map((request, index) => outcomeOf(`${name} of pair ${index}`, () => request));
  }
  await world.ibcast(new Uint8Array(1), 0);
  await world.ibcast(new Uint8Array(1), 1);
  const ended = Object.values(outcomes)
    .flat()
    .filter((outcome) => outcome.startsWith('fulfilled')).length;
  // A rank whose calls were complete before anybody could know hears of it now.
  if (ended === 0) await world.close();
  else await assert.rejects(world.close(), MismatchError);
  report(outcomes);
}

/** What an error of a request has as properties. */
async function fields(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const [[zero, one]] = JSON.parse(process.env['TEST_PAIRS'] ?? '') as Pair[];
  const request = rank === 0 ? world.isend(new Uint8Array(zero), 1) : world.irecv(new Uint8Array(one), 0);
  assert.throws(
    () => request.wait(),
    (error: unknown) => {
      assert(error instanceof TruncatedError, String(error));
      const { name, rank: own, peer: other, bytesHere, bytesThere } = error;
      report({ name, rank: own, peer: other, bytesHere, bytesThere });
      return true;
    },
  );
  await world.close();
}

/** Ranks whose eager limits differ: told by the environment. */
async function eagerLimits(): Promise<void> {
  const world = await init();
  const peer = 1 - world.rank;
  const outcomes = [
    outcomeOf('irecv', () => world.irecv(new Uint8Array(8), peer, 1)),
    outcomeOf('isend', () => world.isend(new Uint8Array(8), peer, 1)),
    outcomeOf('ialltoall', () => world.ialltoall(new Uint8Array(100_000), new Uint8Array(100_000))),
    await world.dup().then(
      () => 'fulfilled',
      (error: unknown) => `${(error as Error).name}: ${(error as Error).message}`,
    ),
  ];
  // Ends when both have seen it: the end of one would be another error.
  process.once('SIGUSR2', () => void world.close().then(() => process.exit(0)));
  setInterval(() => {}, 1000);
  report(outcomes);
}

/**
 * Three ranks. Rank 2 sends a block of a wrong size at once, rank 1 its block only after rank 0 has its error and uses
 * the buffer again: nothing of that block may arrive there.
 */
async function lateBlock(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const signal = new Uint8Array(1);
  for (const bytes of [8, 5000, 1 << 20]) {
    const counts = [bytes, bytes, bytes];
    const send = new Uint8Array(rank === 2 ? bytes / 2 : bytes).fill(rank + 1);
    const recv = new Uint8Array(3 * bytes);
    const gather = (): Promise<string> =>
      Promise.resolve(world.igatherv(send, rank === 0 ? recv : null, counts, null, 0)).then(
        () => 'fulfilled',
        (error: unknown) => (error as NbcError).code,
      );
    if (rank === 0) {
      const gathered = world.igatherv(send, recv, counts, null, 0);
      assert.throws(() => gathered.wait(), { code: 'ERR_NBC_TRUNCATED' });
      recv.fill(99);
      await world.isend(signal, 1, 7);
      await world.irecv(signal, 1, 8);
    } else if (rank === 1) {
      await world.irecv(signal, 0, 7);
      // A block that has left before its sender hears that nobody wants it is dropped.
      assert.match(await gather(), /^(ERR_NBC_ABANDONED|fulfilled)$/);
      await world.isend(signal, 0, 8);
    } else {
      await gather();
    }
    await world.ibcast(new Uint8Array(bytes), 0);
    if (rank === 0) assert(recv.every((byte) => byte === 99));
  }
  await world.close();
  report('done');
}

/**
 * Eight ranks. Rank 4 gives another size than the others to operations on a binomial tree. Nobody closes: all have met
 * again before a rank says what it got, and the world is good for the next operation.
 */
async function failingTree(): Promise<void> {
  const world = await init({ eagerLimit: 255 });
  const { rank } = world;
  const outcome = (request: Request): string => {
    try {
      request.wait();
      return 'fulfilled';
    } catch (error) {
      assert(error instanceof NbcError, `rank ${rank}: ${String(error)}`);
      if (!(error instanceof AbandonedError)) return error.name;
      assert.match(error.message, new RegExp(`rank ${error.origin} of the world \\(${error.reason}\\)`));
      return `${error.name} ${error.origin} ${error.reason}`;
    }
  };
  const outcomes: string[] = [];
  for (const bytes of [8, 5000, 1 << 20]) {
    const wrong = rank === 4 ? bytes / 2 : bytes;
    // Schedules of our own, since sizes of a collective are compared before they meet.
    const shape = { rank, size: world.size, root: 0, bytes: wrong, inPlace: false };
    outcomes.push(outcome(world.start(bcastBinomial(shape), null, new Uint8Array(wrong))));
    world.ibarrier().wait();
    const all = rank === 0 ? new Uint8Array(8 * bytes) : null;
    outcomes.push(outcome(world.start(gatherBinomial(shape), new Uint8Array(wrong), all)));
    world.ibarrier().wait();
  }
  report(outcomes);
  await world.close();
}
