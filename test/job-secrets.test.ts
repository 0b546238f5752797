/** nbcrun gives every job a secret of its own, which its ranks share. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { program } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

/** What two ranks of a job find. A secret that nbcrun itself finds is not the job's. */
async function secrets(): Promise<string[]> {
  const args = [join(ROOT, 'dist/cli/nbcrun.js'), '-n', '2', program('secret')];
  const env = { NBC_SECRET: 'a secret of another job' };
  const { code, stdout, stderr } = await run(process.execPath, args, env);
  assert.equal(code, 0, stderr);
  return stdout.trim().split('\n');
}

describe('the secret of a job', () => {
  it('is shared by its ranks, and by no other job', async () => {
    const jobs = [await secrets(), await secrets(), await secrets()];
    for (const [zero, one, ...more] of jobs) {
      // As hard to guess as what it keys: 32 bytes in hexadecimal.
      assert.match(zero, /^[0-9a-f]{64}$/);
      assert.equal(one, zero);
      assert.deepEqual(more, []);
    }
    assert.equal(new Set(jobs.flat()).size, jobs.length);
  });
});
