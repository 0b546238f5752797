/** `npm run bench:targets`: every row is there, measured or with the reason why not. No test asserts a figure. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BRIEF, skip } from './helpers.js';
import { ROOT } from './support/launch.js';

interface Row {
  what: string;
  figure?: number | null;
  note?: string;
}

describe('npm run bench:targets', function () {
  this.timeout(200_000);
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-targets-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function targets(only: string, env: Record<string, string> = {}): { stdout: string; rows: Row[] } {
    const json = join(folder, 'figures.json');
    const command = [join(ROOT, 'out/bench/targets/main.js'), '--quick', '--only', only, '--json', json];
    const run = spawnSync(process.execPath, command, { encoding: 'utf8', env: { ...process.env, ...env } });
    assert.equal(run.status, 0, run.stdout + run.stderr);
    return { stdout: run.stdout, rows: (JSON.parse(readFileSync(json, 'utf8')) as { rows: Row[] }).rows };
  }

  function checkMeasured(rows: readonly Row[], count: number): void {
    assert.equal(rows.length, count);
    for (const { what, figure, note } of rows) assert(Number(figure) > 0, `${what}: ${note}`);
  }

  it('measures sums beside memcpy', () => checkMeasured(targets('sums').rows, 1));
  it('measures look-ups of schedules for 1024 ranks', () => checkMeasured(targets('schedules').rows, 4));
  it('measures the 3D FFT with strided parts and with a packing loop, and both compute the same', () =>
    checkMeasured(targets('transposes').rows, 1));

  if (!BRIEF) {
    it('measures a reduction on a slow link', function () {
      const { status, stderr } = spawnSync(join(ROOT, 'scripts/slow-link'), ['--', 'true'], { encoding: 'utf8' });
      if (status !== 0) skip(this, `no slow link can be made here: ${stderr.trim()}`);
      const { rows } = targets('link');
      checkMeasured(rows.slice(0, 1), 1);
      assert.equal(rows.length, 2);
      assert(rows[1].figure != null || rows[1].note === 'Open MPI is not installed', rows[1].note);
    });
  }

  it('prints what could not be measured, and why', () => {
    // Neither a compiler nor slow-link's programs nor an MPI is found there.
    const { stdout, rows } = targets('ratios,sums,link', { PATH: folder, CXX: 'no-such-compiler' });
    assert.deepEqual(
      rows.map(({ figure }) => figure ?? null),
      [null, null, null],
    );
    assert.match(stdout, /sum of float32.* not measured .*no-such-compiler/);
    assert.match(stdout, /iallreduce of 1 MiB at 1 Gbit\/s: overhead.* not measured/);
    for (const op of ['ibarrier', 'iallreduce', 'iexscan'])
      assert.match(stdout, new RegExp(`^${op} .* not measured`, 'm'), op);
  });

  it('says what is wrong with its options', () => {
    const command = [join(ROOT, 'out/bench/targets/main.js'), '--only', 'sum'];
    const { status, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8' });
    assert.equal(status, 1);
    assert.match(stderr, /--only: ratios, .*but not sum/);
  });
});
