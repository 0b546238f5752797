/** Every kind of buffer there is, in every operation. */
import assert from 'node:assert/strict';
import { modes, reports, runRanks } from './helpers.js';

describe('buffers', () => {
  for (const mode of modes()) {
    it(`may be all typed arrays, Buffer and DataView, with offsets, plain, exposed and shared ('${mode}')`, async () => {
      const results = await runRanks('views', { size: 3, env: { NBC_PROGRESS: mode } });
      for (const kinds of reports<number>(results)) assert(kinds > 50);
    });
  }
});
