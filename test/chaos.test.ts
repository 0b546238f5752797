/**
 * Chaos: random collectives on two to eight ranks, of which some are killed, stopped and resumed, or have no descriptor
 * left; a link between networks becomes slow, delays packets, carries them twice, or goes and comes back. All requests
 * settle, what was fulfilled is right; no process, file, descriptor or memory is left. `npm run chaos -- --rounds 300`
 * plays more of it.
 */
import assert from 'node:assert/strict';
import { BRIEF, inFull, skip } from './helpers.js';
import { KINDS, planOf, playChaos } from './support/chaos.js';
import { TwoNetworks } from './support/networks.js';

/** Two seconds of processor time each, over each transport. */
const ROUNDS = BRIEF ? 1 : 7;
const ROUNDS_OF_NETWORKS = Math.ceil(ROUNDS / 3);
/**
 * Of the first round: a change is tested, not luck. From here on, each kind of harm comes in the rounds of a full run.
 * `npm run chaos` plays new ones.
 */
const FIRST = { shm: 1, tcp: 1, networks: 64 };

describe('chaos', () => {
  const given = process.env['NBC_TEST_SEED'];
  const seedsOf = (transport: keyof typeof FIRST): number[] => {
    if (given !== undefined) return [Number(given)];
    const rounds = transport === 'networks' ? ROUNDS_OF_NETWORKS : ROUNDS;
    return Array.from({ length: rounds }, (_, round) => FIRST[transport] + round);
  };

  for (const transport of ['shm', 'tcp'] as const) {
    for (const seed of seedsOf(transport)) {
      it(`of seed ${seed} over ${transport} leaves right results, typed errors and nothing else`, async () => {
        await playChaos(seed, transport);
      });
    }
  }

  for (const seed of seedsOf('networks')) {
    it(`of seed ${seed} between two networks leaves right results, typed errors and nothing else`, async function () {
      const networks = await TwoNetworks.make();
      if (typeof networks === 'string') skip(this, networks);
      try {
        await playChaos(seed, 'networks', networks);
      } finally {
        networks.remove();
      }
    });
  }

  for (const transport of ['shm', 'tcp', 'networks'] as const) {
    inFull(`does each kind of harm in these rounds (${transport})`, async function () {
      if (given !== undefined) skip(this, 'NBC_TEST_SEED names one round');
      const plans = seedsOf(transport).map((seed) => planOf(seed, transport));
      const kinds = new Set(plans.flatMap(({ harm }) => harm.map(({ kind }) => kind)));
      assert.deepEqual([...kinds].sort(), [...new Set(KINDS[transport])].sort());
      if (transport !== 'networks' && process.getuid?.() === 0) assert(plans.some(({ fullShm }) => fullShm));
    });
  }
});
