/** Persistent requests, between real processes: started again and again, in any order; their states; and their end. */
import assert from 'node:assert/strict';
import { NbcError, NeighborCommunicator, PersistentRequest } from 'node-nbc';
import { NEIGHBOR_OPERATIONS, OPERATIONS } from 'node-nbc/schedules';
import { playEach, runRanks } from './helpers.js';

describe('persistent requests', () => {
  const settings: Record<string, Record<string, string>> = {
    'the defaults': {},
    'no progress thread': { NBC_PROGRESS: 'manual' },
    "TCP, and the paper's eager limit": { NBC_TRANSPORT: 'tcp', NBC_EAGER_LIMIT: '255' },
  };
  for (const [name, env] of Object.entries(settings)) {
    const play = (scenario: string, size: number, nodeOptions: string[] = []) =>
      runRanks('persistent', { size, args: [scenario], env, nodeOptions });
    describe(`with ${name}`, () => {
      playEach(
        [
          ['are right for every operation, started in any order', 'operations', 3],
          ['keep the messages of their starts apart', 'ahead', 3],
          ['keep them apart under back-pressure', 'congested', 2],
          ['send and receive messages', 'messages', 2],
          ['can be awaited', 'awaited', 2],
          ['say what cannot be done with them', 'states', 2],
        ],
        play,
      );
      it('fail when a peer has gone, each time', () => play('gone', 2));
      it('end with their world', () => play('closed', 2));
      it('give back what they hold when they are dropped', () => play('dropped', 2, ['--expose-gc']));
    });
  }

  it('exist for every operation of the table', () => {
    for (const { name } of [...OPERATIONS, ...NEIGHBOR_OPERATIONS]) {
      assert.equal(typeof (NeighborCommunicator.prototype as never)[`${name.slice(1)}Init`], 'function', name);
    }
  });

  it('are not made by new', () => {
    const construct = PersistentRequest as unknown as new () => unknown;
    assert.throws(() => new construct(), NbcError);
  });
});
