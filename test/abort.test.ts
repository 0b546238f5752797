/** Operations that are given up: communicators that are revoked, and failures that nobody asks about. */
import assert from 'node:assert/strict';
import { BRIEF, reports, runJob, runRanks, TRANSPORTS } from './helpers.js';

/** Some to a job, since to start ranks takes longer than most of them. */
const LARGE = 'large';
const SCENARIOS = [
  'everywhere,afterClose,computes,later,atOnce,afterMismatch',
  LARGE,
  'signals,firedBefore,manyWithOneSignal',
  'promisesFiredBefore,promisesFiredLater,promisesEnded,agreementsLeft,startsTogether',
];
/** In brief each of them is played once. */
const IN_BRIEF: Record<string, readonly string[]> = {
  'shm thread': SCENARIOS.slice(0, 1),
  'tcp manual': SCENARIOS.slice(1, 2),
  'mixed thread': SCENARIOS.slice(2, 3),
  'tcp thread': SCENARIOS.slice(3),
};

describe('a communicator that is revoked, by the program or by a signal,', function () {
  this.timeout(240_000);

  for (const [transport, env] of Object.entries(TRANSPORTS)) {
    for (const mode of ['thread', 'manual']) {
      // What is in flight when a communicator is revoked takes long, and moves in one mode as in the other.
      const all = SCENARIOS.filter((scenario) => scenario !== LARGE || (mode === 'thread') === (transport === 'mixed'));
      for (const scenario of BRIEF ? (IN_BRIEF[`${transport} ${mode}`] ?? []) : all) {
        it(`ends on all ranks: ${scenario} ('${transport}', '${mode}')`, async () => {
          const results = await runRanks('abort', {
            size: 3,
            args: [scenario],
            env: (rank) => ({ ...env(rank), NBC_PROGRESS: mode }),
          });
          assert.equal(reports<string>(results).length, 3);
        });
      }
    }
  }
});

describe('a failure', function () {
  this.timeout(120_000);

  it('that nobody asks about is in one warning when the process ends', async () => {
    for (const end of ['ends', 'exits']) {
      const [{ stderr, code }] = await runJob('unasked', { size: 1, args: [end] });
      assert.equal(code, 0, stderr);
      const lines = stderr.split('\n').filter((line) => line.includes('UnaskedFailureWarning'));
      assert.equal(lines.length, 1, stderr);
      assert.match(lines[0], /UnaskedFailureWarning: 2 requests failed, .*; the first: irecv: /);
    }
  });

  for (const [asks, seen] of [
    ['awaits', 'rejected'],
    ['waits', 'thrown'],
    ['tests', 'thrown'],
    ['waitsForAll', 'thrown'],
    ['awaitsLater', 'rejected'],
  ]) {
    it(`is in no warning where the program ${asks}`, async () => {
      const results = await runJob('unasked', { size: 1, args: [asks] });
      assert.deepEqual(reports<string>(results), [seen]);
      assert.doesNotMatch(results[0].stderr, /Warning/);
    });
  }

  it('carries the lines that start and await its operation, with NBC_DEBUG', async () => {
    for (const debug of ['1', '0']) {
      const results = await runJob('unasked', { size: 1, args: ['lines'], env: { NBC_DEBUG: debug } });
      const [all] = reports<{ calledAt?: string; awaitedAt?: string; message: string }[]>(results);
      assert.equal(all.length, 3);
      for (const { calledAt, awaitedAt, message } of all) {
        if (debug === '0') {
          assert.deepEqual([calledAt, awaitedAt], [undefined, undefined]);
          assert.doesNotMatch(message, /unasked\./);
        } else {
          assert.match(calledAt!, /\/programs\/unasked\.(js|ts):\d+:\d+$/);
          assert.match(awaitedAt!, /\/programs\/unasked\.(js|ts):\d+:\d+$/);
          assert.notEqual(calledAt, awaitedAt);
          assert(
            message.endsWith(`; the program called irecv at ${calledAt!}; it awaits it at ${awaitedAt!}`),
            message,
          );
        }
      }
    }
  });
});
