/**
 * Random programs of overlapping operations, started in the same order by all ranks and awaited in random order,
 * against a serial model of the same program. They mix all collectives, those between neighbours, and messages. Some
 * are plain, some persistent and started again later. They take plain buffers and layouts, on communicators that dup,
 * split, cart and distGraph make.
 *
 * A failure prints its seed and the program. To repeat it: NBC_TEST_SEED=<seed>; NBC_TEST_RUNS=<n> runs more programs;
 * NBC_TEST_SHRINK=1 looks for a smaller program that fails.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { NEIGHBOR_OPERATIONS, OPERATIONS } from 'node-nbc/schedules';
import { CROSS_MEMORY, reports, runRanks } from './helpers.js';
import { type Outcome, runSerially } from './model.js';
import { type CollectiveStep, MAX_SHIFT, type Plan, type Settings, type Step } from './programs/plan.js';

const MOST_RANKS = 5;
const RUNS = Number(process.env['NBC_TEST_RUNS'] ?? 5);

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
/** One in three. */
const persistent = fc.constantFrom(false, false, true);
/** None in half of the steps. */
const layout = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 1000 }));
const tag = fc.constantFrom(0, 1, 32767);

function collective(names: readonly CollectiveStep['kind'][]): fc.Arbitrary<CollectiveStep> {
  return fc.record({
    kind: fc.constantFrom(...names),
    communicator: index,
    bytes,
    root: index,
    algorithm,
    inPlace: fc.boolean(),
    gaps: fc.boolean(),
    persistent,
    layout,
    choice,
    shift,
  });
}

const cart = fc.record({
  kind: fc.constant('cart' as const),
  parent: index,
  shape: fc.nat(4),
  periods: fc.constantFrom(7, 7, 5, 2, 0),
});
const graph = fc.record({ kind: fc.constant('graph' as const), parent: index, seed: fc.nat() });

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
  { weight: 1, arbitrary: cart },
  { weight: 1, arbitrary: graph },
  { weight: 12, arbitrary: collective(OPERATIONS.map(({ name }) => name)) },
  { weight: 6, arbitrary: collective(NEIGHBOR_OPERATIONS.map(({ name }) => name)) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('message' as const),
      communicator: index,
      bytes,
      from: index,
      distance: index,
      tag,
      persistent,
      layout,
      choice,
      shift,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('exchange' as const),
      communicator: index,
      bytes,
      distance: index,
      wraps: fc.boolean(),
      tag,
      layout,
      choice,
      shift,
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('again' as const), of: index }) },
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
    // There are neighbours from the beginning.
    steps: fc
      .tuple(cart, graph, fc.array(step, { minLength: 20, maxLength: 80, size: 'max' }))
      .map(([first, second, others]) => [first, second, ...others]),
    order: fc.integer(),
  });
}

async function agreesWithModel(plan: Plan): Promise<void> {
  const args = [JSON.stringify(plan)];
  const results = await runRanks('property', { size: plan.ranks, args });
  const expected = runSerially(plan);
  for (const [rank, outcome] of reports<Outcome>(results).entries()) {
    for (const [at, hash] of Object.entries(expected[rank].hashes)) {
      const what = `rank ${rank}: result of step ${at}, ${JSON.stringify(plan.steps[Number(at)])}`;
      assert.equal(outcome.hashes[Number(at)], hash, what);
    }
    assert.deepEqual(outcome, expected[rank], `rank ${rank}: steps done, and all buffers at the end`);
  }
}

describe('random programs', () => {
  const seed = process.env['NBC_TEST_SEED'];
  const parameters: fc.Parameters<[Plan]> = {
    numRuns: RUNS,
    endOnFailure: process.env['NBC_TEST_SHRINK'] !== '1',
    ...(seed === undefined ? {} : { seed: Number(seed) }),
  };

  for (const crossMemory of CROSS_MEMORY) {
    for (const eagerLimit of [255, 0, 8192, undefined]) {
      const name = eagerLimit === undefined ? 'the default eager limit' : `eager limit ${eagerLimit}`;
      it(`do what the model does, ${name}, crossMemory '${crossMemory}'`, () =>
        fc.assert(fc.asyncProperty(plans(eagerLimit, crossMemory), agreesWithModel), parameters));
    }
  }
});
