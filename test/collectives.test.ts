/**
 * All operations on up to 17 ranks, a job for each number of ranks and progress mode; programs/collectives.ts says what
 * it runs. From five ranks on, a number of ranks has one mode. NBC_TEST_BRIEF leaves some numbers (NBC_TEST_RANKS),
 * which share the cases.
 */
import assert from 'node:assert/strict';
import { BRIEF, reports, runRanks } from './helpers.js';
import { LIMIT_S } from './support/limit.js';

const SIZES = Array.from({ length: 17 }, (_, index) => index + 1);
const MOST_IN_FULL = 4;
/** What many ranks do takes long where they share few processors. */
const MOST_IN_SHORT = 8;
const IN_BRIEF = (process.env['NBC_TEST_RANKS'] ?? '2,3,4,5,8').split(',').map(Number);
/** What counts data that went past the mailboxes. */
const MOVED = { verbs: 'workRequests', tcp: 'bytesReceived' }[process.env.NBC_TRANSPORT ?? ''] ?? 'mappedBytes';

/** Of each rank. */
const LEAST_CASES = BRIEF ? 300 / IN_BRIEF.length : 300;

function formOf(size: number): string {
  if (size <= MOST_IN_FULL) return 'full';
  return size <= MOST_IN_SHORT ? 'short' : 'once';
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
        const env = { NBC_EAGER_LIMIT: eagerLimit };
        const results = await runRanks('collectives', {
          size,
          args: [mode, form, ...(BRIEF ? [`${IN_BRIEF.indexOf(size)}`, `${IN_BRIEF.length}`] : [])],
          env,
          limitS: LIMIT_S.long,
        });
        for (const { cases, stats } of reports<Report>(results)) {
          assert(cases > LEAST_CASES, 'the cases were run');
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
