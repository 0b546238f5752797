/** world.values: values of any kind, on 1 to 4 ranks. */
import { playEach, runRanks } from './helpers.js';

describe('values', () => {
  const settings: Record<string, Record<string, string>> = {
    'the defaults': {},
    'no progress thread': { NBC_PROGRESS: 'manual' },
    TCP: { NBC_TRANSPORT: 'tcp' },
  };
  for (const [name, env] of Object.entries(settings)) {
    const play = (scenario: string, size: number) => runRanks('values', { size, args: [scenario], env });
    describe(`with ${name}`, () => {
      for (const size of [1, 2, 4]) {
        it(`reach the ranks they are for, on ${size} ranks`, () => play('collectives', size));
      }
      playEach(
        [
          ['may be on their way together', 'atOnce', 3],
          ['that cannot be cloned fail on all ranks, and leave the communicator usable', 'failures', 3],
        ],
        play,
      );
      it('fail when a peer has gone', () => play('gone', 2));
    });
  }
});
