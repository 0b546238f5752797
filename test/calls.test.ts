/**
 * Random calls with random arguments: nothing that a program does from JavaScript crashes the process, all errors are
 * typed, and all requests settle. `npm run fuzz` plays more, with the addon under AddressSanitizer.
 */
import { BRIEF } from './helpers.js';
import { playCalls } from './support/calls.js';

/** Seeds that have found something once. */
const KEPT: readonly number[] = [];
const SEEDS = BRIEF ? 3 : 12;

describe('random calls', () => {
  const all = process.env['NBC_TEST_SEED'];
  const first = all === undefined ? Math.floor(Math.random() * 1e6) : Number(all);
  for (let turn = 0; turn < (all === undefined ? SEEDS : 1); turn++) {
    it(`of seed ${first + turn} end in results or typed errors`, () => playCalls(first + turn));
  }
  for (const seed of BRIEF ? [] : KEPT) it(`of seed ${seed}, which found something once`, () => playCalls(seed));
});
