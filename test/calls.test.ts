/**
 * Random calls with random arguments: nothing that a program does from JavaScript crashes the process, all errors are
 * typed, and all requests settle. `npm run fuzz` plays more, with the addon under AddressSanitizer.
 */
import { BRIEF } from './helpers.js';
import { playCalls } from './support/calls.js';

/** Some of them have found something once. `npm run fuzz` plays new ones. */
const SEEDS = BRIEF ? [1, 104, 206] : [1, 2, 3, 4, 7, 8, 9, 15, 104, 206, 209, 778_472];

describe('random calls', () => {
  const given = process.env['NBC_TEST_SEED'];
  for (const seed of given === undefined ? SEEDS : [Number(given)]) {
    it(`of seed ${seed} end in results or typed errors`, () => playCalls(seed));
  }
});
