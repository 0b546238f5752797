/** Awaited requests: what they cost the event loop, and who wakes it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reports, runRanks } from './helpers.js';

/** What a quadratic cost would be twenty times as much, for each request. */
const MOST = 4;

describe('awaited requests', () => {
  it('cost the event loop as much each, however many a turn awaits', async () => {
    const results = await runRanks('awaiting', { size: 2, args: ['crowd'] });
    const [{ sizes, times }] = reports<{ sizes: number[]; times: number[] }>(results);
    // The first of the smaller sizes warms up.
    const each = times.map((time, index) => time / sizes[index]);
    const shown = each.map((time) => time.toFixed(2)).join(', ');
    assert.ok(each[2] < MOST * Math.max(each[1], 1), `${shown} µs of processor time for each of ${sizes.join(', ')}`);
  });

  for (const [how, env] of [
    ['after a look', {}],
    ['without a look', { NBC_AWAIT_SPIN: '0' }],
  ] as const) {
    it(`are told of by the peer that completes them, while the event loop sleeps (${how})`, async () => {
      const results = await runRanks('awaiting', { size: 2, args: ['woken'], env });
      const [{ loopWakeups }] = reports<Record<string, number>>(results);
      // On a busy machine the progress thread may be first now and then.
      assert.ok(loopWakeups > 0, `${loopWakeups} of 20`);
    });
    it(`leave the event loop its timers, even if all of them end at once (${how})`, async () => {
      await runRanks('awaiting', { size: 2, args: ['chain'], env });
    });
  }

  it('go on while the event loop computes', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'nbc-test-'));
    try {
      const results = await runRanks('awaiting', { size: 2, args: ['computes', join(directory, 'board')] });
      assert.deepEqual(reports<boolean>(results), [true, true]);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});
