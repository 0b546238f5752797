/**
 * Requests: await, wait and test, alone and in groups; time limits; the end of the world and of peers.
 */
import type { ChildProcess } from 'node:child_process';
import { inFull, modes, runRanks } from './helpers.js';

describe('requests', () => {
  const scenarios = {
    awaiting: 'can be awaited, by several, before and after completion, and waited for meanwhile',
    many: 'can be waited for together: waitAll, waitAny, testAll',
    timeouts: 'stay pending after a TimeoutError, and complete later',
    defaultTimeout: 'have the time limit of init(), waited for and awaited',
    closing: 'fail with a ClosedError when the world is closed, as do later calls',
    peerCloses: 'fail with a PeerClosedError when a peer has closed that they need',
    dropped: 'may be dropped',
  };
  for (const [scenario, title] of Object.entries(scenarios)) {
    for (const mode of modes()) {
      it(`${title} ('${mode}')`, async () => {
        const env = { NBC_PROGRESS: mode };
        await runRanks('requests', { size: 2, args: [scenario], env, nodeOptions: ['--expose-gc'] });
      });
    }
  }

  for (const env of [{}, { NBC_TRANSPORT: 'tcp' }]) {
    it(`name the rank that has not come, and the round, in a TimeoutError (${JSON.stringify(env)})`, () =>
      runRanks('requests', { size: 4, args: ['missing'], env: { ...env, NBC_TIMEOUT: '50' } }));
  }

  it('have a limit, also those that are persistent, which the error names', () =>
    runRanks('requests', { size: 1, args: ['persistent'] }));

  inFull('have a limit, and reaching it is an error that passes', async () => {
    const ready: ChildProcess[] = [];
    await runRanks('requests', {
      size: 2,
      args: ['exhaustion'],
      onLine(_line, rank, child) {
        ready[rank] = child;
        if (Object.keys(ready).length === 2) ready[1].kill('SIGUSR2');
      },
    });
  });
});
