/** isend, irecv and startall between real processes: order, matching, and what happens when nothing is free. */
import { playEach, runRanks } from './helpers.js';

describe('point-to-point messages', () => {
  const settings: Record<string, Record<string, string>> = {
    'the defaults': {},
    "the paper's eager limit": { NBC_EAGER_LIMIT: '255' },
    'no progress thread': { NBC_PROGRESS: 'manual' },
    'staging only': { NBC_CROSS_MEMORY: 'off' },
    TCP: { NBC_TRANSPORT: 'tcp' },
  };
  for (const [name, env] of Object.entries(settings)) {
    const play = (scenario: string, size: number) => runRanks('p2p', { size, args: [scenario], env });
    describe(`with ${name}`, () =>
      playEach(
        [
          ['of one tag arrive in order, whatever their sizes', 'order', 3],
          ['find the receive of their tag', 'tags', 2],
          ['may go to oneself', 'self', 2],
          ['cross in both directions', 'both', 2],
          ['may have no bytes', 'zero', 2],
          ['may be shorter than their receive, which tells their size', 'shorter', 2],
          ['go both ways in one request', 'sendrecv', 3],
          ['that go both ways fail where one is too long', 'sendrecvSizes', 2],
          ['wait for slots and RTRs, and lose nothing', 'exhaustion', 2],
        ],
        play,
      ));
  }
});
