/**
 * Jobs of more ranks than processors run every operation. bench/many-ranks.ts is the program: it is there for larger
 * jobs, too, which BENCHMARKS.md tells of.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { NEIGHBOR_OPERATIONS, OPERATIONS } from 'node-nbc/schedules';
import { ROOT } from './support/launch.js';
import { run } from './support/commands.js';

const PROGRAM = join(ROOT, 'out/bench/many-ranks.js');
const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');
/** Of a rank, with its part of the mailboxes; 16 are usual. */
const MOST_MIB = 64;

describe('every operation', () => {
  for (const [ranks, threads, processes] of [
    [32, [], 32],
    [48, ['--threads'], 1],
    [48, ['--threads=12'], 4],
  ] as const) {
    it(`of ${ranks} ranks in ${processes === 1 ? 'one process' : `${processes} processes`}`, async () => {
      const { code, stdout, stderr } = await run(process.execPath, [NBCRUN, '-n', `${ranks}`, ...threads, PROGRAM]);
      assert.equal(code, 0, stdout + stderr);
      const [, operations, inAll, there, mib] = (
        /all (\d+) operations are right: (\d+) ranks in (\d+) processes, .* s, (\d+) MiB/.exec(stdout) ?? []
      ).map(Number);
      assert.equal(operations, OPERATIONS.length + NEIGHBOR_OPERATIONS.length, stdout);
      assert.deepEqual([inAll, there], [ranks, processes]);
      assert(mib < ranks * MOST_MIB, `${mib} MiB`);
    });
  }
});
