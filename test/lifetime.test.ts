/**
 * Memory: buffers that the program loses while an operation uses them, what is released afterwards, and that nothing
 * grows.
 */
import assert from 'node:assert/strict';
import { BRIEF, CROSS_MEMORY, modes, reports, runRanks } from './helpers.js';
import { LIMIT_S } from './support/limit.js';

const MIB = 1024 * 1024;

/** Scenarios of programs/lifetime.ts: what the program does to a buffer that an operation uses. */
const LOSSES = ['dropped', 'transferred', 'lent', 'posted', 'grown', 'collected', 'small'];

describe('buffers in flight', () => {
  const nodeOptions = ['--expose-gc'];
  const play = (env: Record<string, string>): Promise<unknown> =>
    runRanks('lifetime', { size: 2, args: [LOSSES.join()], nodeOptions, env });

  for (const mode of modes()) {
    for (const crossMemory of BRIEF ? CROSS_MEMORY.slice(0, 1) : CROSS_MEMORY) {
      it(`keep their memory when they are ${LOSSES.join(', ')} ('${mode}', crossMemory '${crossMemory}')`, () =>
        play({ NBC_PROGRESS: mode, NBC_CROSS_MEMORY: crossMemory }));
    }
    it(`keep their memory all the same ('${mode}', copied as other runtimes need it)`, () =>
      play({ NBC_PROGRESS: mode, NBC_BUFFERS: 'copy' }));
  }
});

describe('memory', () => {
  const nodeOptions = ['--expose-gc'];

  for (const NBC_BUFFERS of ['', 'copy']) {
    const how = NBC_BUFFERS === '' ? '' : ' (copied)';
    it(`is released when operations end: buffers and requests can be collected${how}`, async () => {
      const results = await runRanks('lifetime', { size: 2, args: ['released'], nodeOptions, env: { NBC_BUFFERS } });
      for (const { finalized, expected } of reports<{ finalized: number; expected: number }>(results)) {
        // The last of them may still be on somebody's stack.
        assert(finalized >= expected - 6, `${finalized} of ${expected} objects were released`);
      }
    });
  }

  it('of alloc() is handed out again after a collection, zeroed', async () => {
    const results = await runRanks('lifetime', { size: 1, args: ['allocated'], nodeOptions });
    const [{ before, most, after }] = reports<{ before: number; most: number; after: number }>(results) as [
      { before: number; most: number; after: number },
    ];
    assert(most <= before + 40 * MIB, `${(most - before) / MIB} MiB of 200 MiB were in use at a time`);
    assert(after <= before + 2 * MIB, `${(after - before) / MIB} MiB are still in use`);
  });

  /** A leak of a byte for each operation is seen among 10⁶, and one of five bytes among the fewer of the brief form. */
  const operations = BRIEF ? 200_000 : 1_000_000;
  it(`does not grow in ${operations} operations`, async () => {
    const args = [`${operations}`];
    const results = await runRanks('memory', { size: 2, args, nodeOptions, limitS: LIMIT_S.long });
    type Usage = NodeJS.MemoryUsage & { allocated: number };
    for (const { before, after, started } of reports<{ before: Usage; after: Usage; started: number }>(results)) {
      assert(started >= operations);
      const growth = (field: keyof Usage): number => after[field] - before[field];
      assert(growth('heapUsed') < MIB / 2, `JavaScript heap: ${growth('heapUsed')} bytes more`);
      assert(growth('external') < MIB / 4, `external memory: ${growth('external')} bytes more`);
      assert(growth('arrayBuffers') < MIB / 4, `array buffers: ${growth('arrayBuffers')} bytes more`);
      assert(growth('rss') < 8 * MIB, `resident set: ${growth('rss')} bytes more`);
      assert.equal(growth('allocated'), 0, 'exposed memory');
    }
  });
});
