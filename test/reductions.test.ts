/** Reductions of all element types: programs/reductions.ts. What every operation does is in collectives.test.ts. */
import assert from 'node:assert/strict';
import { modes, reports, runRanks } from './helpers.js';

describe('reductions', () => {
  for (const mode of modes()) {
    it(`compute with every type of elements, and with the same bits on every rank ('${mode}')`, async () => {
      const results = await runRanks('reductions', { size: 3, env: { NBC_PROGRESS: mode } });
      for (const cases of reports<number>(results)) assert.equal(cases, 43);
    });
  }
});
