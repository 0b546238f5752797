/** The survivor example: ranks that are killed at different moments, and a solution that is right all the same. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { largestResidual } from '../examples/survivor/rows.js';
import { BRIEF } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

const MAIN = join(ROOT, 'out/examples/survivor/main.js');
const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');

const solve = (ranks: number, args: string[], env: Record<string, string> = {}) =>
  run(process.execPath, [NBCRUN, '-n', String(ranks), '--on-failure=continue', MAIN, ...args], env);

describe('examples/survivor', () => {
  it('finds a solution that is wrong', () => {
    // With no heat anywhere each equation misses what comes in, which is between 0 and 3.
    const missed = largestResidual(new Float64Array(16 * 16), 16);
    assert(missed > 1 && missed <= 3, `${missed}`);
  });

  // The seed chooses who is lost: the first rank, one in the middle, the last one.
  const cases = BRIEF
    ? [['shm', 4]]
    : [0, 1, 3].flatMap((seed) => [['shm', seed] as const, ['tcp', seed + 4] as const]);
  for (const [transport, seed] of cases) {
    it(`goes on from a checkpoint when a rank is lost (${transport}, seed ${seed})`, async () => {
      const { code, stdout, stderr } = await solve(4, [String(seed), '32'], { NBC_TRANSPORT: String(transport) });
      assert.equal(code, 0, stdout + stderr);
      assert.match(
        stdout,
        /^1024 equations solved by 3 ranks, which went on from the checkpoint of iteration \d+; 1 lost; verified$/m,
      );
      assert.match(
        stderr,
        new RegExp(`^nbcrun: rank ${Number(seed) % 4} .* was ended by SIGKILL; going on with 3 ranks$`, 'm'),
      );
    });
  }

  it('fails if its only rank is lost', async () => {
    const { code, stderr } = await solve(1, ['0', '32']);
    assert.equal(code, 137, stderr);
  });
});
