/** nbcrun gives every job a secret of its own, which its ranks share. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { program } from './helpers.js';
import { ROOT } from './support/launch.js';

/** What two ranks of a job find. A secret that nbcrun itself finds is not the job's. */
function secrets(): string[] {
  const args = [join(ROOT, 'dist/cli/nbcrun.js'), '-n', '2', program('secret')];
  const env = { ...process.env, NBC_SECRET: 'a secret of another job' };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env, timeout: 30_000 });
  assert.equal(status, 0, stderr);
  return stdout.trim().split('\n');
}

describe('the secret of a job', function () {
  this.timeout(60_000);

  it('is shared by its ranks, and by no other job', () => {
    const jobs = [secrets(), secrets(), secrets()];
    for (const [zero, one, ...more] of jobs) {
      // As hard to guess as what it keys: 32 bytes in hexadecimal.
      assert.match(zero, /^[0-9a-f]{64}$/);
      assert.equal(one, zero);
      assert.deepEqual(more, []);
    }
    assert.equal(new Set(jobs.flat()).size, jobs.length);
  });
});
