/**
 * Random calls with random arguments: all that the package exports, on one to three ranks. `calls SEED ROUNDS`.
 *
 * A round is calm first: collectives of which each rank checks the result. Then it is wild: each rank makes calls of
 * its own on communicators that live for this round. It detaches, transfers, resizes and grows the memory of what is
 * pending, drops requests, and has functions that do the same in the middle of a call. At its end the communicators are
 * revoked: every request has to settle then. In the last round one rank ends as the seed says: closed, by
 * `process.exit()`, by an error that nobody catches, or as a worker that is terminated.
 *
 * The oracle: what is thrown, or rejects, is an NbcError or what this program itself has thrown; calm results are
 * right; nothing crashes, and everything settles. With NBC_FUZZ_TELL=1 each call is printed before it is made.
 */
import assert from 'node:assert/strict';
import { setImmediate, setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import * as nbc from 'node-nbc';
import * as schedules from 'node-nbc/schedules';
import { arrange, contribution, ORACLES, withOperator } from '../oracle.js';
import { generator } from '../support/random.js';
import { WasmMemory } from '../support/wasm.js';
import { assertBytes, piece } from './noise.js';
import { report, say } from './scenario.js';

const { OPERATIONS, NEIGHBOR_OPERATIONS, Role } = schedules;

const [seed, rounds] = process.argv.slice(2).map(Number);
const me = Number(process.env['NBC_RANK']);
const ranks = Number(process.env['NBC_SIZE']);
/** The same on all ranks. */
const common = generator(seed);
const random = generator(seed * 31 + me + 1);
/** Functions and getters that run in the middle of calls have one of their own: when they run is not known. */
const inside = generator(seed * 37 + me + 2);

const CALLS = 40;
/** Exit codes that are meant. */
const EXITS = 7;
const THROWS = 1;

type Call = (...args: unknown[]) => unknown;
type Random = () => number;
const below = (limit: number, from: Random = random): number => Math.floor(from() * limit);
const pick = <T>(list: readonly T[], from: Random = random): T => list[below(list.length, from)];

const ENDS = ['close', 'close', 'exit', 'throw', 'close inside', 'exit inside', 'terminate'] as const;
/** How the last round ends, and on which rank. */
const end = pick(ENDS, common);
const victim = below(ranks, common);

/** What this program throws itself. */
class Planned extends Error {}

const told: string[] = [];
function tell(line: string): void {
  if (process.env['NBC_FUZZ_TELL'] === '1') say(`rank ${me}: ${line}`);
  told.push(line);
  if (told.length > 25) told.shift();
}

function judge(error: unknown, call: string): void {
  // What a property of an argument throws is the program's own: here, of an object that only looks like a typed array.
  if (error instanceof TypeError && error.message.includes('incompatible receiver')) return;
  if (!(error instanceof nbc.NbcError || error instanceof Planned)) fail(`${call} ended with ${inspect(error)}`);
}

function fail(what: string): never {
  say(`rank ${me}, seed ${seed}: ${what}\nThe last calls:\n${told.join('\n')}`);
  process.exit(86);
}

for (const event of ['unhandledRejection', 'uncaughtException'] as const) {
  process.on(event, (error: unknown) => {
    if (event === 'uncaughtException' && error instanceof Planned && end === 'throw') process.exit(THROWS);
    fail(`${event}: ${inspect(error)}`);
  });
}

// ---------------------------------------------------------------- arguments

type Memory = ArrayBuffer & { resize?: (bytes: number) => void; transfer?: (bytes?: number) => ArrayBuffer };
type Made = new (bytes: number, options: { maxByteLength: number }) => ArrayBuffer;

const LENGTHS = [0, 1, 2, 3, 4, 7, 8, 16, 64, 255, 256, 257, 1024, 4096, 4097, 30_000, 70_000, 600_000];
const KINDS = [Uint8Array, Uint8Array, Float64Array, Int32Array, BigInt64Array, Uint16Array] as const;
/** Memory of this round, which is done things to while it is in use. */
let memories: { buffer: Memory | SharedArrayBuffer; wasm?: WasmMemory }[] = [];

function memory(bytes: number): ArrayBufferLike {
  const most = { maxByteLength: bytes + 4096 };
  const kinds: (() => { buffer: ArrayBufferLike; wasm?: WasmMemory })[] = [
    () => ({ buffer: new ArrayBuffer(bytes) }),
    () => ({ buffer: new ArrayBuffer(bytes) }),
    () => ({ buffer: new ArrayBuffer(bytes) }),
    () => ({ buffer: (nbc.alloc as (kind: unknown, length: number) => Uint8Array)(Uint8Array, bytes).buffer }),
    () => ({ buffer: new SharedArrayBuffer(bytes) }),
    () => ({ buffer: new (ArrayBuffer as unknown as Made)(bytes, most) }),
    () => ({ buffer: new (SharedArrayBuffer as unknown as Made)(bytes, most) }),
    () => {
      const wasm = new WasmMemory({ initial: Math.ceil(bytes / 65_536) });
      return { buffer: wasm.buffer, wasm };
    },
  ];
  let made: { buffer: ArrayBufferLike; wasm?: WasmMemory };
  try {
    made = pick(kinds)();
  } catch (error) {
    judge(error, 'alloc');
    made = { buffer: new ArrayBuffer(bytes) };
  }
  memories.push(made);
  return made.buffer;
}

function view(length = pick(LENGTHS)): ArrayBufferView {
  if (memories.length > 0 && random() < 0.15) {
    // Shares memory with another one, or is a view of memory that has gone.
    const { buffer } = pick(memories);
    return attempt(() => new Uint8Array(buffer, below(buffer.byteLength + 1)), new Uint8Array(1));
  }
  const Kind = pick(KINDS);
  const shift = random() < 0.3 ? below(4) * Kind.BYTES_PER_ELEMENT : 0;
  const buffer = memory(length * Kind.BYTES_PER_ELEMENT + shift);
  if (random() < 0.1) return new DataView(buffer);
  if (random() < 0.1) return Buffer.from(buffer as ArrayBuffer);
  // Without a length: a view that follows the length of its buffer, where that can change.
  if (random() < 0.2 && shift === 0 && buffer.byteLength % Kind.BYTES_PER_ELEMENT === 0)
    return new Kind(buffer as never);
  return new Kind(buffer as never, shift, length);
}

function attempt<T>(action: () => T, otherwise: T): T {
  try {
    return action();
  } catch {
    return otherwise;
  }
}

function data(): unknown {
  if (random() < 0.15) {
    const of = view();
    const shape = [below(5), 1 + below(3)];
    const options = { shape, strides: [below(6), below(3)], offset: below(4) };
    return tried('strided', () => (nbc.strided as Call)(of, options)) ?? of;
  }
  return view();
}

/** Things happen to memory that is in use. */
function disturb(from: Random = random): void {
  if (memories.length === 0) return;
  const { buffer, wasm } = pick(memories, from);
  tell(`disturb ${inspect(buffer, { breakLength: Infinity }).slice(0, 60)}`);
  attempt(() => {
    if (wasm !== undefined) wasm.grow(below(3, from));
    else if (buffer instanceof SharedArrayBuffer)
      (buffer as unknown as { grow: (bytes: number) => void }).grow(buffer.byteLength + 8);
    else if (typeof buffer.resize === 'function' && from() < 0.7) buffer.resize(below(buffer.byteLength + 4096, from));
    else structuredClone(buffer, { transfer: [buffer] });
  }, undefined);
}

/** What runs in the middle of a call. */
function mischief(): void {
  switch (below(9, inside)) {
    case 0:
      throw new Planned('in the middle of a call');
    case 1:
    case 2: {
      disturb(inside);
      return;
    }
    case 3:
      if (end === 'close inside' && me === victim && last) watch(group.world.close(), 'close of the world, inside');
      return;
    case 4:
      if (end === 'exit inside' && me === victim && last) process.exit(EXITS);
      return;
    case 5: {
      const one = pick(group.communicators, inside);
      closedEarly = true;
      return tried('close, inside', () => watch(one.close(), 'close, inside'));
    }
    case 6:
      return tried('revoke, inside', () => pick(group.communicators, inside).revoke());
    case 7:
      if (requests.length > 0) tried('wait, inside', () => pick(requests, inside).wait(1));
      return;
    default:
      if (requests.length > 0) void tried('test, inside', () => pick(requests, inside).test());
  }
}

/** A list, or an object, of which a property does something when it is read. */
function trap(list: object, key: PropertyKey): unknown {
  const value = (list as Record<PropertyKey, unknown>)[key];
  return Object.defineProperty(list, key, {
    get: () => {
      mischief();
      return value;
    },
    configurable: true,
    enumerable: true,
  });
}

const small = (): number => pick([0, 0, 1, 1, 2, 3, 4, 8, 100, 256]);
function counts(size: number): unknown {
  const list = Array.from({ length: size }, small);
  if (random() < 0.1) return trap(list, below(size));
  return random() < 0.3 ? Int32Array.from(list) : list;
}

const own = [
  nbc.createOp((a: Uint8Array, b: Uint8Array) => b.forEach((_, i) => (b[i] += a[i]))),
  nbc.createOp(
    (_a: Uint8Array, b: Uint8Array) => {
      mischief();
      if (inside() < 0.2) structuredClone(b.buffer, { transfer: [b.buffer as ArrayBuffer] });
    },
    { commutative: true },
  ),
  nbc.createOp('data:text/javascript,export default (a, b) => { b.set(a); }'),
  nbc.createOp('data:text/javascript,export default () => { throw 5 }'),
];
const operator = (): unknown => (random() < 0.6 ? pick(nbc.OPERATORS) : pick(own));

const controllers: AbortController[] = [];
function signal(): AbortSignal {
  const controller = new AbortController();
  controllers.push(controller);
  if (random() < 0.2) controller.abort(new Planned('aborted'));
  return controller.signal;
}

const WILD: (() => unknown)[] = [
  () => undefined,
  () => null,
  () => NaN,
  () => -1,
  () => 0.5,
  () => 2 ** 31,
  () => 2 ** 32,
  () => 2 ** 53,
  () => Infinity,
  () => 1n,
  () => '',
  () => '1',
  () => true,
  () => Symbol('wild'),
  () => nbc.IN_PLACE,
  () => ({}),
  () => [],
  () => [null, undefined, -1],
  () => new Array<number>(3),
  () => ({ length: 2 ** 32 }),
  () => ({ length: -1 }),
  () => () => mischief(),
  () => new ArrayBuffer(8),
  () => Object.create(Uint8Array.prototype) as unknown,
  () => Object.create(Object.getPrototypeOf(nbc.SUM) as object) as unknown,
  () => Object.create(nbc.Request.prototype) as unknown,
  () => new Proxy(new Uint8Array(8), {}),
  () => new Proxy({}, { get: () => mischief() }),
  () => ({ valueOf: () => mischief(), toString: () => mischief() }),
  () => nbc.SUM,
  () => pick(requests),
  () => pick(group.communicators),
  () => view(),
  () => data(),
  () => new Date(NaN),
  () => new Map([[1, view()]]),
  () => Object.create(null) as unknown,
];

/** Of ranks that are threads. */
const RANK_FUNCTIONS = [
  '(world) => world.rank',
  '(world) => world.values.allgather(world.rank)',
  '() => { throw 5; }',
  '() => process.exit(3)',
];

/** Arguments by the name of the parameter. */
const GENERATORS: Record<string, (communicator: nbc.Communicator) => unknown> = {
  buffer: data,
  send: () => (random() < 0.15 ? pick([null, nbc.IN_PLACE]) : data()),
  recv: () => (random() < 0.1 ? null : data()),
  root: ({ size }) => below(size),
  rank: ({ size }) => below(size + 1),
  tag: () => pick([undefined, 0, 1, nbc.MAX_TAG]),
  op: operator,
  counts: ({ size }) => counts(size),
  displs: ({ size }) => (random() < 0.5 ? null : counts(size)),
  parts: ({ size }) => {
    const list = Array.from({ length: size }, () => (random() < 0.2 ? null : view()));
    return random() < 0.1 ? trap(list, below(size)) : list;
  },
  value: () => pick([() => 1, () => ({ a: [1, 'b', new Map([[1, 2n]])] }), () => view(), () => () => {}, ...WILD])(),
  values: ({ size }) => Array.from({ length: size }, () => pick(WILD)()),
  fn: () =>
    random() < 0.5
      ? (a: unknown) => a
      : () => {
          throw new Planned('in a function of values');
        },
  schedule: ({ size }) => schedule(size),
  options: () => {
    if (random() < 0.7) return undefined;
    const options = { algorithm: pick([undefined, 'linear', 'ring', 'binomial', 'no']), signal: undefined as unknown };
    if (random() < 0.5) options.signal = random() < 0.8 ? signal() : pick(WILD)();
    return random() < 0.2 ? trap(options, pick(['algorithm', 'signal'])) : options;
  },
  milliseconds: () => below(4),
  requests: () => {
    const list = Array.from({ length: below(5) }, () => pick(requests)).filter((one) => (one as unknown) !== undefined);
    if (list.length > 1 && random() < 0.3) list.push(list[0]);
    return list.length > 0 && random() < 0.1 ? trap(list, below(list.length)) : list;
  },
  length: () => pick(LENGTHS),
  kind: () => pick([...KINDS, Buffer, DataView]),
  ranks: () => 1 + below(12),
  dims: () => pick([1, 2, 3, [0, 0], [2, 0], [1, 1, 1]]),
  color: () => pick([undefined, 0, 1]),
  key: () => pick([undefined, 0, -1, 5]),
  grid: ({ size }) => ({
    dims: pick([[size], [1, size], [size, 1], [1]]),
    periods: pick([undefined, [true], [true, false]]),
  }),
  graph: ({ size }) => ({
    sources: Array.from({ length: below(3) }, () => below(size)),
    destinations: Array.from({ length: below(3) }, () => below(size)),
  }),
  utilization: () => pick([undefined, { idle: 1, active: 1, utilization: 0.5 }]),
  bits: () => new Uint16Array(4),
  bits32: () => pick([0, 1, -1, 0xff, 2 ** 32 - 1]),
  module: () => `data:text/javascript,export default ${pick(RANK_FUNCTIONS)}`,
  run: () => ({ size: pick([1, 2]), signal: random() < 0.3 ? signal() : undefined, data: pick(WILD)() }),
  function: () => (random() < 0.7 ? (): void => {} : 'data:text/javascript,export default 5'),
  opOptions: () => pick([undefined, { commutative: true }]),
  strides: () => ({ shape: [2, 2], strides: [below(5), 1], offset: below(3) }),
};
const ALIASES: Record<string, string> = {
  sendCounts: 'counts',
  recvCounts: 'counts',
  sendDispls: 'displs',
  recvDispls: 'displs',
  sends: 'parts',
  recvs: 'parts',
};

function schedule(size: number): unknown {
  const made = new schedules.Schedule();
  const bytes = pick([0, 1, 8, 64, 300, 5000]);
  const roles = Object.values(Role);
  for (let left = below(8); left > 0; left--) {
    tried('Schedule', () => {
      switch (below(6)) {
        case 0:
          return made.send(below(size + 1), pick(roles), below(100), bytes);
        case 1:
          return made.recv(below(size + 1), pick(roles), below(100), bytes);
        case 2:
          return made.copy(pick(roles), below(100), pick(roles), below(100), bytes);
        case 3:
          return made.reduce(below(13) as never, below(12) as never, pick(roles), 0, pick(roles), 64, bytes);
        case 4: {
          const dimensions = [{ count: below(4), sourceStride: below(40), targetStride: below(40) }];
          return made.strided(pick(roles), below(9), pick(roles), below(9), below(9), dimensions);
        }
        default:
          return made.round();
      }
    });
  }
  return made;
}

function argumentsOf(parameters: readonly string[], communicator: nbc.Communicator): unknown[] {
  const args = parameters.map((name) => GENERATORS[ALIASES[name] ?? name](communicator));
  if (random() < 0.25 && args.length > 0) args[below(args.length)] = pick(WILD)();
  if (random() < 0.05) args.length = below(args.length + 1);
  return args;
}

// ---------------------------------------------------------------- calls

/** What lives as long as a round. */
let group: { world: nbc.Communicator; communicators: nbc.Communicator[]; over: boolean };
let requests: nbc.Request[] = [];
let promises: Promise<unknown>[] = [];
let last = false;
let closedEarly = false;
const unsettled: Promise<unknown>[] = [];

/** [method, parameters] */
type Method = readonly [string, readonly string[]];
const initOf = (name: string): string => `${name[1].toLowerCase()}${name.slice(2)}Init`;
const both = (list: readonly { name: string; parameters: readonly string[] }[]): Method[] =>
  list.flatMap(({ name, parameters }): Method[] => [
    [name, [...parameters, 'options']],
    [initOf(name), parameters],
  ]);
const COLLECTIVES = both(OPERATIONS);
const NEIGHBORS = both(NEIGHBOR_OPERATIONS);
const MESSAGES: Method[] = [
  ['isend', ['buffer', 'root', 'tag', 'options']],
  ['irecv', ['buffer', 'root', 'tag', 'options']],
  ['sendInit', ['buffer', 'root', 'tag']],
  ['recvInit', ['buffer', 'root', 'tag']],
  ['isendrecv', ['send', 'root', 'recv', 'root', 'tag', 'tag', 'options']],
  ['start', ['schedule', 'send', 'recv', 'options']],
];
const OTHERS: Method[] = [
  ['dup', []],
  ['split', ['color', 'key']],
  ['cart', ['grid']],
  ['distGraph', ['graph']],
  ['stats', []],
  ['utilization', ['utilization', 'utilization']],
  ['revoke', []],
  ['agree', ['bits32']],
  ['shrink', []],
  ['close', []],
  ['coords', ['rank']],
  ['rankAt', ['counts']],
  ['shift', ['rank', 'rank']],
  ['sub', ['values']],
];
const VALUES: Method[] = [
  ['bcast', ['value', 'root']],
  ['gather', ['value', 'root']],
  ['scatter', ['values', 'root']],
  ['allgather', ['value']],
  ['alltoall', ['values']],
  ['reduce', ['value', 'fn', 'root']],
  ['allreduce', ['value', 'fn']],
  ['send', ['value', 'root', 'tag']],
  ['recv', ['root', 'tag']],
];
const REQUESTS: Method[] = [
  ['test', []],
  ['wait', ['milliseconds']],
  ['start', ['options']],
  ['free', []],
];
const EXPORTS: Method[] = [
  ['alloc', ['kind', 'length']],
  ['bfloat16', ['bits']],
  ['float16', ['bits']],
  ['createOp', ['function', 'opOptions']],
  ['dimsCreate', ['ranks', 'dims']],
  ['strided', ['buffer', 'strides']],
  ['startAll', ['requests']],
  ['startall', ['requests', 'milliseconds']],
  ['testAll', ['requests']],
  ['waitAll', ['requests', 'milliseconds']],
  ['waitAny', ['requests', 'milliseconds']],
  ['Request', []],
  ['Communicator', []],
  ['Op', []],
  ['Values', ['value']],
  ['Layout', ['buffer']],
  ['PersistentRequest', []],
  ['init', ['options']],
  ['runRanks', ['module', 'run']],
];

function describe(name: string, args: readonly unknown[]): string {
  const show = (arg: unknown): string =>
    attempt(() => {
      if (ArrayBuffer.isView(arg)) {
        const { resizable } = arg.buffer as { resizable?: boolean };
        const kind = arg.buffer instanceof SharedArrayBuffer ? ' shared' : resizable === true ? ' resizable' : '';
        return `${arg.constructor.name}(${(arg as Uint8Array).length}${kind})`;
      }
      if (typeof arg === 'function') return 'function';
      return inspect(arg, { depth: 1, breakLength: Infinity, getters: false, showProxy: true }).slice(0, 150);
    }, 'something');
  return `${name}(${args.map(show).join(', ')})`;
}

/** Makes a call; undefined if it has thrown what it may throw. */
function tried<T>(name: string, call: () => T): T | undefined {
  try {
    return call();
  } catch (error) {
    judge(error, name);
    return undefined;
  }
}

/** The promise has to settle by the end of the round. */
function watch(promise: Promise<unknown>, name: string): void {
  promises.push(
    promise.then(
      (value) => keep(value, name),
      (error: unknown) => judge(error, name),
    ),
  );
}

/**
 * What agree() and shrink() return ends when all ranks call them, which a wild round does not see to, or when the world
 * closes.
 */
function watchAgreement(promise: Promise<unknown>, name: string): void {
  const round = group;
  unsettled.push(
    promise.then(
      (value) => {
        if (!(value instanceof nbc.Communicator)) return;
        if (!round.over) round.communicators.push(value);
        else return value.close().catch((error: unknown) => judge(error, name));
      },
      (error: unknown) => judge(error, name),
    ),
  );
}

/** Takes what a call has returned. */
function keep(value: unknown, name: string): void {
  if (value instanceof nbc.Request) {
    if (random() < 0.2) return; // dropped
    requests.push(value);
  } else if (value instanceof nbc.Communicator) {
    group.communicators.push(value);
  } else if (value instanceof Promise) {
    watch(value, name);
  }
}

/** A limit that ends a wait() is needed: nobody says that the other ranks take part. */
const bounded = (name: string, args: readonly unknown[]): boolean => {
  const at = name === 'wait' ? 0 : /^wait(All|Any)$/.test(name) ? 1 : -1;
  return at < 0 || !(args[at] === undefined || (typeof args[at] === 'number' && args[at] > 1000));
};

async function once(): Promise<void> {
  const communicator = pick(group.communicators);
  const kind = random();
  let [target, [name, parameters]]: [unknown, Method] = [communicator, pick(COLLECTIVES)];
  if (kind > 0.92) [target, [name, parameters]] = [nbc, pick(EXPORTS)];
  else if (kind > 0.84) [target, [name, parameters]] = [attempt(() => communicator.values, null), pick(VALUES)];
  else if (kind > 0.64) [target, [name, parameters]] = [pick(requests), pick(REQUESTS)];
  else if (kind > 0.58) [name, parameters] = pick(OTHERS);
  else if (kind > 0.4) [name, parameters] = pick(MESSAGES);
  else if (kind > 0.34) [name, parameters] = pick(NEIGHBORS);
  if (target === undefined || target === null) return;
  const call = (target as Record<string, unknown>)[name];
  if (typeof call !== 'function') return; // no grid, no neighbours, not persistent
  const args = argumentsOf(parameters, communicator);
  if (!bounded(name, args) || (['close', 'revoke'].includes(name) && random() < 0.7)) return;
  if (name === 'close' || name === 'Symbol.asyncDispose') closedEarly = true;
  tell(describe(name, args));
  const isClass = target === nbc && /^[A-Z]/.test(name);
  const value = tried(name, () =>
    isClass ? new (call as new (...all: unknown[]) => unknown)(...args) : (call as Call).apply(target, args),
  );
  if (['agree', 'shrink'].includes(name) && value instanceof Promise) watchAgreement(value, name);
  else keep(value, name);
  const more = random();
  if (more < 0.15) disturb();
  else if (more < 0.2) controllers.pop()?.abort(new Planned('aborted later'));
  else if (more < 0.25) await setImmediate();
  else if (more < 0.28) (globalThis as { gc?: () => void }).gc?.();
  else if (more < 0.33 && requests.length > 0) {
    const awaited = pick(requests);
    watch(awaited.then(mischief), 'then');
  }
}

// ---------------------------------------------------------------- rounds

/** A collective whose result is known. */
async function calm(world: nbc.Communicator, number: number): Promise<void> {
  const entry = pick(OPERATIONS, common);
  const oracle = ORACLES[entry.name];
  const { rank, size } = world;
  const count = pick([0, 1, 8, 100, 256, 1024, 20_000], common);
  const c = withOperator({ size, root: below(size, common), count, inPlace: false, gaps: false }, below(99, common));
  const part = arrange(oracle, c, rank, (length) => new Uint8Array(length));
  const mine = contribution(oracle, c, rank, part);
  mine?.set(piece(number, rank, 0, mine.length));
  const expected = part.recv?.slice();
  const lengthOf = (from: number): number => oracle.send(c, from) ?? oracle.recv(c, from)!;
  if (expected !== undefined) oracle.result(c, rank, (from) => piece(number, from, 0, lengthOf(from)), expected);
  tell(`calm ${entry.name} of ${count}`);
  await (world as unknown as Record<string, Call>)[entry.name](...part.args);
  if (expected !== undefined)
    assertBytes(part.recv!, expected, `calm ${entry.name} of ${count}, operator ${c.op.name}`);
}

async function settleAll(): Promise<void> {
  for (const controller of controllers.splice(0)) controller.abort(new Planned('the end of the round'));
  // Promises may bring new communicators and requests.
  for (let seen = -1; seen !== promises.length + group.communicators.length;) {
    seen = promises.length + group.communicators.length;
    for (const one of group.communicators) tried('revoke', () => one.revoke());
    // Where all ranks have closed a communicator nobody can revoke it: what is in progress may only end with the world.
    await (closedEarly ? Promise.race([Promise.all(promises), pause(50)]) : Promise.all(promises));
  }
  for (const request of requests) {
    if (!closedEarly && !(request instanceof nbc.PersistentRequest))
      await request.then(undefined, (error: unknown) => judge(error, 'then'));
    tried('test', () => request.test());
  }
  group.over = true;
  for (const one of group.communicators) await one.close().catch((error: unknown) => judge(error, 'close'));
}

async function live(): Promise<void> {
  const settings = {
    progress: pick(['thread', 'manual'] as const, common),
    debug: common() < 0.2,
    ...(common() < 0.5 ? { eagerLimit: pick([0, 64, 255, 4096], common) } : {}),
  };
  const world = await nbc.init(settings);
  // Until here the others would wait for this rank, as long as the option says.
  parentPort?.postMessage('joined');
  group = { world, communicators: [world], over: false };
  const kept: nbc.Request[] = [];
  try {
    for (let round = 0; round < rounds; round++) {
      last = round === rounds - 1;
      await calm(world, round);
      group = { world, communicators: [await world.dup(), await world.dup()], over: false };
      [requests, promises, memories, closedEarly] = [[], [], [], false];
      if (last && end === 'close') group.communicators.push(world);
      const at = below(CALLS);
      for (let call = 0; call < CALLS; call++) {
        if (last && me === victim && call === at) {
          if (end === 'exit') process.exit(EXITS);
          if (end === 'throw') {
            globalThis.setImmediate(() => {
              throw new Planned('nobody catches this');
            });
          }
        }
        await once();
      }
      if (last && end === 'terminate' && me === victim) for (;;) await once();
      await settleAll();
      kept.push(...requests);
      unsettled.push(...promises);
    }
  } catch (error) {
    // A peer that has ended: the others learn that.
    if (!(last || end === 'terminate') || !(error instanceof nbc.NbcError)) throw error;
  }
  await world.close().catch((error: unknown) => judge(error, 'close of the world'));
  for (const request of kept) assert(request.done, `${inspect(request)} is not settled by close()`);
  // Everything is closed; nothing may crash now.
  for (let call = 0; call < CALLS; call++) await once();
  await Promise.all([...unsettled, ...promises]);
  report('ended');
}

if (end === 'terminate' && me === victim && isMainThread) {
  const worker = new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) });
  worker.on('error', (error) => fail(`the worker: ${inspect(error)}`));
  await new Promise((joined) => worker.once('message', joined));
  await pause(below(400));
  await worker.terminate();
  report('terminated');
} else {
  await live();
}
