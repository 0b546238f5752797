/**
 * All operations on one to 8 ranks, and on 12, 16 and 17, a job for each number of ranks and progress mode;
 * programs/collectives.ts says what it runs. On three and four ranks the two modes share the cases, and each case has
 * both eager limits. From five ranks on, a number of ranks has one mode. NBC_TEST_BRIEF leaves some numbers
 * (NBC_TEST_RANKS), which share the cases.
 */
import assert from 'node:assert/strict';
import { BRIEF, reports, runRanks } from './helpers.js';
import { LIMIT_S } from './support/limit.js';
import { witnessLanes } from './support/ucx-lanes.js';

/** The simulator has the others (schedules/algorithms.test.ts). */
const SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17];
const MOST_IN_FULL = 4;
/** In full each mode has all cases; on more ranks they take 5 s instead of 17 if the modes share them. */
const MOST_ALL_CASES = 2;
/** What many ranks do takes long where they share few processors. */
const MOST_IN_SHORT = 8;
const IN_BRIEF = (process.env['NBC_TEST_RANKS'] ?? '2,3,4,5,8').split(',').map(Number);
/** What counts data that went past the mailboxes. */
const MOVED =
  { verbs: 'workRequests', tcp: 'bytesReceived', ucx: 'ucxPuts' }[process.env.NBC_TRANSPORT ?? ''] ?? 'mappedBytes';

/** Where the test names the networks of UCX, they are those that it uses. */
const WITNESSED = process.env['NBC_TRANSPORT'] === 'ucx' && process.env['UCX_TLS'] !== undefined;

/** Of each rank. */
const LEAST_CASES = 300;

function formOf(size: number): string {
  if (size <= MOST_IN_FULL) return 'full';
  return size <= MOST_IN_SHORT ? 'short' : 'once';
}

/** Which part of the cases a job runs, of how many. */
function shareOf(size: number, mode: string): [turn: number, jobs: number] {
  if (BRIEF) return [IN_BRIEF.indexOf(size), IN_BRIEF.length];
  const shared = size > MOST_ALL_CASES && size <= MOST_IN_FULL;
  return shared ? [mode === 'thread' ? 0 : 1, 2] : [0, 1];
}

interface Report {
  cases: number;
  stats: Record<string, number>;
}

describe('collectives', () => {
  for (const size of SIZES) {
    if (BRIEF && !IN_BRIEF.includes(size)) continue;
    for (const mode of ['thread', 'manual'] as const) {
      const fewer = BRIEF || size > MOST_IN_FULL;
      const form = BRIEF ? 'once' : formOf(size);
      if (fewer && mode !== (size % 2 === 1 ? 'manual' : 'thread')) continue;
      // The eager limits take turns: the paper's and the default one, in full each with both modes.
      const small = fewer ? size % 4 < 2 : (mode === 'thread') === (size % 2 === 0);
      const eagerLimit = small ? '255' : undefined;
      const limit = eagerLimit === undefined ? '' : `, eager limit ${eagerLimit}`;
      it(`are right on ${size} rank${size > 1 ? 's' : ''}, progress '${mode}'${limit}, form '${form}'`, async () => {
        const [turn, jobs] = shareOf(size, mode);
        const run = (env: Record<string, string>) =>
          runRanks('collectives', {
            size,
            args: [mode, form, `${turn}`, `${jobs}`],
            env: { ...env, NBC_EAGER_LIMIT: eagerLimit },
            limitS: LIMIT_S.long,
          });
        const results = WITNESSED && size > 1 ? await witnessLanes(size, run) : await run({});
        for (const { cases, stats } of reports<Report>(results)) {
          assert(cases > LEAST_CASES / jobs, 'the cases were run');
          if (size === 1) continue;
          // Each path was taken, or the test tests less than it says.
          assert(stats['eagerSent'] > 0);
          assert(stats['rtrSent'] > 0);
          assert(stats[MOVED] > 0);
          assert.equal(stats['allocatedBytes'] > 0, true);
        }
      });
    }
  }
});
