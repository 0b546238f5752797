/** communicator.start with schedules of the program's own, and the example that shows it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { runRanks } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

describe("schedules of the program's own", () => {
  const settings: Record<string, Record<string, string>> = {
    'the defaults': {},
    'TCP and no progress thread': { NBC_TRANSPORT: 'tcp', NBC_PROGRESS: 'manual' },
  };
  for (const [name, env] of Object.entries(settings)) {
    const play = (scenario: string, size: number) => runRanks('schedules', { size, args: [scenario], env });
    it(`run beside other collectives, with ${name}`, () => play('runs', 5));
    it(`are refused if they cannot run, with ${name}`, () => play('refused', 2));
  }

  for (const size of [1, 2, 5]) {
    it(`make the collective of examples/statistics on ${size} ranks`, async () => {
      const main = join(ROOT, 'out/examples/statistics/main.js');
      const args = [join(ROOT, 'dist/cli/nbcrun.js'), '-n', String(size), main];
      const { code, stdout, stderr } = await run(process.execPath, args);
      assert.equal(code, 0, stdout + stderr);
      assert.match(stdout, new RegExp(`1000 values of ${size} ranks, verified; the first: minimum -500,`));
    });
  }
});
