/** What the micro-benchmarks count, where a number is promised. No test asserts a time. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';

interface Figures {
  name: string;
  heap_bytes: number;
  native_calls: number;
}

/** Runs the cases whose names contain this. */
async function micro(filter: string): Promise<Figures[]> {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-micro-'));
  try {
    const json = join(folder, 'figures.json');
    const program = [join(ROOT, 'out/bench/micro.js'), '--time', '10', '--filter', filter, '--json', json];
    const nbcrun = [join(ROOT, 'dist/cli/nbcrun.js'), '-n', '2', ...program];
    const { code, stdout, stderr } = await run(process.execPath, nbcrun);
    assert.equal(code, 0, stdout + stderr);
    return JSON.parse(readFileSync(json, 'utf8')) as Figures[];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe('a start', () => {
  it('of a persistent request is one call of native code, and takes no byte of heap', async () => {
    const [start, ...others] = await micro('complete at once: bcastInit');
    assert.deepEqual(others, []);
    assert.equal(start.native_calls, 1);
    // The median: a whole object would be 12 bytes and more.
    assert(start.heap_bytes < 1, `${start.heap_bytes} bytes`);
  });

  it('of any other operation is one call of native code', async () => {
    const [start, ...others] = await micro('complete at once: ibcast');
    assert.deepEqual(others, []);
    assert.equal(start.native_calls, 1);
  });
});
