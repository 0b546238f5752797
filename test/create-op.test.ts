/** Operators of the program's own, between real processes: functions on the event loop, and modules in workers. */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BRIEF, reports, runRanks } from './helpers.js';
import { LIMIT_S } from './support/limit.js';

/** Preloaded by the main thread and by workers: it fails in the workers of rank 1. */
const PRELOADED = `import { isMainThread } from 'node:worker_threads';
if (!isMainThread && process.env.NBC_RANK === '1') throw new Error('preloaded')`;

/** What makes a worker fail before it has a function, in one job; after 'unstarted' there are no workers any more. */
const CAUSES = 'syntax,thrown,value,exit,unsettled,uncaught,rejected,noFunction,missing,unstarted';
/** The same for causes that take options of node. */
const FAILING_WORKERS = [
  ['memory', '--max-old-space-size=48'],
  ['preload', `--import=data:text/javascript,${encodeURIComponent(PRELOADED)}`],
];

describe("operators of the program's own", () => {
  const settings: Record<string, Record<string, string>> = {
    'shared memory': { NBC_TRANSPORT: 'shm' },
    'shared memory, no progress thread': { NBC_TRANSPORT: 'shm', NBC_PROGRESS: 'manual' },
    TCP: { NBC_TRANSPORT: 'tcp', NBC_EAGER_LIMIT: '255' },
    'TCP, no progress thread': { NBC_TRANSPORT: 'tcp', NBC_PROGRESS: 'manual' },
  };
  for (const [name, env] of Object.entries(settings)) {
    if (BRIEF && name.endsWith('no progress thread')) continue;
    const play = (scenario: string, size: number, args: readonly string[] = [], more: Record<string, string> = {}) =>
      runRanks('create-op', {
        size,
        args: [scenario, ...args],
        env: { ...env, ...more },
        nodeOptions: ['--expose-gc'],
        limitS: LIMIT_S.long,
      });
    describe(`over ${name}`, () => {
      for (const size of BRIEF && name === 'TCP' ? [] : BRIEF || name !== 'shared memory' ? [3] : [2, 5]) {
        it(`compute every reduction, with every algorithm, on ${size} ranks`, async () => {
          for (const cases of reports<number>(await play('operations', size))) assert(cases > 300, `${cases}`);
        });
      }
      it('that throw fail the ranks that need the result, and nothing else', () => play('throws', 4));
      // What is left has little to do with the transport.
      if (BRIEF && name === 'TCP') return;
      it('get views of the element type, count for limits of time, and say what a function may not do', () =>
        play('types,limits,mistakes', 2));
      it('are refused where arguments are wrong', () => play('arguments', 2));
      it('need no call but the event loop, and compute for several requests at once, persistent ones, too', () =>
        play('eventLoop,several', 3));
      // How a worker fails has nothing to do with the transport; how its rank learns of it, with the progress thread.
      const causes = name === 'shared memory' ? CAUSES : 'thrown';
      for (const [cause, ...nodeOptions] of [[causes], ...FAILING_WORKERS]) {
        it(`fail where their worker does: ${cause}`, () =>
          runRanks('create-op', { size: 3, args: ['failingWorkers', cause], env, nodeOptions }));
      }
      it('end with their world', () => play('closed', 2));
      it('may close the world, within wait', () => play('closes', 2, ['wait']));
      it('may close the world, on the event loop', () => play('closes', 2, ['await']));
      it('may end the process', () => play('gone', 3));
      it('in workers let the process end', () => play('exit', 2));
      it('in workers let the process exit', () => play('exit', 2, ['exit']));
      if (env['NBC_PROGRESS'] !== 'manual') {
        it('in workers need no event loop', () => {
          const file = join(tmpdir(), `nbc-create-op-${process.pid}-${env['NBC_TRANSPORT']}`);
          return play('busy', 3, [], { TEST_FILE: file });
        });
      }
    });
  }
});
