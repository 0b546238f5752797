/**
 * Memory: buffers that the program loses while an operation uses them, what is released afterwards, and that nothing
 * grows.
 */
import assert from 'node:assert/strict';
import { reports, runRanks } from './helpers.js';

const MIB = 1024 * 1024;

describe('buffers in flight', function () {
  this.timeout(120_000);

  const scenarios = {
    dropped: 'survive collection when the program drops them and their requests',
    transferred: 'keep their memory when they are transferred',
    lent: 'keep their memory when they are of alloc(), whether that can be transferred or not',
    posted: 'keep their memory when they are posted to a worker that ends',
    grown: 'keep their memory when the WebAssembly memory they view grows',
    collected: 'survive a collection after every start of a collective',
    small: 'may be so small that they live in the JavaScript heap',
  };
  const nodeOptions = ['--expose-gc'];
  for (const [scenario, title] of Object.entries(scenarios)) {
    for (const mode of ['thread', 'manual']) {
      for (const crossMemory of ['auto', 'off']) {
        it(`${title} ('${mode}', crossMemory '${crossMemory}')`, async () => {
          const env = { NBC_PROGRESS: mode, NBC_CROSS_MEMORY: crossMemory };
          await runRanks('lifetime', { size: 2, args: [scenario], nodeOptions, env });
        });
      }
      it(`${title} ('${mode}', copied as other runtimes need it)`, async () => {
        const env = { NBC_PROGRESS: mode, NBC_BUFFERS: 'copy' };
        await runRanks('lifetime', { size: 2, args: [scenario], nodeOptions, env });
      });
    }
  }
});

describe('memory', function () {
  this.timeout(240_000);
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

  it('does not grow in 10⁶ operations', async () => {
    const results = await runRanks('memory', { size: 2, nodeOptions, timeoutMs: 200_000 });
    type Usage = NodeJS.MemoryUsage & { allocated: number };
    for (const { before, after, started } of reports<{ before: Usage; after: Usage; started: number }>(results)) {
      assert(started >= 1_000_000);
      const growth = (field: keyof Usage): number => after[field] - before[field];
      // Nine bytes for each ten operations would be seen.
      assert(growth('heapUsed') < MIB / 2, `JavaScript heap: ${growth('heapUsed')} bytes more`);
      assert(growth('external') < MIB / 4, `external memory: ${growth('external')} bytes more`);
      assert(growth('arrayBuffers') < MIB / 4, `array buffers: ${growth('arrayBuffers')} bytes more`);
      assert(growth('rss') < 8 * MIB, `resident set: ${growth('rss')} bytes more`);
      assert.equal(growth('allocated'), 0, 'exposed memory');
    }
  });
});
