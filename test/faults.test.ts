/**
 * Over a network: ranks that are killed, and a link that is interrupted, in the middle of a large message. The
 * survivors hear of it within bounded time, and nothing is written outside the memory that was exposed.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeJob, reports, runJob, runRanks } from './helpers.js';

interface End {
  codes: string[];
  /** Milliseconds until the last one had failed. */
  elapsed: number;
}

/** A peer that says nothing is asked after a second, and has two to answer; with time for a busy machine. */
const KNOWN_WITHIN_MS = 15_000;

/** What leaves a rank for another goes over the link between the two: neighbours by number are on different devices. */
const DEVICES = 'rxc,rxd';

describe('in the middle of a large message', () => {
  if (process.env['NBC_TRANSPORT'] !== 'verbs') return;
  // scripts/guest/link: it has to be there, and may be interrupted. Without it a message can be over before a busy
  // machine lets a rank see its middle.
  const link = process.env['NBC_TEST_LINK'];
  if (link === undefined) return;

  const change = (...commands: string[]): void => {
    for (const command of commands) execFileSync(link, [command]);
  };
  // Whatever became of the test before.
  beforeEach(() => change('up', 'free'));
  after(() => change('up', 'free'));

  it('a sender or a receiver that is killed fails the requests of its peer, and no others', async () => {
    change('slow');
    const env = { NBC_VERBS_DEVICE: DEVICES };
    const results = await runJob('faults', { size: 4, args: ['killed'], env, stopOnFailure: false });
    const [zero, sender, two, receiver] = results;
    for (const victim of [sender, receiver]) {
      assert.deepEqual([victim.signal, victim.killed], ['SIGKILL', false], describeJob(results));
    }
    assert.match(receiver.stdout, /in the middle/, describeJob(results));
    for (const survivor of [zero, two]) assert.equal(survivor.code, 0, describeJob(results));
    for (const { codes, elapsed } of reports<End>([zero, two])) {
      assert.deepEqual(codes, Array(5).fill('ERR_NBC_PEER_CLOSED'));
      assert(elapsed < KNOWN_WITHIN_MS, `${elapsed} ms until all was known to have failed`);
    }
  });

  it('a link that is silent for a moment harms nothing, and one that goes down fails the requests of both ends', async () => {
    const env = { NBC_VERBS_DEVICE: DEVICES, TEST_BOARD: mkdtempSync(join(tmpdir(), 'nbc-faults-')) };
    const results = await runRanks('faults', { size: 2, args: ['interrupted'], env });
    for (const { codes, elapsed } of reports<End>(results)) {
      assert.deepEqual(codes, Array(3).fill('ERR_NBC_UNREACHABLE'));
      assert(elapsed < KNOWN_WITHIN_MS, `${elapsed} ms until all was known to have failed`);
    }
  });
});
