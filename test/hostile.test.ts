/**
 * Damaged input from outside, of what TypeScript reads: it ends in what was meant or in the error that is defined for
 * it. `npm run fuzz -- NAME` plays more. What native code reads has its fuzzers in native/fuzz.
 */
import { BRIEF } from './helpers.js';
import { corpusOf, HOSTILE, playHostile, playKept } from './support/hostile/index.js';

/** A second or two for each. Some have found something once. `npm run fuzz` plays new ones. */
const CASES: Record<string, number> = { store: 60, pmi: 200, nifti: 1500, schedules: 6000 };

describe('hostile input', () => {
  const given = process.env['NBC_TEST_SEED'];
  for (const name of Object.keys(HOSTILE)) {
    for (const file of corpusOf(name)) {
      it(`of ${name} that is kept ends as it must: ${file}`, () => playKept(name, file));
    }

    it(`of ${name} ends in results or in the errors that are defined`, async () => {
      const cases = Math.ceil(CASES[name] / (BRIEF ? 4 : 1));
      const seeds = Array.from({ length: cases }, (_, seed) => seed);
      for (const seed of given === undefined ? seeds : [Number(given)]) await playHostile(name, seed);
    });
  }
});
