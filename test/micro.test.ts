/** What the micro-benchmarks count, where a number is promised. No test asserts a time. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './support/launch.js';

interface Figures {
  name: string;
  heap_bytes: number;
  native_calls: number;
}

/** Runs the cases whose names contain this. */
function micro(filter: string): Figures[] {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-micro-'));
  try {
    const json = join(folder, 'figures.json');
    const program = [join(ROOT, 'out/bench/micro.js'), '--time', '10', '--filter', filter, '--json', json];
    const nbcrun = [join(ROOT, 'dist/cli/nbcrun.js'), '-n', '2', ...program];
    const { status, stdout, stderr } = spawnSync(process.execPath, nbcrun, { encoding: 'utf8' });
    assert.equal(status, 0, stdout + stderr);
    return JSON.parse(readFileSync(json, 'utf8')) as Figures[];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe('a start', function () {
  this.timeout(60_000);

  it('of a persistent request is one call of native code, and takes no byte of heap', () => {
    const [start, ...others] = micro('complete at once: bcastInit');
    assert.deepEqual(others, []);
    assert.equal(start.native_calls, 1);
    // The median: a whole object would be 12 bytes and more.
    assert(start.heap_bytes < 1, `${start.heap_bytes} bytes`);
  });

  it('of any other operation is one call of native code', () => {
    const [start, ...others] = micro('complete at once: ibcast');
    assert.deepEqual(others, []);
    assert.equal(start.native_calls, 1);
  });
});
