/** Persistent requests, between real processes: started again and again, in any order; their states; and their end. */
import assert from 'node:assert/strict';
import { NbcError, NeighborCommunicator, PersistentRequest } from 'node-nbc';
import { NEIGHBOR_OPERATIONS, OPERATIONS } from 'node-nbc/schedules';
import { runRanks } from './helpers.js';

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
      it('are right for every operation, started in any order', () => play('operations', 3));
      it('keep the messages of their starts apart', () => play('ahead', 3));
      it('keep them apart under back-pressure', () => play('congested', 2));
      it('send and receive messages', () => play('messages', 2));
      it('can be awaited', () => play('awaited', 2));
      it('say what cannot be done with them', () => play('states', 2));
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
