/** Ranks that call different collectives all hear of it, by name; ranks that may differ do not. */
import assert from 'node:assert/strict';
import { BRIEF, reports, runRanks, TRANSPORTS } from './helpers.js';
import type { Counted, Debugged } from './programs/mismatch.js';

type Found = Record<string, { message: string; ranks: [number, number]; names: [string, string]; calls: number }>;

/** Beside what the progress thread does, ranks call test(), or await. */
const MODES = ['thread', 'manual', 'awaits'];
/** In brief each mode is played once. */
const IN_BRIEF: Record<string, readonly string[]> = { shm: ['awaits'], tcp: ['manual'], mixed: ['thread'] };

/** Up to so many bytes a message leaves before its receiver can disagree: the default of option `eagerLimit`. */
const EAGER = 255;

describe('calls that differ', function () {
  this.timeout(240_000);
  const sizes = BRIEF ? [3] : [2, 3, 4, 8];

  for (const debug of ['1', '0']) {
    it(`are named with the lines of the program where NBC_DEBUG is ${debug}`, async () => {
      const results = await runRanks('mismatch', { size: 2, args: ['debugged'], env: { NBC_DEBUG: debug } });
      for (const { name, message, calledAt } of reports<Debugged[]>(results).flat()) {
        if (debug === '0') {
          assert.equal(calledAt, null);
          assert.doesNotMatch(message, /the program called/);
        } else {
          assert.match(calledAt!, /\/programs\/mismatch\.(js|ts):\d+:\d+$/);
          assert(message.endsWith(`; the program called ${name} at ${calledAt!}`), message);
        }
      }
    });
  }

  for (const [transport, env] of Object.entries(TRANSPORTS)) {
    for (const size of sizes) {
      for (const mode of BRIEF ? IN_BRIEF[transport] : size === 3 ? MODES : ['thread']) {
        it(`fail on all of ${size} ranks, with both calls named ('${transport}', '${mode}')`, async () => {
          const results = await runRanks('mismatch', {
            size,
            args: ['differences'],
            env: (rank) => ({
              ...env(rank),
              NBC_PROGRESS: mode === 'manual' ? 'manual' : 'thread',
              TEST_AWAITS: mode === 'awaits' ? '1' : '0',
            }),
          });
          const all = reports<Found>(results);
          for (const [rank, found] of all.entries()) {
            for (const [difference, { message, ranks, names }] of Object.entries(found)) {
              const what = `${difference}, rank ${rank}: ${message}`;
              for (const name of names) assert(message.includes(name), what);
              assert.match(message, new RegExp(`rank ${ranks[0]} of the world called .* rank ${ranks[1]} `), what);
            }
          }
        });
      }

      it(`are not those that may differ ('${transport}', ${size} ranks)`, async () => {
        const results = await runRanks('mismatch', { size, args: ['legal'], env });
        assert.equal(reports<string>(results).length, size);
      });
    }

    it(`follow where a rank goes on after a call that was refused ('${transport}')`, async () => {
      const results = await runRanks('mismatch', { size: 3, args: ['refused'], env });
      assert.equal(reports<string>(results).length, 3);
    });

    it(`leave something over, which close() tells ('${transport}')`, async () => {
      const results = await runRanks('mismatch', { size: 2, args: ['leftOver'], env });
      const [zero, one] = reports<string[]>(results);
      assert.deepEqual(zero, []);
      assert.equal(one.length, 1, String(one));
      assert.match(one[0], /^close: rank 0 of the world has called ibcast \(root 0, .*which rank 1 has not called$/);
    });

    it(`end where a rank closes the communicator without the call in which the others wait ('${transport}')`, async () => {
      const results = await runRanks('mismatch', { size: 3, args: ['closedWithout'], env });
      const [zero, one, two] = reports<Record<string, string[]>>(results);
      assert.deepEqual(one, {});
      for (const [name, call] of [
        ['a barrier', 'ibarrier'],
        ['values of all', 'values.allgather'],
        ['a split', 'split'],
      ]) {
        for (const message of [...zero[name], ...two[name]]) {
          assert.match(message, /rank [02] of the world has called .*, which rank 1 has not called$/, name);
          assert(message.includes(`has called ${call}`), message);
        }
        assert.deepEqual([zero[name].length, two[name].length], [2, 2], name);
      }
    });

    it(`are not those whose counts of a block disagree: these fail where it is too short or too long ('${transport}')`, async () => {
      const results = await runRanks('mismatch', { size: 3, args: ['counts'], env });
      const ranks = reports<Counted[]>(results);
      for (const [index, { name, sent, receiver }] of ranks[0].entries()) {
        const outcomes = ranks.map((of) => of[index]);
        const what = `${name}, ${sent} bytes sent to rank ${receiver}: ${JSON.stringify(outcomes)}`;
        const truncated = [0, 1, 2].filter((rank) => outcomes[rank].failure === 'TruncatedError');
        // The sender of a small message does not hear of it; of a large one, both do, each perhaps by the other's end.
        if (sent <= EAGER) assert.deepEqual(truncated, [receiver], what);
        assert(truncated.length > 0 && outcomes[receiver].failure !== null, what);
        if (sent > EAGER) assert(outcomes[1 - receiver].failure !== null, what);
        for (const { failure, origin } of outcomes)
          assert(failure !== 'AbandonedError' || truncated.includes(origin!), what);
      }
    });

    it(`are told by close() where no call is left ('${transport}')`, async () => {
      const results = await runRanks('mismatch', { size: 2, args: ['atTheEnd'], env });
      assert.deepEqual(reports<string>(results), ['told', 'told']);
    });
  }
});
