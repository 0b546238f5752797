/** isend, irecv and startall between real processes: order, matching, and what happens when nothing is free. */
import { runRanks } from './helpers.js';

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
    describe(`with ${name}`, () => {
      it('of one tag arrive in order, whatever their sizes', () => play('order', 3));
      it('find the receive of their tag', () => play('tags', 2));
      it('may go to oneself', () => play('self', 2));
      it('cross in both directions', () => play('both', 2));
      it('may have no bytes', () => play('zero', 2));
      it('may be shorter than their receive, which tells their size', () => play('shorter', 2));
      it('go both ways in one request', () => play('sendrecv', 3));
      it('that go both ways fail where one is too long', () => play('sendrecvSizes', 2));
      it('wait for slots and RTRs, and lose nothing', () => play('exhaustion', 2));
    });
  }
});
