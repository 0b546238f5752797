/** igatherv: programs/igatherv.ts on several numbers of ranks. */
import assert from 'node:assert/strict';
import { BRIEF, modes, reports, runRanks } from './helpers.js';

describe('igatherv', () => {
  for (const size of BRIEF ? [3, 8] : [2, 3, 5, 8]) {
    for (const mode of modes()) {
      it(`gathers blocks of all sizes from ${size} ranks, progress '${mode}'`, async () => {
        const results = await runRanks('igatherv', { size, env: { NBC_PROGRESS: mode } });
        for (const cases of reports<number>(results)) assert.equal(cases, 3 * 2 * 2 * 2 * size + 1);
      });
    }
  }
});
