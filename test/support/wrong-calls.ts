/** Calls of a rank of two, each with one wrong argument. */
import {
  alloc,
  BAND,
  bfloat16,
  float16,
  IN_PLACE,
  MINLOC,
  SUM,
  startall,
  strided,
  testAll,
  waitAll,
  waitAny,
  type Communicator,
  type Request,
} from 'node-nbc';
import { OPERATIONS } from 'node-nbc/schedules';
import { arrange, ORACLES, withOperator } from '../oracle.js';

/** The argument and, where it is given, the method that the error names. */
export type WrongCall = [argument: string, call: () => unknown, operation?: string];

/** What the calls are made of. */
interface Given {
  world: Communicator;
  /** Of this rank, and of the other one. */
  rank: number;
  peer: number;
  /** Views of so many bytes. */
  eight: Uint8Array;
  sixteen: Uint8Array;
  /** Is not complete. */
  pending: Request;
  notViews: readonly unknown[];
  notRanks: readonly unknown[];
}

const any = (value: unknown): never => value as never;
const options = (algorithm: unknown): { algorithm: never } => ({ algorithm: algorithm as never });

/** @param pending a request that stays pending meanwhile */
export function wrongCalls(world: Communicator, pending: Request): WrongCall[] {
  const { rank } = world;
  const views = { eight: new Uint8Array(8), sixteen: new Uint8Array(16) };
  const given: Given = { world, rank, peer: 1 - rank, ...views, pending, notViews: notViews(), notRanks: NOT_RANKS };
  const tables = [
    wrongValues,
    wrongSizes,
    wrongBlocks,
    wrongRequests,
    wrongMessages,
    wrongLayouts,
    wrongArgumentsOfAll,
  ];
  return tables.flatMap((table) => table(given));
}

const NOT_RANKS: unknown[] = [-1, 2, 0.5, NaN, Infinity, '0', undefined, null, [0], 2 ** 32, -(2 ** 32)];

/** Newer than the library of types that the compiler is told to use. */
type Resizable<T> = new (bytes: number, options: { maxByteLength: number }) => T;
const ResizableArrayBuffer = ArrayBuffer as unknown as Resizable<ArrayBuffer>;
const GrowableSharedArrayBuffer = SharedArrayBuffer as unknown as Resizable<SharedArrayBuffer>;

function notViews(): unknown[] {
  const detached = new Uint8Array(8);
  const detachedDataView = new DataView(new ArrayBuffer(8));
  structuredClone(null, { transfer: [detached.buffer, detachedDataView.buffer] });
  const resizable = new ResizableArrayBuffer(8, { maxByteLength: 16 });
  const growable = new GrowableSharedArrayBuffer(8, { maxByteLength: 16 });
  return [
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
}

/** What is no view, no rank, no algorithm and no tag. */
function wrongValues({ world, rank, peer, eight, sixteen, notViews, notRanks }: Given): WrongCall[] {
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
  return calls;
}

/** Buffers of other sizes than the call needs, and such that overlap. */
function wrongSizes({ world, rank, peer, eight, sixteen }: Given): WrongCall[] {
  const calls: WrongCall[] = [];
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
  return calls;
}

/** Blocks that split elements, and elements of another type, where this rank sees both. */
function wrongBlocks({ world, rank, peer, sixteen }: Given): WrongCall[] {
  const calls: WrongCall[] = [];
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
  return calls;
}

/** Arguments of what takes requests, and of what makes buffers. */
function wrongRequests({ world, pending }: Given): WrongCall[] {
  const calls: WrongCall[] = [];
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
  return calls;
}

/** Arguments of isendrecv(). */
function wrongMessages({ world, peer, eight, sixteen, notViews, notRanks }: Given): WrongCall[] {
  const calls: WrongCall[] = [];
  for (const value of [...notViews, IN_PLACE]) {
    calls.push(['send', () => world.isendrecv(any(value), peer, eight, peer)]);
    calls.push(['recv', () => world.isendrecv(eight, peer, any(value), peer)]);
  }
  for (const value of notRanks) {
    if (value === null || value === undefined) continue;
    calls.push(['dest', () => world.isendrecv(eight, any(value), sixteen, peer)]);
    calls.push(['source', () => world.isendrecv(eight, peer, sixteen, any(value))]);
  }
  calls.push(
    ['sendTag', () => world.isendrecv(eight, peer, sixteen, peer, -1)],
    ['recvTag', () => world.isendrecv(eight, peer, sixteen, peer, 0, 32_768)],
    ['recv', () => world.isendrecv(eight, peer, eight, peer)],
    ['recv', () => world.isendrecv(sixteen.subarray(8), peer, sixteen, peer)],
  );
  return calls;
}

/** Layouts that overlap, or whose memory is gone. */
function wrongLayouts({ world, peer, eight, sixteen }: Given): WrongCall[] {
  const calls: WrongCall[] = [];
  const overlapping = strided(eight, { shape: [4, 4], strides: [1, 1] });
  const detachedLayout = strided(new Uint8Array(8), { shape: [2], strides: [3] });
  structuredClone(null, { transfer: [detachedLayout.view.buffer as ArrayBuffer] });
  const everySecond = strided(sixteen, { shape: [8], strides: [2] });
  calls.push(
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
  return calls;
}

/** For each operation and its persistent form, arguments that would be right, with one of them replaced. */
function wrongArgumentsOfAll({ world, notViews, notRanks }: Given): WrongCall[] {
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
