/**
 * Chaos: random collectives on two to eight ranks, of which some are killed, stopped and resumed, or have no descriptor
 * left; a link between networks becomes slow, or goes and comes back. All requests settle, what was fulfilled is right,
 * no process is left. `npm run chaos -- --rounds 300` plays more of it.
 */
import { BRIEF, skip } from './helpers.js';
import { playChaos } from './support/chaos.js';
import { TwoNetworks } from './support/networks.js';

/** Two seconds of processor time each, over each transport. */
const ROUNDS = BRIEF ? 1 : 7;
/** Of the first round: a change is tested, not luck. `npm run chaos` plays new ones. */
const FIRST = 1;

describe('chaos', () => {
  const given = process.env['NBC_TEST_SEED'];
  const first = given === undefined ? FIRST : Number(given);
  for (const transport of ['shm', 'tcp'] as const) {
    for (let seed = first; seed < first + (given === undefined ? ROUNDS : 1); seed++) {
      it(`of seed ${seed} over ${transport} leaves right results, typed errors and nothing else`, async () => {
        await playChaos(seed, transport);
      });
    }
  }

  for (let seed = first; seed < first + (given === undefined ? Math.ceil(ROUNDS / 3) : 1); seed++) {
    it(`of seed ${seed} between two networks leaves right results and typed errors`, async function () {
      const networks = await TwoNetworks.make();
      if (typeof networks === 'string') skip(this, networks);
      try {
        await playChaos(seed, 'networks', networks);
      } finally {
        networks.remove();
      }
    });
  }
});
