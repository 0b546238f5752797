/** While no message can move, the progress thread sleeps. */
import assert from 'node:assert/strict';
import { reports, runRanks } from './helpers.js';

describe('while nothing can move, the progress thread sleeps', () => {
  for (const meanwhile of ['wait', 'await', 'compute']) {
    it(meanwhile, async () => {
      const results = await runRanks('waiting', { size: 2, args: [meanwhile] });
      const [, { progressWakeups, progressPasses }] =
        reports<Record<'progressWakeups' | 'progressPasses', number>>(results);
      // It looks some thirty times, less and less often. Looking every 50 µs would make 20 000.
      assert.ok(progressWakeups < 300, `${progressWakeups} wake-ups`);
      assert.ok(progressPasses < 1000, `${progressPasses} passes`);
    });
  }
});
