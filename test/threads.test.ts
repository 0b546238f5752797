/**
 * Ranks that are threads of this process: runRanks(). programs/thread-ranks.ts is what they run.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  AbortError,
  ArgumentError,
  ClosedError,
  createRankPool,
  init,
  OptionError,
  RankError,
  type RankPool,
  runRanks,
  type RunOptions,
  SUM,
} from 'node-nbc';
import { BRIEF, program } from './helpers.js';
import type { Ran } from './programs/all-collectives.js';
import { type Data, GO, LOST, READY } from './programs/thread-ranks.js';
import { allowedHere } from './support/allowed-here.js';
import { ROOT } from './support/launch.js';
import { until } from './support/until.js';
import { pathToFileURL } from 'node:url';

const MODULE = pathToFileURL(program('thread-ranks'));
const MODES = ['thread', 'manual'] as const;

const run = <Result = unknown>(data: Data, options: Omit<RunOptions, 'data'>): Promise<Result[]> =>
  runRanks<Result>(MODULE, { ...options, data });
const words = (): Int32Array => new Int32Array(new SharedArrayBuffer(12));
const sourceOf = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`;

/** The chunks of the bundle that a thread has not compiled, by what V8 has logged of it. */
function chunksFromCache(log: string): string[] {
  const chunks = /^script-details,(\d+),[^,\n]*\/(chunk-\w+\.cjs),.*\nscript,deserialize,\1,/gm;
  return [...log.matchAll(chunks)].map(([, , name]) => `./${name}`).sort();
}

/** Of the errors that runRanks() rejects with. */
async function failureOf(running: Promise<unknown>): Promise<RankError> {
  const error = await running.then(
    () => assert.fail('it did not fail'),
    (thrown: unknown) => thrown,
  );
  assert(error instanceof RankError, String(error));
  assert.equal(error.name, 'RankError');
  return error;
}

describe('ranks as threads', () => {
  const sizes = BRIEF ? [1, 2, 3, 5] : [1, 2, 3, 4, 5, 8, 16];
  for (const size of sizes) {
    const mode = MODES[size % 2];
    const form = size <= 2 && !BRIEF ? 'full' : 'once';
    it(`run all operations rightly on ${size}, progress '${mode}', form '${form}'`, async () => {
      const results = await run<Ran>({ scenario: 'collectives', mode, form }, { size, options: { progress: mode } });
      assert.equal(results.length, size);
      for (const { cases, stats } of results) {
        assert(cases > 300, 'the cases were run');
        assert.equal(stats['crossMemoryBytes'] + stats['stagedBytes'], 0);
        if (size > 1) assert(stats['eagerSent'] > 0 && stats['rtrSent'] > 0 && stats['mappedBytes'] > 0);
      }
    });
  }

  it('give what they return, by rank, each from a thread of its own', async () => {
    interface Greeting {
      rank: number;
      size: number;
      thread: number;
    }
    const greetings = await run<Greeting>({ scenario: 'greet' }, { size: 4 });
    assert.deepEqual(
      greetings.map(({ rank, size }) => [rank, size]),
      [0, 1, 2, 3].map((rank) => [rank, 4]),
    );
    assert.equal(new Set(greetings.map(({ thread }) => thread)).size, 4);
  });

  it('send from, and receive into, views of one SharedArrayBuffer', async () => {
    const size = 3;
    const bytes = new Uint8Array(new SharedArrayBuffer(size * 600_000));
    assert.deepEqual(await run({ scenario: 'view', bytes }, { size }), [0, 1, 2]);
    assert.deepEqual([bytes[0], bytes[600_000], bytes[1_200_000]], [0, 1, 2]);
  });

  it('run operators of the program, in their threads and in workers', async () => {
    assert.deepEqual(await run({ scenario: 'operators' }, { size: 4 }), [6, 6, 6, 6]);
  });

  it('load what the first of them to end has compiled', () => {
    const folder = mkdtempSync(join(tmpdir(), 'nbc-test-'));
    const file = join(folder, 'program.mjs');
    const module = sourceOf('export default (world) => world.iallgather(new Int8Array(1), new Int8Array(1))');
    writeFileSync(
      file,
      `import { runRanks } from ${JSON.stringify(import.meta.resolve('node-nbc'))};
      for (let run = 0; run < 2; run++) await runRanks(${JSON.stringify(module)}, { size: 1 });`,
    );
    try {
      // V8 says what it has of each script, with a file for each thread.
      const flags = ['--log-function-events', '--logfile-per-isolate'];
      const { status, stderr } = spawnSync(process.execPath, [...flags, file], { cwd: folder, encoding: 'utf8' });
      assert.equal(status, 0, stderr);
      const logs = readdirSync(folder).filter((name) => name.endsWith('.log'));
      const loaded = logs.map((name) => chunksFromCache(readFileSync(join(folder, name), 'latin1')));
      const wanted = JSON.parse(readFileSync(join(ROOT, 'dist/chunks.json'), 'utf8')) as string[];
      assert.deepEqual(
        loaded.filter((names) => names.length > 0),
        [wanted.sort()],
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('run several times at once, inside each other, and beside a world of the process', async () => {
    const world = await init({ transport: 'shm' });
    const runs = [2, 3, 4].map((size) => run({ scenario: 'sums' }, { size }));
    const nested = run<unknown[]>({ scenario: 'nested' }, { size: 2 });
    const sum = new Float64Array(1);
    await world.iallreduce(Float64Array.of(3), sum, SUM);
    assert.equal(sum[0], 3);
    assert.deepEqual(await Promise.all(runs), [Array(2).fill(0), Array(3).fill(0), Array(4).fill(0)]);
    assert.deepEqual(
      (await nested).map((inner) => inner.length),
      [2, 2],
    );
    await world.close();
  });

  it('have one world each', async () => {
    assert.deepEqual(await run({ scenario: 'second' }, { size: 2 }), Array(2).fill('ERR_NBC_ALREADY_OPEN'));
  });

  it('end with their results, whatever they have left open', async () => {
    assert.deepEqual(await run({ scenario: 'clutter' }, { size: 2 }), [0, 1]);
  });
});

describe('a rank that is a thread and fails', () => {
  for (const how of ['exit', 'throw', 'uncaught'] as const) {
    it(`is lost to the others by its end alone, and the process lives (${how})`, async () => {
      const shared = words();
      const failure = failureOf(run({ scenario: 'leave', how, shared }, { size: 3 }));
      await until('all ranks are in the middle', () => Atomics.load(shared, READY) === 3);
      Atomics.store(shared, GO, 1);
      Atomics.notify(shared, GO);
      // From here on this thread runs nothing of runRanks().
      for (let lost; (lost = Atomics.load(shared, LOST)) < 2;)
        assert.notEqual(Atomics.wait(shared, LOST, lost, 60_000), 'timed-out', `${lost} of 2 ranks have heard of it`);
      const { rank, code, cause, message } = await failure;
      assert.equal(rank, 1);
      assert.equal(code, how === 'exit' ? 'ERR_NBC_RANK_ENDED' : 'ERR_NBC_RANK_FAILED');
      if (how === 'exit') assert.match(message, /rank 1 failed: its thread has ended with exit code 7/);
      else assert(cause instanceof RangeError);
    });
  }

  it('is the one that is told of, also where others fail because of it', async () => {
    for (let round = 0; round < (BRIEF ? 5 : 20); round++) {
      const failing = round % 4;
      const { rank, cause } = await failureOf(run({ scenario: 'fail', failing }, { size: 4 }));
      assert.equal(rank, failing);
      assert(cause instanceof RangeError && cause.message === `of rank ${failing}`);
    }
  });

  it('says what became of its module and its result', async () => {
    const codeOf = async (module: string | URL, data?: Data): Promise<string> => {
      const { code, message } = await failureOf(runRanks(module, { size: 2, data }));
      return `${code} ${message}`;
    };
    assert.match(await codeOf('file:///nowhere/kernel.mjs'), /^ERR_NBC_RANK_MODULE .*Cannot find module/);
    assert.match(await codeOf(sourceOf('export const a = 1')), /^ERR_NBC_RANK_MODULE .*default export .*it has none/);
    assert.match(await codeOf(sourceOf('export default 7')), /^ERR_NBC_RANK_MODULE .*must be a function.* 7$/);
    assert.match(await codeOf(sourceOf('export default (')), /^ERR_NBC_RANK_MODULE /);
    assert.match(await codeOf(sourceOf('throw new Error("no")')), /^ERR_NBC_RANK_MODULE .*no$/);
    assert.match(await codeOf(MODULE, { scenario: 'uncopied' }), /^ERR_NBC_RANK_RESULT .*rank 1 .*cannot be copied/);
  });

  it('has the exit code that Node.js gives a thread', async () => {
    for (const [body, code] of [
      ['return new Promise(() => {})', 13],
      ['process.exit(0)', 0],
      ['process.exit(5)', 5],
    ] as const) {
      const { message } = await failureOf(runRanks(sourceOf(`export default () => { ${body} }`), { size: 1 }));
      assert.match(message, new RegExp(`its thread has ended with exit code ${code} before its function returned$`));
    }
  });

  it('ends, whatever its module catches', async () => {
    const source = `export default () => {
      for (const event of ['unhandledRejection', 'uncaughtException']) process.on(event, () => {});
      setInterval(() => {}, 1000);
      Object.defineProperty(process.stdout, 'writableLength', { value: 1 });
      process.stdout.write = () => { throw new Error('broken') };
      return 7;
    }`;
    assert.deepEqual(await runRanks(sourceOf(source), { size: 2 }), [7, 7]);
  });

  it('gives errors of this library their classes back', async () => {
    const source = 'export default async (world) => { world.ibcast(7, 0); }';
    const { cause } = await failureOf(runRanks(sourceOf(source), { size: 2 }));
    assert(cause instanceof ArgumentError);
    assert.deepEqual([cause.code, cause.argument, cause.operation], ['ERR_NBC_ARGUMENT', 'buffer', 'ibcast']);
  });

  it('may throw anything', async () => {
    for (const [thrown, expected] of [
      ['undefined', undefined],
      ['null', null],
      ['7', 7],
      ['() => 1', 'Error'],
      ['Object.assign(new Error("x"), { f() {}, n: 3 })', 'Error'],
    ] as const) {
      const { cause } = await failureOf(runRanks(sourceOf(`export default () => { throw ${thrown} }`), { size: 2 }));
      assert.equal(cause instanceof Error ? cause.name : cause, expected);
    }
  });
});

describe('a pool of ranks', () => {
  const size = 3;
  let pool: RankPool;
  beforeEach(() => (pool = createRankPool({ size })));
  afterEach(() => pool.close());
  const inPool = <Result = unknown>(data: Data, signal?: AbortSignal): Promise<Result[]> =>
    pool.run<Result>(MODULE, { data, signal });
  const threadsOf = async (): Promise<number[]> =>
    (await inPool<{ thread: number }>({ scenario: 'greet' })).map(({ thread }) => thread);

  it('runs one module after another on the same threads, each time in a world of its own', async () => {
    const threads = await threadsOf();
    assert.equal(new Set(threads).size, size);
    assert.deepEqual(await inPool({ scenario: 'sums' }), [0, 0, 0]);
    const counting = sourceOf('let runs = 0; export default (world) => [world.rank, ++runs]');
    assert.deepEqual(
      await pool.run(counting),
      [0, 1, 2].map((rank) => [rank, 1]),
    );
    assert.deepEqual(
      await pool.run(counting),
      [0, 1, 2].map((rank) => [rank, 2]),
    );
    const results = await inPool<Ran>({ scenario: 'collectives', mode: 'thread', form: 'once' });
    assert(results.every(({ cases }) => cases > 300));
    assert.deepEqual(await threadsOf(), threads);
  });

  const failing: Record<string, (shared: Int32Array) => Data> = {
    'a function throws': () => ({ scenario: 'fail', failing: 1 }),
    'a thread exits': (shared) => ({ scenario: 'leave', how: 'exit', shared }),
    'an exception is uncaught': (shared) => ({ scenario: 'leave', how: 'uncaught', shared }),
    'a result cannot be copied': () => ({ scenario: 'uncopied' }),
  };
  for (const [why, dataOf] of Object.entries(failing)) {
    it(`has new threads after a run that fails (${why})`, async () => {
      const before = await threadsOf();
      const shared = words();
      Atomics.store(shared, GO, 1); // nobody waits for the test
      assert.equal((await failureOf(inPool(dataOf(shared)))).rank, 1);
      assert.deepEqual(await inPool({ scenario: 'sums' }), [0, 0, 0]);
      assert(!(await threadsOf()).some((thread) => before.includes(thread)));
    });
  }

  it('goes on after a signal, data that cannot be copied, and a thread that has ended between two runs', async () => {
    for (const how of ['wait', 'compute'] as const) {
      const shared = words();
      const controller = new AbortController();
      const ended = assert.rejects(inPool({ scenario: 'hang', how, shared }, controller.signal), AbortError);
      await until('all ranks hang', () => Atomics.load(shared, READY) === size);
      controller.abort();
      await ended;
      assert.deepEqual(await inPool({ scenario: 'sums' }), [0, 0, 0]);
    }
    const uncopied = pool.run(MODULE, { data: () => 1 });
    await assert.rejects(uncopied, (error) => error instanceof ArgumentError && error.argument === 'data');
    const before = await threadsOf();
    const shared = words();
    await inPool({ scenario: 'later', shared });
    Atomics.store(shared, GO, 1);
    let after: number[] = [];
    await until('rank 1 is another thread', async () => {
      after = await threadsOf().catch((error: unknown) => (assert(error instanceof RankError), before));
      return after[1] !== before[1];
    });
    assert.deepEqual(await inPool({ scenario: 'sums' }), [0, 0, 0]);
  });

  it('lets runs take turns, and one that waits for its turn be aborted', async () => {
    const shared = words();
    const [first, second] = [new AbortController(), new AbortController()];
    const hanging = assert.rejects(inPool({ scenario: 'hang', how: 'await', shared }, first.signal), AbortError);
    const waiting = assert.rejects(inPool({ scenario: 'sums' }, second.signal), AbortError);
    const third = inPool({ scenario: 'sums' });
    await until('the first hangs', () => Atomics.load(shared, READY) === size);
    second.abort();
    await waiting;
    first.abort();
    await hanging;
    assert.deepEqual(await third, [0, 0, 0]);
  });

  it('ends its threads when it is closed, after the runs that were asked for, and runs nothing then', async () => {
    const before = readdirSync('/proc/self/task').length;
    const running = inPool({ scenario: 'sums' });
    await pool.close();
    assert.deepEqual(await running, [0, 0, 0]);
    await until('all threads have gone', () => readdirSync('/proc/self/task').length <= before);
    await assert.rejects(inPool({ scenario: 'sums' }), ClosedError);
    await pool.close();
  });

  it('does not keep a program from ending', () => {
    const source = `import('node-nbc').then(async ({ createRankPool }) => console.log(
      await createRankPool({ size: 2 }).run('data:text/javascript,export default (world) => world.rank')))`;
    const { status, stdout } = spawnSync(process.execPath, ['-e', source], { encoding: 'utf8' });
    assert.deepEqual([status, stdout], [0, '[ 0, 1 ]\n']);
  });

  it('refuses what cannot work', async () => {
    const url = /^module: must be a module's URL, as new URL\('\.\/kernel\.mjs', import\.meta\.url\), not 'kernel'$/;
    await assert.rejects(runRanks('kernel', { size: 1 }), { name: 'ArgumentError', message: url });
    for (const given of [undefined, 7, {}, { size: 0 }, { size: 2, options: { nothing: 1 } }, { size: 2, bind: 1 }])
      assert.throws(() => (createRankPool as (given: unknown) => unknown)(given), ArgumentError);
    assert.throws(() => createRankPool({ size: 1, options: { eagerLimit: -1 } }), OptionError);
    await assert.rejects(pool.run('./kernel.mjs'), ArgumentError);
    await assert.rejects(pool.run(MODULE, { signal: {} as AbortSignal }), ArgumentError);
  });
});

describe('runRanks()', () => {
  it('refuses what cannot work', async () => {
    const wrong: [unknown[], string][] = [
      [[7, { size: 1 }], 'module'],
      [['./kernel.mjs', { size: 1 }], 'module'],
      [[MODULE], 'options'],
      [[MODULE, null], 'options'],
      ...[0, -1, 1.5, 5000, NaN, '2', undefined].map((size): [unknown[], string] => [[MODULE, { size }], 'size']),
      [[MODULE, { size: 2, signal: {} }], 'signal'],
      [[MODULE, { size: 2, data: () => 1 }], 'data'],
      [[MODULE, { size: 2, options: { transport: 'tcp' } }], 'options.transport'],
      [[MODULE, { size: 2, options: { progress: 'no' } }], 'progress'],
      [[MODULE, { size: 2, options: { nothing: 1 } }], 'nothing'],
      [[MODULE, { size: 2, options: 7 }], 'options'],
      [[MODULE, { size: 2, bind: 'socket' }], 'bind'],
      [[MODULE, { size: 2, bind: 0 }], 'bind'],
    ];
    for (const [given, argument] of wrong) {
      await assert.rejects(
        (runRanks as (...all: unknown[]) => Promise<unknown>)(...given),
        (error: unknown) => error instanceof ArgumentError && error.argument === argument,
        argument,
      );
    }
    await assert.rejects(runRanks(MODULE, { size: 1, options: { eagerLimit: -1 } }), OptionError);
  });

  it('binds ranks to one processor each, in turn, if it is told to', async () => {
    const here = allowedHere();
    const size = here.length + 1;
    const data = { scenario: 'processors' } as const;
    const bound = [...here, here[0]].map((processor) => [processor]);
    assert.deepEqual(await run(data, { size, bind: 'core' }), bound);
    const pool = createRankPool({ size, bind: 'core' });
    for (let time = 0; time < 2; time++) assert.deepEqual(await pool.run(MODULE, { data }), bound);
    await pool.close();
    for (const bind of ['none', undefined] as const)
      assert.deepEqual(await run(data, { size: 2, bind }), [here, here], 'the threads of later runs are free');
    assert.deepEqual(allowedHere(), here, 'so is the one that calls');
  });

  it('binds no thread that serves the whole process, and begins when a rank first needs it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'nbc-bind-'));
    try {
      const module = join(folder, 'rank.cjs');
      const program = join(folder, 'program.cjs');
      writeFileSync(module, "module.exports = () => require('node:fs').promises.readFile('/proc/self/status');\n");
      // No module of ECMAScript: to load one starts these threads.
      writeFileSync(
        program,
        `const { readdirSync, readFileSync } = require('node:fs');
        const allowed = (task) => /Cpus_allowed_list:.*/.exec(readFileSync(\`/proc/self/task/\${task}/status\`))[0];
        const all = () => [...new Set(readdirSync('/proc/self/task').map(allowed))];
        const [here] = all();
        const { runRanks } = require(${JSON.stringify(join(ROOT, 'dist/index.js'))});
        runRanks(${JSON.stringify(pathToFileURL(module).href)}, { size: 2, bind: 'core' }).then(async () => {
          for (let look = 0; look < 200 && all().join() !== here; look++) await new Promise((r) => setTimeout(r, 20));
          console.log(all().join() === here ? 'free' : all());
        });`,
      );
      const { stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' });
      assert.equal(stdout, 'free\n', stderr);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('ends all ranks when its signal fires, wherever they are, and the process lives', async () => {
    const copy = Array<'copy'>(BRIEF ? 3 : 10).fill('copy');
    for (const how of ['wait', 'await', 'compute', ...copy] as const) {
      const shared = words();
      const controller = new AbortController();
      const { signal } = controller;
      const running = run({ scenario: 'hang', how, shared }, { size: 3, signal });
      const ended = assert.rejects(
        running,
        (error: unknown) => error instanceof AbortError && error.cause === 'enough',
      );
      await until('all ranks hang', () => Atomics.load(shared, READY) === 3);
      controller.abort('enough');
      await ended;
    }
    await assert.rejects(run({ scenario: 'greet' }, { size: 2, signal: AbortSignal.abort() }), AbortError);
    // Fired while threads begin.
    const controller = new AbortController();
    const running = run({ scenario: 'sums' }, { size: 4, signal: controller.signal });
    controller.abort();
    await assert.rejects(running, AbortError);
    assert.deepEqual(await run({ scenario: 'sums' }, { size: 2 }), [0, 0]);
  });

  it('leaves nothing behind, run after run', async () => {
    const look = (): { descriptors: number; maps: number; memory: number } => {
      globalThis.gc?.();
      const maps = readFileSync('/proc/self/maps', 'latin1').split('\n');
      return {
        descriptors: readdirSync('/proc/self/fd').length,
        maps: maps.filter((line) => line.includes('nbc-job')).length,
        memory: process.memoryUsage.rss(),
      };
    };
    const some = async (runs: number): Promise<void> => {
      for (let i = 0; i < runs; i++) {
        const shared = words();
        // Of four runs one fails, and one is ended with requests pending.
        if (i % 4 === 1) await failureOf(run({ scenario: 'fail', failing: 1 }, { size: 2 }));
        else if (i % 4 === 3) {
          const controller = new AbortController();
          const { signal } = controller;
          const running = run({ scenario: 'hang', how: 'await', shared }, { size: 2, signal });
          const ended = assert.rejects(running, AbortError);
          await until('both wait', () => Atomics.load(shared, READY) === 2);
          controller.abort();
          await ended;
        } else await run({ scenario: 'sums' }, { size: 2 });
      }
    };
    const runs = BRIEF ? 40 : 200;
    await some(20);
    const before = look();
    await some(runs);
    const after = look();
    assert.equal(after.descriptors, before.descriptors);
    assert.equal(after.maps, 0);
    // A run that left its buffers would leave 8 MiB or more.
    assert(after.memory - before.memory < runs * 2 ** 20, `${before.memory} to ${after.memory} bytes`);
  });
});
