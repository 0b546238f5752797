/** Plain buffers where the kernel lets no process into another's memory: found out at run time, and worked around. */
import assert from 'node:assert/strict';
import { forbid, reports, runRanks, skip } from './helpers.js';

interface Report {
  stagedBytes: number;
  crossMemoryBytes: number;
}

/** Bytes of short messages that a rank sends to each other one from plain buffers: these are staged anyhow. */
const SHORT = 5000;

describe('without cross-memory attach', () => {
  function checkStaged(all: readonly Report[]): void {
    for (const { stagedBytes, crossMemoryBytes } of all) {
      assert(stagedBytes > SHORT, 'nothing was staged but short messages');
      assert.equal(crossMemoryBytes, 0);
    }
  }

  for (const progress of ['thread', 'manual']) {
    const env = { NBC_PROGRESS: progress };
    it(`pieces are staged when the option says so, progress '${progress}'`, async () => {
      const results = await runRanks('fallback', { size: 3, env: { ...env, NBC_CROSS_MEMORY: 'off' } });
      checkStaged(reports<Report>(results));
    });

    it(`pieces are staged when the kernel forbids more, progress '${progress}'`, async function () {
      const wrapper = forbid('cross-memory');
      if (wrapper === null) skip(this, 'native/test/forbid has not been built (npm test builds it)');
      checkStaged(reports<Report>(await runRanks('fallback', { size: 3, env, wrapper })));
    });
  }

  it('only short messages are staged where it is allowed', async function () {
    const all = reports<Report>(await runRanks('fallback', { size: 2 }));
    // The same kernel may forbid it here, too; then the first two tests are about this machine as it is.
    if (all.every(({ crossMemoryBytes }) => crossMemoryBytes === 0))
      skip(this, 'this machine forbids cross-memory attach');
    for (const { stagedBytes } of all) assert.equal(stagedBytes, SHORT);
    assert(all.some(({ crossMemoryBytes }) => crossMemoryBytes > 0));
  });
});
