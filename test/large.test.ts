/**
 * Views of more than 4 GiB, and of more than 2^31 elements, as far as the version of Node.js has them.
 * native/test/large_test.cc tests the same without Node.
 */
import assert from 'node:assert/strict';
import { constants } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { BRIEF, reports, runRanks, skip } from './helpers.js';

const GIB = 2 ** 30;

/** Views that have room for what the scenarios of test/programs/large.ts do. */
const VIEWS = [
  // 4 GiB and a little more. Node.js 20 has it, too.
  { kind: 'Float64Array', length: 2 ** 29 + 2 ** 20 },
  // 8 GiB: more than 2^31 elements.
  { kind: 'Float32Array', length: 2 ** 31 + 2 ** 20 },
  // 2 GiB, and more than 2^31 elements.
  { kind: 'Int8Array', length: 2 ** 31 + 2 ** 20 },
  // More than 2^32 elements: from Node.js 21 on.
  { kind: 'Uint8Array', length: 2 ** 32 + 2 ** 20 },
] as const;

/** Skips the test where there is no memory for such a view: not even for its addresses. */
function requireView(context: Mocha.Context, kind: (typeof VIEWS)[number]['kind'], length: number): void {
  try {
    new globalThis[kind](length);
  } catch (error) {
    skip(context, `no ${kind} of ${length} elements can be made here: ${(error as Error).message}`);
  }
}

/** Bytes that processes can take now. */
function availableMemory(): number {
  const [, kib] = /^MemAvailable:\s*(\d+)/m.exec(readFileSync('/proc/meminfo', 'latin1')) ?? [];
  return Number(kib) * 1024;
}

describe('views of gigabytes', () => {
  for (const { kind, length } of VIEWS) {
    if (length > constants.MAX_LENGTH) {
      it(`cannot be made in Node.js ${process.version}: ${kind} of ${length} elements`, () => {
        assert.throws(() => new globalThis[kind](length), RangeError);
      });
      continue;
    }
    for (const transport of ['shm', 'tcp']) {
      it(`are used at all of their places: ${kind} of ${length} elements, '${transport}'`, async function () {
        requireView(this, kind, length);
        const env = { NBC_TRANSPORT: transport };
        const results = await runRanks('large', { size: 2, args: ['places', kind, `${length}`], env });
        assert(reports<number>(results).every((bytes) => bytes > 2 * GIB));
      });
    }
  }

  if (BRIEF) return;
  it('are sent in one message of more than 4 GiB', async function () {
    const { kind, length } = VIEWS[0];
    requireView(this, kind, length);
    if (availableMemory() < 8 * GIB) skip(this, 'the receiver takes 4 GiB of memory, of 8 that are free');
    const results = await runRanks('large', { size: 2, args: ['message', kind, `${length}`] });
    assert.deepEqual(reports<number>(results), [8 * length, 8 * length]);
  });
});
