/** Operators of the program's own; see create-op.test.ts. */
import assert from 'node:assert/strict';
import { rmSync, existsSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { setImmediate } from 'node:timers/promises';
import workerThreads from 'node:worker_threads';
import {
  AbandonedError,
  ArgumentError,
  bfloat16,
  ClosedError,
  createOp,
  float16,
  IN_PLACE,
  init,
  NbcError,
  type Op,
  OperatorError,
  PeerClosedError,
  type Request,
  ScheduleError,
  startAll,
  SUM,
  testAll,
  TimeoutError,
  waitAll,
  waitAny,
} from 'node-nbc';
import { ElementType, type OperationName, OPERATIONS, Operator, Role, Schedule } from 'node-nbc/schedules';
import { Scattered } from '../layouts.js';
import { arrange, callOperation, type Case, contribution, ORACLES } from '../oracle.js';
import { until } from '../support/until.js';
import { AFFINE, AFFINE_MODULE, XOR, XOR_MODULE } from '../user-operators.js';
import { assertBytes, piece } from './noise.js';
import { play, report } from './scenario.js';

const world = await init();
const { rank, size } = world;
const ranks = Array.from({ length: size }, (_, other) => other);
const REDUCTIONS = OPERATIONS.filter(({ parameters }) => parameters.includes('op'));

const call = (name: OperationName, args: readonly unknown[]): Request => callOperation(world, name, args);

const addTo = (a: Float64Array, b: Float64Array): void => {
  for (let i = 0; i < b.length; i++) b[i] += a[i];
};
const ADD = createOp(addTo, { commutative: true });
const total = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const moduleOf = (name: string, parameters: Record<string, string | number> = {}): URL => {
  const url = new URL(`./operators/${name}.js`, import.meta.url);
  for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, String(value));
  return url;
};

/** The error of a request. */
function errorOf(request: Request, milliseconds?: number): unknown {
  try {
    request.wait(milliseconds);
    return null;
  } catch (error) {
    return error;
  }
}

/** The communicator works. */
function check(op: Op = ADD): void {
  const recv = new Float64Array(3);
  world.iallreduce(new Float64Array(3).fill(rank + 1), recv, op).wait();
  assert.deepEqual([...recv], Array(3).fill((size * (size + 1)) / 2));
}

/** The failure of a reduction that began on a rank is known to this one. */
function assertFailed(error: unknown, origin: number, cause: (value: unknown) => boolean): void {
  if (rank === origin) {
    assert(error instanceof OperatorError, String(error));
    assert.equal(error.code, 'ERR_NBC_OPERATOR');
    assert(cause(error.cause), `cause: ${String(error.cause)}`);
  } else if (error !== null) {
    assert(error instanceof AbandonedError, (error as Error).message);
    assert.deepEqual([error.origin, error.reason], [origin, 'ERR_NBC_OPERATOR']);
  }
}

await play({
  /** Every reduction with every algorithm, compared with the oracle; in turns waited for and awaited, all at once. */
  async operations() {
    let cases = 0;
    for (const op of [AFFINE, AFFINE_MODULE, XOR, XOR_MODULE]) {
      for (const { name, algorithms } of REDUCTIONS) {
        for (const algorithm of [undefined, ...algorithms.filter((row) => op.commutes || row.reorders !== true)]) {
          const started = [];
          for (const count of [0, 1, 1000, 40_000, 300_000]) {
            for (const inPlace of [false, true]) {
              const number = cases++;
              const root = number % size;
              const c: Case = { size, root, count, inPlace, gaps: false, op };
              const oracle = ORACLES[name];
              const scattered = new Map<Uint8Array, Scattered>();
              const part = arrange(oracle, c, rank, (length) => {
                const view = new Uint8Array(length).fill(0xee);
                if (count === 1000) scattered.set(view, new Scattered(length, number));
                return view;
              });
              const lengthOf = (from: number): number => oracle.send(c, from) ?? oracle.recv(c, from)!;
              const own = contribution(oracle, c, rank, part);
              own?.set(piece(number, rank, 0, own.length));
              const expected = part.recv?.slice();
              if (expected !== undefined) {
                oracle.result(c, rank, (from) => piece(number, from, 0, lengthOf(from)), expected);
              }
              for (const [view, layout] of scattered) layout.write(view);
              const args = part.args.map((arg) => scattered.get(arg as Uint8Array)?.layout ?? arg);
              const request = call(name, [
                ...args,
                ...(algorithm === undefined ? [] : [{ algorithm: algorithm.name }]),
              ]);
              const what = `${name} ${algorithm?.name} ${count} ${inPlace} ${op.name}, rank ${rank}`;
              started.push({ request, part, expected, what, scattered });
            }
          }
          const requests = started.map(({ request }) => request);
          if (cases % 4 === 0) waitAll(requests);
          else if (cases % 4 === 1) await Promise.all(requests);
          else if (cases % 4 === 2) while (!testAll(requests));
          else for (const request of requests.reverse()) request.wait();
          for (const { part, expected, what, scattered } of started) {
            if (expected === undefined) continue;
            assertBytes(scattered.get(part.recv!)?.read() ?? part.recv!, expected, what);
            scattered.get(part.recv!)?.assertBetween(what);
          }
        }
      }
    }
    report(cases);
  },

  /** A function gets views of the element type of the reduction, of equal length, and all of the elements. */
  types() {
    const arrays = [
      ...[Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array],
      ...[BigInt64Array, BigUint64Array],
    ] as unknown as Uint8ArrayConstructor[];
    const LENGTH = 100_000;
    for (const View of arrays) {
      let elements = 0;
      const op = createOp(
        (a: Uint8Array, b: Uint8Array) => {
          assert.deepEqual([a.constructor, b.constructor, a.length], [View, View, b.length]);
          elements += b.length;
          for (let i = 0; i < b.length; i++) if (a[i] > b[i]) b[i] = a[i];
        },
        { commutative: true },
      );
      const [send, recv] = [new View(LENGTH), new View(LENGTH)];
      const value = View.name.startsWith('Big') ? (BigInt as unknown as NumberConstructor) : Number;
      send.fill(value(rank));
      world.iallreduce(send, recv, op, { algorithm: 'recursive-doubling' }).wait();
      assert(
        recv.every((element) => element === value(size - 1)),
        View.name,
      );
      assert(elements >= LENGTH && elements % LENGTH === 0, `${View.name}: ${elements}`);
    }
    for (const half of [float16, bfloat16]) {
      const op = createOp((a: Uint16Array, b: Uint16Array) => {
        if (half === bfloat16 || !('Float16Array' in globalThis)) assert(a instanceof Uint16Array);
        for (let i = 0; i < b.length; i++) b[i] = Math.max(a[i], b[i]);
      });
      const recv = new Uint16Array(LENGTH);
      world.iallreduce(half(new Uint16Array(LENGTH).fill(rank)), half(recv), op).wait();
      assert(recv.every((element) => element === size - 1));
    }
  },

  /** With nothing but turns of the event loop: nobody waits, tests or awaits. The request may be dropped. */
  async eventLoop() {
    const LENGTH = 100_000;
    for (const op of [ADD, createOp(moduleOf('slow'))]) {
      const recv = new Float64Array(LENGTH);
      world.iallreduce(new Float64Array(LENGTH).fill(rank), recv, op);
      (globalThis as { gc?: () => void }).gc?.();
      await until('the reduction', () => recv[LENGTH - 1] === total(ranks));
      // Of this rank; others may need it.
      await world.ibarrier();
      assert(recv.every((value) => value === total(ranks)));
      // And awaited alone.
      await world.iallreduce(IN_PLACE, recv, op);
      assert.equal(recv[0], size * total(ranks));
    }
  },

  /** The main thread of rank 1 computes until rank 2 has what rank 1's worker computes. */
  async busy() {
    const file = process.env['TEST_FILE']!;
    const op = createOp(moduleOf('slow'), { commutative: true });
    check(op); // the worker is there
    const recv = new Float64Array(50_000);
    await world.ibarrier();
    const request = world.iscan(new Float64Array(50_000).fill(rank + 1), recv, op, { algorithm: 'linear' });
    if (rank === 1) while (!existsSync(file));
    request.wait();
    assert.equal(recv[49_999], total(ranks.slice(0, rank + 1)) + rank + 1);
    if (rank === 2) writeFileSync(file, '');
    await world.ibarrier();
    if (rank === 2) rmSync(file);
  },

  /** Several operators, element types and kinds of requests at once; and plans that are kept. */
  async several() {
    const LENGTH = 70_000;
    const small = createOp((a: Int32Array, b: Int32Array) => b.forEach((value, i) => (b[i] = Math.min(a[i], value))));
    const sums = new Float64Array(LENGTH);
    const own = new Float64Array(LENGTH);
    const persistent = [world.allreduceInit(own, sums, ADD), world.scanInit(own, new Float64Array(LENGTH), ADD)];
    const inWorker = new Float64Array(LENGTH);
    persistent.push(world.allreduceInit(own, inWorker, createOp(moduleOf('slow'), { commutative: true })));
    for (let round = 0; round < 4; round++) {
      own.fill(rank + round);
      startAll(round % 2 === 0 ? persistent : persistent.toReversed());
      const least = new Int32Array(LENGTH);
      const first = world.iallreduce(new Int32Array(LENGTH).fill(rank - round), least, small);
      const native = new Float64Array(1);
      const second = world.iallreduce(Float64Array.of(rank), native, SUM);
      const all = [first, second, ...persistent];
      if (round === 1) for (let left = [...all]; left.length > 0;) left.splice(waitAny(left), 1);
      else if (round === 2) await Promise.all(all);
      else waitAll(all);
      assert.equal(least[LENGTH - 1], 0 - round);
      assert.equal(native[0], total(ranks));
      for (const result of [sums, inWorker]) {
        assert(
          result.every((value) => value === total(ranks) + size * round),
          `round ${round}`,
        );
      }
    }
    for (const request of persistent) request.free();
    // Operators are told apart by identity: each has its own plan.
    for (const factor of [1, 2, 3]) {
      const op = createOp(
        (a: Float64Array, b: Float64Array) => {
          for (let i = 0; i < b.length; i++) b[i] = factor;
        },
        { commutative: true },
      );
      const recv = new Float64Array(1);
      world.iallreduce(Float64Array.of(rank), recv, op).wait();
      assert.equal(recv[0], factor);
    }
  },

  /** Limits of time, while functions are what a request waits for. */
  async limits() {
    const nobody = new Int32Array(new SharedArrayBuffer(4));
    const late = createOp((a: Float64Array, b: Float64Array) => {
      Atomics.wait(nobody, 0, 0, 20);
      addTo(a, b);
    });
    const recv = new Float64Array(200_000);
    const request = world.iallreduce(new Float64Array(200_000).fill(1), recv, late);
    assert.throws(() => request.wait(1), TimeoutError);
    for (let done = false; !done;) {
      try {
        request.wait(0);
        done = true;
      } catch (error) {
        assert(error instanceof TimeoutError, String(error));
      }
    }
    assert(recv.every((value) => value === size));
    await world.ibarrier();
  },

  /** A function that throws fails the request on every rank that needs its result; everything else goes on. */
  throws() {
    for (const length of [1, 5000, 200_000]) {
      for (const [name, origin] of [
        ['iallreduce', size - 1],
        ['iscan', 1],
        ['ireduceScatterBlock', 0],
        ['ireduce', 0],
      ] as const) {
        const cause = new Error('thrown');
        const own = createOp((a: Float64Array, b: Float64Array) => {
          if (rank === origin) throw cause;
          addTo(a, b);
        });
        const inWorker = createOp(moduleOf('throwing', { rank: origin, manner: 'error' }));
        const clones = (value: unknown): boolean =>
          value instanceof RangeError && value.message === 'thrown in a worker';
        for (const [op, isCause] of [
          [own, (value: unknown) => value === cause],
          [inWorker, clones],
        ] as const) {
          const send = new Float64Array(length * size).fill(1);
          const recv = new Float64Array(name === 'ireduceScatterBlock' ? length : length * size);
          const other = new Float64Array(1);
          const args = name === 'ireduce' ? [send, recv, op, origin] : [send, recv, op];
          const request = call(name, args);
          const beside = world.iallreduce(Float64Array.of(1), other, ADD);
          const error = errorOf(request);
          assertFailed(error, origin, isCause);
          // By recursive doubling rank 1 needs what rank 3 has combined; rank 2 combines the same itself.
          const needs = name === 'iallreduce' ? rank % 2 === 1 : name === 'iscan' ? rank >= origin : rank === origin;
          if (needs) assert(error !== null, `${name}, rank ${rank}`);
          if (name === 'iscan' && !needs) assert.equal(error, null);
          beside.wait();
          assert.equal(other[0], size);
        }
      }
    }
    check();
    // In a tree: rank 2 combines what rank 3 sends, and the root waits for it.
    const inTheMiddle = createOp(
      (a: Float64Array, b: Float64Array) => {
        if (rank === 2) throw new Error('thrown');
        addTo(a, b);
      },
      { commutative: true },
    );
    for (const length of [1, 5000, 200_000]) {
      const send = new Float64Array(length);
      const recv = rank === 0 ? new Float64Array(length) : null;
      const error = errorOf(world.ireduce(send, recv, inTheMiddle, 0, { algorithm: 'binomial' }));
      assertFailed(error, 2, (value) => value instanceof Error && value.message === 'thrown');
      if (rank === 0) assert(error !== null, 'the root needs what rank 2 has not computed');
      world.ibarrier().wait();
    }
    // A persistent one fails each time, and can be started again.
    let bad = true;
    const op = createOp((a: Float64Array, b: Float64Array) => {
      if (bad) throw new Error('once');
      addTo(a, b);
    });
    const recv = new Float64Array(4);
    const request = world.allreduceInit(new Float64Array(4).fill(1), recv, op);
    for (const expected of [false, false, true]) {
      bad = !expected;
      request.start();
      const error = errorOf(request);
      if (expected) assert.deepEqual([error, recv[3]], [null, size]);
      else assert(error instanceof OperatorError || error instanceof AbandonedError, String(error));
      world.ibarrier().wait();
    }
  },

  /** What a function may not do, and what becomes of it. */
  async mistakes() {
    const LENGTH = 1000;
    const run = (op: Op): unknown =>
      errorOf(world.iallreduce(new Float64Array(LENGTH).fill(1), new Float64Array(LENGTH), op));
    const isType = (pattern: RegExp) => (value: unknown) => value instanceof TypeError && pattern.test(value.message);
    const onlyHere = (fn: (a: Float64Array, b: Float64Array) => unknown): Op =>
      createOp((a: Float64Array, b: Float64Array): void => {
        if (rank === 1) return fn(a, b) as undefined;
        addTo(a, b);
      });
    assertFailed(run(onlyHere(() => Promise.reject(new Error('unseen')))), 1, isType(/promise/));
    assertFailed(
      run(onlyHere((_, b) => void structuredClone(b, { transfer: [b.buffer as ArrayBuffer] }))),
      1,
      isType(/transferred/),
    );
    assertFailed(
      run(
        onlyHere(() => {
          throw undefined; // eslint-disable-line @typescript-eslint/only-throw-error -- programs can
        }),
      ),
      1,
      (value) => value === undefined,
    );
    // Views do not outlive the call, and a transferred `a` is a copy.
    const kept: Float64Array[] = [];
    let taken: ArrayBuffer | undefined;
    assert.equal(
      run(
        onlyHere((a, b) => {
          kept.push(a, b);
          addTo(a, b);
          taken = structuredClone(a.buffer as ArrayBuffer, { transfer: [a.buffer as ArrayBuffer] });
        }),
      ),
      null,
    );
    for (const view of kept) assert.equal(view.length, 0);
    if (taken !== undefined) new Float64Array(taken).fill(7);
    check();
    // Calls that wait are refused; the others work.
    const inside: Request[] = [];
    const before = world.irecv(new Uint8Array(1), (rank + size - 1) % size, 5);
    const errors: unknown[] = [];
    const recvs: Float64Array[] = [];
    assert.equal(
      run(
        createOp((a: Float64Array, b: Float64Array) => {
          if (inside.length === 0) {
            recvs.push(new Float64Array(LENGTH));
            inside.push(world.iallreduce(new Float64Array(LENGTH).fill(rank), recvs[0], ADD));
          }
          for (const wait of [() => before.wait(), () => waitAll([before, inside[0]]), () => waitAny([before])]) {
            try {
              wait();
              errors.push(null);
            } catch (error) {
              errors.push(error);
            }
          }
          assert.equal(before.test(), false);
          addTo(a, b);
        }),
      ),
      null,
    );
    assert(errors.length > 0);
    for (const error of errors) assert(error instanceof OperatorError && error.message.includes('must not wait'));
    inside[0].wait();
    assert(recvs[0].every((value) => value === total(ranks)));
    world.ibarrier().wait(); // the other rank's function has looked for the message, too
    world.isend(new Uint8Array(1), (rank + 1) % size, 5).wait();
    before.wait();
    // Modules.
    const manner = (name: string): Op => createOp(moduleOf('throwing', { rank: 1, manner: name }));
    assertFailed(run(manner('promise')), 1, isType(/promise/));
    assertFailed(
      run(manner('function')),
      1,
      (value) => value instanceof Error && value.message.includes('cannot be cloned'),
    );
    for (let time = 0; time < 2; time++) {
      const exiting = manner('exit');
      assertFailed(run(exiting), 1, (value) => value instanceof Error && /worker .* has ended/.test(value.message));
      assertFailed(run(exiting), 1, (value) => value instanceof Error && /worker .* has ended/.test(value.message));
    }
    for (const [module, pattern] of [
      [moduleOf('empty'), /default export .* must be a function, not undefined/],
      [moduleOf('none'), /Cannot find module/],
    ] as const) {
      const error = run(createOp(module));
      if (error instanceof AbandonedError) assert.equal(error.reason, 'ERR_NBC_OPERATOR');
      else assert(error instanceof OperatorError && pattern.test(error.message), String(error));
      world.ibarrier().wait();
    }
    check();
    await setImmediate();
  },

  /**
   * On rank 1 the worker fails before it has a function, for each of the causes that the command line names. Every
   * rank waits on its main thread, which gets no event of a worker meanwhile. In the linear algorithm rank 0 needs
   * nothing of rank 1, and rank 2 does.
   */
  async failingWorkers() {
    const causes: Record<string, [source: string, pattern: RegExp]> = {
      syntax: ['export default (', /SyntaxError: /],
      thrown: [`throw new RangeError('at the top')`, /RangeError: at the top/],
      value: ['throw null', /null/],
      exit: ['process.exit(3)', /worker .* has ended with exit code 3 while it imported/],
      unsettled: ['await new Promise(() => {})', /worker .* has ended with exit code \d+ while it imported/],
      uncaught: [
        `setImmediate(() => { throw new Error('in a callback') }); await new Promise((done) => setTimeout(done, 1e8))`,
        /in a callback/,
      ],
      rejected: [
        `Promise.reject(new Error('nobody handles this')); await new Promise((done) => setTimeout(done, 1e8))`,
        /nobody handles this/,
      ],
      memory: ['const all = []; for (;;) all.push(new Array(1e5).fill(1.5))', /worker .* has ended: .*out of memory/],
      noFunction: ['export default 5', /default export .* must be a function, not 5/],
      missing: [`await import('file:///none/such.js')`, /Cannot find module/],
      unstarted: ['0', /no thread for a worker/],
      preload: ['0', /worker .* has ended before it could import/],
    };
    const sum = 'export default (a, b) => { for (let i = 0; i < b.length; i++) b[i] += a[i] }';
    const ways: ((request: Request) => unknown)[] = [
      errorOf,
      (request) => {
        try {
          while (!request.test());
          return null;
        } catch (error) {
          return error;
        }
      },
      (request) => {
        for (;;) {
          const error = errorOf(request, 10);
          if (!(error instanceof TimeoutError)) return error;
        }
      },
      (request) =>
        Promise.resolve(request).then(
          () => null,
          (error: unknown) => error,
        ),
    ];
    for (const cause of process.argv[3].split(',')) {
      const [source, pattern] = causes[cause];
      if (cause === 'unstarted' && rank === 1) {
        const refuse = function (): never {
          throw new Error('no thread for a worker');
        };
        Object.assign(workerThreads, { Worker: refuse });
        syncBuiltinESMExports();
      }
      for (const [number, way] of ways.entries()) {
        // A module of its own for each operator.
        const text = `${rank === 1 ? source : sum} // ${cause} ${number}`;
        const op = createOp(new URL(`data:text/javascript,${encodeURIComponent(text)}`));
        for (let time = 0; time < 2; time++) {
          const recv = new Float64Array(4);
          const error = await way(world.iscan(new Float64Array(4).fill(rank + 1), recv, op, { algorithm: 'linear' }));
          if (rank === 0) {
            assert.deepEqual([error, recv[3]], [null, 1]);
          } else if (rank === 1) {
            assert(error instanceof OperatorError, String(error));
            // On the event loop, the worker's own event may come first.
            if (way !== ways[3]) assert.match(String(error.cause), pattern);
          } else {
            assert(error instanceof AbandonedError, String(error));
            assert.deepEqual([error.origin, error.reason], [1, 'ERR_NBC_OPERATOR']);
          }
        }
      }
    }
    check();
  },

  /** Arguments that are refused, on this rank alone and before anything is sent. */
  arguments() {
    const not = (value: unknown): never => value as never;
    for (const value of [undefined, null, 5, 'sum', './sum.js', {}, async () => {}, function* () {}]) {
      assert.throws(() => createOp(not(value)), { name: 'ArgumentError', argument: 'functionOrModule' });
    }
    assert.throws(() => createOp(addTo, not(5)), { name: 'ArgumentError', argument: 'options' });
    assert.throws(() => createOp(addTo, not({ commutative: 1 })), { name: 'ArgumentError', argument: 'commutative' });
    assert.deepEqual([createOp(addTo).commutes, createOp(addTo).name, ADD.commutes], [false, 'addTo', true]);
    const send = new Uint8Array(size * 8);
    for (const { name, algorithms } of REDUCTIONS) {
      for (const { name: algorithm, reorders } of algorithms) {
        if (reorders !== true) continue;
        const c: Case = { size, root: 0, count: 8, inPlace: false, gaps: false, op: AFFINE };
        const { args } = arrange(ORACLES[name], c, rank, (length) => new Uint8Array(length));
        assert.throws(() => call(name, [...args, { algorithm }]), { name: 'ArgumentError', argument: 'algorithm' });
      }
    }
    assert.throws(() => world.iallreduce(send, new Uint8Array(size * 8), not(addTo)), ArgumentError);
    // The operator USER is for these operations, and not for schedules of the program's own.
    const own = new Schedule().reduce(Operator.USER, ElementType.UINT8, Role.SEND, 0, Role.RECEIVE, 0, 8);
    assert.throws(
      () => world.start(own, send, new Uint8Array(8)),
      (error) => error instanceof ScheduleError && error.message.includes('createOp'),
    );
    check();
  },

  /** The world is closed while pieces wait, or are computed. */
  async closed() {
    const recv = new Float64Array(100_000);
    const send = new Float64Array(100_000).fill(1);
    const inWorker = world.iallreduce(send, new Float64Array(100_000), createOp(moduleOf('slow', { file: '/none' })));
    const waiting = world.iallreduce(send, recv, ADD);
    // With a progress thread, both functions have their pieces by then. The other rank may have closed its world.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    await world.close();
    for (const request of [inWorker, waiting]) {
      const error = errorOf(request);
      assert(error instanceof ClosedError || error instanceof PeerClosedError, String(error));
    }
    assert.throws(() => world.iallreduce(send, recv, ADD), ClosedError);
  },

  /** A function closes the world: within wait(), and on the event loop. */
  async closes() {
    const closing = createOp(() => void world.close());
    const request = world.iallreduce(Float64Array.of(1), new Float64Array(1), closing);
    const other = world.irecv(new Uint8Array(1), (rank + 1) % size, 9);
    if (process.argv[3] === 'wait') assert.throws(() => waitAll([other, request]), NbcError);
    else await assert.rejects(async () => request, NbcError);
    assert(errorOf(request) instanceof ClosedError || errorOf(request) instanceof PeerClosedError);
  },

  /** A rank ends in the middle of its function: the others learn of it. */
  gone() {
    const op = createOp(
      (a: Float64Array, b: Float64Array) => {
        if (rank === 1) process.exit(0);
        addTo(a, b);
      },
      { commutative: true },
    );
    const length = 10_000 * size;
    const request = world.iallreduce(new Float64Array(length), new Float64Array(length), op, { algorithm: 'ring' });
    const error = errorOf(request);
    assert(error instanceof PeerClosedError || error instanceof AbandonedError, String(error));
  },

  /** The process ends while a worker has nothing to do, or is blocked in its function; nobody closes the world. */
  exit() {
    check(createOp(moduleOf('slow'), { commutative: true }));
    world.ibarrier().wait();
    if (process.argv[3] === 'exit') process.exit(0);
  },
});
