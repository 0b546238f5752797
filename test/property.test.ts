/**
 * Random programs of overlapping collectives and messages on several communicators, started in the same order by all
 * ranks and awaited in random order, against a serial model of the same program.
 *
 * A failure prints its seed and the program. To repeat it: NBC_TEST_SEED=<seed>; NBC_TEST_RUNS=<n> runs more programs;
 * NBC_TEST_SHRINK=1 looks for a smaller program that fails.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { OPERATIONS } from 'node-nbc/schedules';
import { reports, runRanks } from './helpers.js';
import { type Outcome, runSerially } from './model.js';
import { MAX_SHIFT, type Plan, type Settings, type Step } from './programs/plan.js';

const MOST_RANKS = 5;
const RUNS = Number(process.env['NBC_TEST_RUNS'] ?? 12);

/** Around every limit there is: eager, inline, shared copy, segment of a chain; and anything in between. */
const bytes = fc.oneof(
  fc.constantFrom(0, 1, 7, 8, 254, 255, 256, 257, 1000, 4095, 4096, 4097, 15_320, 16_384, 65_535, 65_536, 65_537),
  fc.constantFrom(131_072, 262_145, 524_289, 600_000),
  fc.nat(100_000),
);
const choice = fc.nat(0xffff);
const index = fc.nat(63);
const shift = fc.nat(MAX_SHIFT);
const algorithm = fc.nat(11);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('dup' as const), parent: index }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('split' as const),
      parent: index,
      colors: fc.array(fc.integer({ min: -1, max: 2 }), { minLength: MOST_RANKS, maxLength: MOST_RANKS }),
      keys: fc.array(fc.integer({ min: -2, max: 2 }), { minLength: MOST_RANKS, maxLength: MOST_RANKS }),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constantFrom(...OPERATIONS.map(({ name }) => name)),
      communicator: index,
      bytes,
      root: index,
      algorithm,
      inPlace: fc.boolean(),
      gaps: fc.boolean(),
      choice,
      shift,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('message' as const),
      communicator: index,
      bytes,
      from: index,
      distance: index,
      tag: fc.constantFrom(0, 1, 32767),
      choice,
      shift,
    }),
  },
);

function plans(eagerLimit: number | undefined, crossMemory: 'auto' | 'off'): fc.Arbitrary<Plan> {
  const settings: fc.Arbitrary<Settings> = fc.record({
    crossMemory: fc.constant(crossMemory),
    progress: fc.constantFrom('thread' as const, 'manual' as const),
    testOnInit: fc.boolean(),
    ...(eagerLimit === undefined ? {} : { eagerLimit: fc.constant(eagerLimit) }),
  });
  return fc.record({
    ranks: fc.integer({ min: 2, max: MOST_RANKS }),
    settings,
    steps: fc.array(step, { minLength: 20, maxLength: 80, size: 'max' }),
    order: fc.integer(),
  });
}

async function agreesWithModel(plan: Plan): Promise<void> {
  const args = [JSON.stringify(plan)];
  const results = await runRanks('property', { size: plan.ranks, args, timeoutMs: 30_000 });
  const expected = runSerially(plan);
  for (const [rank, outcome] of reports<Outcome>(results).entries()) {
    for (const [at, hash] of Object.entries(expected[rank].hashes)) {
      const what = `rank ${rank}: result of step ${at}, ${JSON.stringify(plan.steps[Number(at)])}`;
      assert.equal(outcome.hashes[Number(at)], hash, what);
    }
    assert.deepEqual(outcome, expected[rank], `rank ${rank}: steps done, and all buffers at the end`);
  }
}

describe('random programs', function () {
  this.timeout(600_000);
  const seed = process.env['NBC_TEST_SEED'];
  const parameters: fc.Parameters<[Plan]> = {
    numRuns: RUNS,
    endOnFailure: process.env['NBC_TEST_SHRINK'] !== '1',
    ...(seed === undefined ? {} : { seed: Number(seed) }),
  };

  for (const crossMemory of ['auto', 'off'] as const) {
    for (const eagerLimit of [255, 0, 8192, undefined]) {
      const name = eagerLimit === undefined ? 'the default eager limit' : `eager limit ${eagerLimit}`;
      it(`do what the model does, ${name}, crossMemory '${crossMemory}'`, () =>
        fc.assert(fc.asyncProperty(plans(eagerLimit, crossMemory), agreesWithModel), parameters));
    }
  }
});
