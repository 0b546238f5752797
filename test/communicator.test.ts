/** Communicators made from communicators: who is in them, and that none hears another's messages. */
import { runRanks } from './helpers.js';

describe('communicators', () => {
  for (const env of [{}, { NBC_PROGRESS: 'manual' }]) {
    const mode = 'NBC_PROGRESS' in env ? "'manual'" : "'thread'";
    const play = (scenario: string, size: number) => runRanks('communicator', { size, args: [scenario], env });
    it(`split by color and key, progress ${mode}`, () => play('split', 5));
    it(`keep their operations apart, progress ${mode}`, () => play('isolation', 4));
    it(`can be made several at a time, progress ${mode}`, () => play('concurrent', 3));
  }
});
