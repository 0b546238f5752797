/**
 * What tests need to run jobs of ranks: start them, end them by a hard time limit, and say what they printed when one
 * fails.
 *
 * Ranks are started here and not by nbcrun, so that a test can give each rank its own environment and see each exit
 * code.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeHang, familyOf } from './support/hang.js';
import { Limit, LIMIT_S } from './support/limit.js';

const require = createRequire(import.meta.url);
const root = dirname(require.resolve('node-nbc/package.json'));
const { createJob, rankEnded } = require(join(root, 'build/Release/nbc.node')) as {
  createJob: (size: number, exposedBytes: number, members?: readonly number[], processors?: number) => number;
  rankEnded: (jobFd: number, rank: number) => void;
};
const { openLocalStore } = (await import(
  join(root, 'dist/transport/store/local.js')
)) as typeof import('../src/transport/store/local.js');

export interface JobOptions {
  size: number;
  args?: readonly string[];
  /** Variables beside those of this process; those set to undefined are taken away. */
  env?: Record<string, string | undefined> | ((rank: number) => Record<string, string | undefined>);
  /** Options of node itself, for example `--expose-gc`. */
  nodeOptions?: readonly string[];
  /** What runs programs instead of this Node: file and options. */
  runtime?: readonly string[];
  /** A program that executes the rest of its command line, in front of node. */
  wrapper?: readonly string[] | ((rank: number) => readonly string[]);
  /**
   * After this time all ranks are killed and the job fails, and the error says what they waited for. It counts what the
   * machine can do: seconds of an idle one.
   */
  limitS?: number;
  /**
   * Give the ranks a moment to end when one has failed, then kill them: the default. Without, each has the full time.
   */
  stopOnFailure?: boolean;
  /** How many processors the job's file says that the ranks have. Default: those of this process. */
  processors?: number;
  /** Of each rank. Default: as much as there is. */
  exposedBytes?: number | undefined;
  /** Tell the ranks when one of them has ended, as nbcrun does: on shared memory they cannot see it themselves. */
  tellEnds?: boolean;
  /** Sees every line of standard output as it comes. The child is there to be signalled. */
  onLine?: (line: string, rank: number, child: ChildProcess) => void;
}

export interface RankResult {
  rank: number;
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
  /** Killed by the test, not ended by itself. */
  killed: boolean;
}

/**
 * NBC_TEST_BRIEF=1: where everything is slow (an emulated machine), tests play their scenarios once and in fewer
 * combinations.
 */
export const BRIEF = process.env['NBC_TEST_BRIEF'] === '1';

/** A test that brief runs leave out: it takes long, and other tests touch the same part. */
export function inFull(title: string, test: (this: Mocha.Context) => Promise<unknown>): void {
  if (!BRIEF) it(title, test);
}

/** The progress modes that a scenario is played in: both. In brief, scenarios have them in turns. */
export const modes = (): readonly ('thread' | 'manual')[] => (BRIEF ? [MODES[turn++ % 2]] : MODES);
const MODES = ['thread', 'manual'] as const;
let turn = 0;

/** Jobs that differ in how ranks reach each other: the variables of a rank. */
export const TRANSPORTS: Record<string, (rank: number) => Record<string, string | undefined>> = {
  shm: () => ({ NBC_TRANSPORT: 'shm' }),
  tcp: () => ({ NBC_TRANSPORT: 'tcp' }),
  // Neighbours are on different hosts.
  mixed: (rank) => ({ NBC_TRANSPORT: 'auto', NBC_HOST: rank % 2 === 0 ? 'a' : 'b', NBC_JOB_FD: undefined }),
};

/** A test of its own for each scenario of a program: title, name, number of ranks. */
export type ScenarioTests = readonly (readonly [title: string, name: string, ranks: number])[];

/**
 * Makes the tests. In brief, one for each number of ranks: the same job plays its scenarios one after the other, since
 * to start ranks takes longer than most scenarios.
 */
export function playEach(tests: ScenarioTests, play: (names: string, ranks: number) => Promise<unknown>): void {
  const jobs = BRIEF ? [...new Set(tests.map(([, , ranks]) => ranks))].map(together) : tests;
  for (const [title, names, ranks] of jobs) it(title, () => play(names, ranks));

  function together(ranks: number): ScenarioTests[number] {
    const own = tests.filter((test) => test[2] === ranks);
    return [own.map(([title]) => title).join('; '), own.map(([, name]) => name).join(), ranks];
  }
}

/** Settings of crossMemory, which only shared memory reads. */
export const CROSS_MEMORY = ['tcp', 'verbs'].includes(process.env['NBC_TRANSPORT'] ?? '')
  ? (['auto'] as const)
  : (['auto', 'off'] as const);

/** What ranks have to end after another one has failed: each should fail by itself, since its peer is gone. */
const GRACE_MS = 3_000;

/** The compiled form of a program in test/programs, by name without extension. */
export function program(name: string): string {
  return fileURLToPath(new URL(`./programs/${name}.js`, import.meta.url));
}

/** Runs a program as all ranks of a job. Returns how each ended; throws if the time limit had to end them. */
export async function runJob(name: string, options: JobOptions): Promise<RankResult[]> {
  const { size, limitS = LIMIT_S.job, stopOnFailure = true, tellEnds = false, processors } = options;
  const jobFd = createJob(size, options.exposedBytes ?? 0, undefined, processors);
  const store = await openLocalStore(size, limitS * 1000);
  const children: ChildProcess[] = [];
  const killed = new Set<ChildProcess>();
  const killRest = (): void => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      killed.add(child);
      child.kill('SIGKILL');
    }
  };
  let grace: NodeJS.Timeout | undefined;
  let hang: string | undefined;
  const limit = new Limit(limitS, () => {
    void describeHang(children.flatMap(({ pid }) => familyOf(pid!))).then((text) => {
      hang = text;
      killRest();
    });
  });
  try {
    const ends = Array.from({ length: size }, (_, rank) => {
      const own = typeof options.env === 'function' ? options.env(rank) : options.env;
      const wrapper = typeof options.wrapper === 'function' ? options.wrapper(rank) : (options.wrapper ?? []);
      const [command, ...front] = [...wrapper, ...(options.runtime ?? [process.execPath])];
      const env = {
        ...process.env,
        NBC_RANK: `${rank}`,
        NBC_SIZE: `${size}`,
        NBC_JOB_FD: '3',
        ...store.environment,
        ...own,
      };
      const args = [...front, ...(options.nodeOptions ?? []), program(name), ...(options.args ?? [])];
      const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe', jobFd], env });
      children.push(child);
      if (tellEnds) {
        child.once('exit', () => {
          rankEnded(jobFd, rank);
          store.rankEnded(rank);
        });
      }
      return endOf(child, rank, options.onLine).then((end) => {
        if (stopOnFailure && (end.code !== 0 || end.signal !== null)) grace ??= setTimeout(killRest, GRACE_MS);
        return { ...end, killed: killed.has(child) };
      });
    });
    const results = await Promise.all(ends);
    if (hang !== undefined) throw new Error(`the job did not end within ${limitS} s\n${hang}\n${describeJob(results)}`);
    return results;
  } finally {
    limit.stop();
    clearTimeout(grace);
    killRest();
    store.close();
    closeSync(jobFd);
  }
}

/** As {@link runJob}; every rank must end with code 0. */
export async function runRanks(name: string, options: JobOptions): Promise<RankResult[]> {
  const results = await runJob(name, options);
  assert(
    results.every(({ code }) => code === 0),
    `a rank failed\n${describeJob(results)}`,
  );
  return results;
}

/** What every rank reported, one value each, by `report()` of test/programs/scenario.ts. */
export function reports<T>(results: readonly RankResult[]): T[] {
  return results.map(({ rank, stdout, stderr }) => {
    const line = stdout.split('\n').find((candidate) => candidate.startsWith('report '));
    assert(line !== undefined, `rank ${rank} reported nothing\n${stdout}${stderr}`);
    return JSON.parse(line.slice('report '.length)) as T;
  });
}

export function describeJob(results: readonly RankResult[]): string {
  return results
    .map(({ rank, code, signal, stdout, stderr, killed }) => {
      const end = killed ? 'killed by the test' : signal !== null ? `ended by ${signal}` : `exit code ${code}`;
      return `--- rank ${rank}: ${end}\n${stdout}${stderr}`;
    })
    .join('\n');
}

/**
 * The wrapper that forbids system calls to what it runs (native/test/forbid.cc says which); or null. 'cross-memory' is
 * what a kernel with a strict ptrace scope forbids.
 */
export function forbid(...what: string[]): string[] | null {
  const built = ['plain', 'asan', 'tsan'].map((variant) => join(root, 'build/native-test', variant, 'forbid'));
  const found = built.find(existsSync);
  return found === undefined ? null : [found, what.join()];
}

/**
 * Skips a test, or all tests of a suite if its `before` calls this, with a reason; where everything is required, fails
 * instead. scripts/test/reporter.cjs tells the reason.
 */
export function skip(context: Mocha.Context, reason: string): never {
  if (process.env['NBC_REQUIRE_ALL'] === '1') throw new Error(`required, but ${reason}`);
  const running = context.test as Mocha.Runnable & { type?: string };
  const suite = running.type === 'hook' && running.title.startsWith('"before all"');
  const place: object | undefined = suite ? running.parent : (context.currentTest ?? running);
  Object.assign(place!, { skipReason: reason });
  console.log(`      skipped: ${reason}`);
  context.skip();
}

async function endOf(
  child: ChildProcess,
  rank: number,
  onLine: JobOptions['onLine'],
): Promise<Omit<RankResult, 'killed'>> {
  let stdout = '';
  let stderr = '';
  let seen = 0;
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (onLine === undefined) return;
    for (let end = stdout.indexOf('\n', seen); end >= 0; end = stdout.indexOf('\n', seen)) {
      onLine(stdout.slice(seen, end), rank, child);
      seen = end + 1;
    }
  });
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ rank, code, signal, stdout, stderr }));
  });
}
