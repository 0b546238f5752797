/**
 * The operations that nbcbench measures, on node-nbc and on each MPI that is installed: that none is missing, that its
 * data is right, and that the ranks write their buffers when they should. No test asserts a time.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NEIGHBOR_OPERATIONS, OPERATIONS } from 'node-nbc/schedules';
import { verdictOf } from '../bench/targets/rows.js';
import { verdictsOf, targets, type Target } from '../bench/targets/targets.js';
import { skip } from './helpers.js';
import { run } from './support/commands.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const NAMES: string[] = [...OPERATIONS, ...NEIGHBOR_OPERATIONS].map(({ name }) => name);

/** Modules of nbcbench are no part of the package's surface, so they are loaded from where they were compiled to. */
const load = async <T>(name: string): Promise<T> =>
  (await import(new URL(`../../dist/bench/nbcbench/${name}.js`, import.meta.url).href)) as T;

interface Job {
  command(...words: (string | number)[]): Promise<void>;
  results(): Float64Array[];
  close(): Promise<void>;
  kill(): void;
}

interface Implementation {
  name: string;
  launch(ranks: number, placement: object): Promise<Job>;
}

const UNBOUND = { cpus: undefined, dedicated: false, text: '' };
const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined;

async function ours(): Promise<Implementation> {
  const { nodeNbc } = await load<{ nodeNbc: (...settings: unknown[]) => Implementation }>('ours');
  return nodeNbc('auto', 'thread', ['plain']);
}

async function peer(name: string): Promise<Implementation> {
  const { findPeers } = await load<{ findPeers: (...settings: unknown[]) => Implementation[] }>('peers');
  return findPeers([name], 'shm', (text: string) => assert.fail(text))[0];
}

async function withJob(implementation: Implementation, ranks: number, use: (job: Job) => Promise<void>): Promise<void> {
  const job = await implementation.launch(ranks, UNBOUND);
  try {
    await job.command('calibrate');
    await use(job);
    await job.close();
  } catch (error) {
    job.kill();
    throw error;
  }
}

const REPETITIONS = 3;
/** Of a batch with that start: it needs no processor for each rank. What a rank received last, it compares. */
const batch = (mode: string, op: string, bytes: number, buffers: string, form: string, writes: string) =>
  ['run', mode, op, bytes, buffers, form, writes, 1, 2, REPETITIONS, 'gate', 20] as const;

async function tryAll(job: Job, ranks: number, buffers: string, form: string): Promise<void> {
  for (const op of NAMES) {
    for (const bytes of [0, 72]) {
      await job.command('check', op, bytes, buffers, form);
      await job.command(...batch('blocking', op, bytes, buffers, form, 'fresh'));
      await job.command(...batch('overlap', op, bytes, buffers, form, 'same'));
      const results = job.results();
      assert.deepEqual(
        results.map(({ length }) => length),
        Array.from({ length: ranks }, () => REPETITIONS * 5),
        op,
      );
    }
  }
}

describe('operations of nbcbench', () => {
  it('are all that the library has, in its order', async () => {
    const { OPS } = await load<{ OPS: string[] }>('operations');
    const { parseOps } = await load<{ parseOps: (text: string) => string[] }>('options');
    assert.deepEqual(OPS, NAMES);
    assert.deepEqual(parseOps('all'), NAMES);
    assert.deepEqual(parseOps('iscan,ibarrier'), ['iscan', 'ibarrier']);
  });

  it('the MPI program has the same, in the same order', () => {
    const source = readFileSync(join(ROOT, 'bench/peers/operations.h'), 'utf8');
    const rows = source.slice(source.indexOf('operations[] = {'));
    assert.deepEqual(
      [...rows.matchAll(/^ +\{"(\w+)", (MOVED|REDUCED), /gm)].map(([, name]) => name),
      NAMES,
    );
  });

  for (const ranks of [2, 3]) {
    for (const [buffers, form] of [
      ['plain', 'nonblocking'],
      ['alloc', 'persistent'],
    ]) {
      it(`node-nbc, ${ranks} ranks, ${form}, ${buffers} buffers: each has the right data`, async () => {
        await withJob(await ours(), ranks, (job) => tryAll(job, ranks, buffers, form));
      });
    }
    for (const name of ['openmpi', 'mpich']) {
      it(`${name}, ${ranks} ranks: each has the right data`, async function () {
        if (!has(`mpicc.${name}`) || !has(`mpirun.${name}`)) skip(this, `mpicc.${name} or mpirun.${name} is missing`);
        await withJob(await peer(name), ranks, (job) => tryAll(job, ranks, 'plain', 'nonblocking'));
      });
    }
  }

  it('--same-buffers and --forms are in the rows; ibarrier has one size', async () => {
    const { code, stdout, stderr } = await run(process.execPath, [
      ...[join(ROOT, 'dist/bench/nbcbench/main.js'), '--ops', 'ibarrier,iexscan', '--sizes', '8,64', '--json', '-'],
      ...['--buffers', 'plain', '--forms', 'nonblocking,persistent', '--same-buffers', '--start', 'gate'],
      ...['--repetitions', '3', '--max-seconds', '2', '--no-warm-up'],
    ]);
    assert.equal(code, 0, stderr);
    const rows = JSON.parse(stdout) as Record<string, unknown>[];
    const points = [
      ['ibarrier', 0],
      ['iexscan', 8],
      ['iexscan', 64],
    ];
    assert.deepEqual(
      rows.map(({ op, bytes, form, same_buffers }) => [op, bytes, form, same_buffers]),
      points.flatMap((point) => ['nonblocking', 'persistent'].map((form) => [...point, form, true])),
    );
    assert.match(stderr, /Blocking.*the same unchanged buffers/);
    assert.match(stderr, /form[^]*nonblocking[^]*persistent/, 'a column that tells them apart');
  });
});

describe('targets', () => {
  const implementation = (name: string) => ({ name, transport: 'shm', progress: 'manual' });
  const result = (name: string, target: Target, blocking: number, sameBuffers = false) => ({
    implementation: implementation(name),
    ...{ op: 'iallreduce', ranks: target.ranks, bytes: target.sizes[0], sameBuffers, repetitions: 1, overlaps: [] },
    ...{ buffers: name === 'node-nbc' ? target.buffers : 'plain', blocking },
    form: name === 'node-nbc' ? target.form : 'nonblocking',
  });

  it('has every operation of 8 bytes, in both forms', () => {
    for (const form of ['nonblocking', 'persistent']) {
      const own = targets.filter((target) => target.form === form && target.sizes.includes(8) && target.ranks === 2);
      assert.deepEqual(
        own.flatMap(({ ops }) => ops),
        NAMES,
      );
    }
  });

  it('has every operation of 8 bytes on 16 ranks, as processes and as threads', () => {
    for (const start of ['processes', 'threads'] as const) {
      const own = targets.filter((target) => target.start === start && target.ranks === 16 && target.sizes.includes(8));
      assert.deepEqual(
        own.flatMap(({ ops }) => ops),
        NAMES,
      );
      assert(verdictsOf(start, []).every(({ target }) => target.start === start));
    }
  });

  it('a verdict is the median of the rounds, against the peer that the target names', () => {
    const better = targets.find(({ ops, against }) => against === 'better' && ops.includes('iallreduce'))!;
    const rounds = [10, 40, 20].map((us) => [
      result('node-nbc', better, us),
      result('openmpi', better, 100),
      result('mpich', better, 50),
      result('node-nbc', better, 1, true),
      result('openmpi', better, 4, true),
    ]);
    const found = verdictsOf('processes', rounds as never).filter(
      ({ target, op }) => target === better && op === 'iallreduce',
    );
    assert.equal(found.length, 1);
    const { ours: us, theirs, ratio, range, sameBuffers } = found[0];
    assert.deepEqual([us, theirs, ratio, range, sameBuffers], [20, 50, 0.4, [0.2, 0.8], 0.25]);
    const small = targets.find(({ ops, against }) => against === 'openmpi' && ops.includes('iallreduce'))!;
    const withoutOpenMpi = [result('node-nbc', small, 1), result('mpich', small, 1)];
    const verdicts = verdictsOf('processes', [withoutOpenMpi] as never);
    assert.equal(verdicts.length, verdictsOf('processes', []).length, 'none is left out');
    for (const verdict of verdicts) {
      assert.equal(verdict.ratio, NaN);
      assert.equal(verdictOf(verdict.ratio, verdict.target), 'not measured');
    }
  });
});
