/** `npm run bench:targets`: every row is there, measured or with the reason why not. No test asserts a figure. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BRIEF, inFull, skip } from './helpers.js';
import { run } from './support/commands.js';
import { LIMIT_S } from './support/limit.js';
import { ROOT } from './support/launch.js';

interface Row {
  what: string;
  figure?: number | null;
  note?: string;
}

describe('npm run bench:targets', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-targets-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  async function targets(only: string, env: NodeJS.ProcessEnv = {}): Promise<{ stdout: string; rows: Row[] }> {
    const json = join(folder, 'figures.json');
    const command = [join(ROOT, 'out/bench/targets/main.js'), '--quick', '--only', only, '--json', json];
    const { code, stdout, stderr } = await run(process.execPath, command, env, { limitS: LIMIT_S.long });
    assert.equal(code, 0, stdout + stderr);
    return { stdout, rows: (JSON.parse(readFileSync(json, 'utf8')) as { rows: Row[] }).rows };
  }

  function checkMeasured(rows: readonly Row[], count: number): void {
    assert.equal(rows.length, count);
    for (const { what, figure, note } of rows) assert(Number(figure) > 0, `${what}: ${note}`);
  }

  inFull('measures sums beside memcpy', async () => checkMeasured((await targets('sums')).rows, 1));
  it('measures look-ups of schedules for 1024 ranks', async () => checkMeasured((await targets('schedules')).rows, 4));
  it('measures the 3D FFT with strided parts and with a packing loop, and both compute the same', async () =>
    checkMeasured((await targets('transposes')).rows, 2));

  it('measures what ranks cost that are threads, beside bare workers', async () => {
    // No MPI is found there: the ratios to it are left out.
    const { stdout, rows } = await targets('threads', { PATH: folder });
    checkMeasured(rows, 3);
    assert.match(stdout, /^ialltoall .*16 threads.* not measured/m);
    assert.match(stdout, /^ialltoall .* 2 threads.* not measured/m);
  });

  if (!BRIEF) {
    it('measures a reduction on a slow link', async function () {
      const { code, stderr } = await run(join(ROOT, 'scripts/slow-link'), ['--', 'true']);
      if (code !== 0) skip(this, `no slow link can be made here: ${stderr.trim()}`);
      const { rows } = await targets('link');
      checkMeasured(rows.slice(0, 1), 1);
      assert.equal(rows.length, 2);
      assert(rows[1].figure != null || rows[1].note === 'Open MPI is not installed', rows[1].note);
    });
  }

  it('prints what could not be measured, and why', async () => {
    // Neither a compiler nor slow-link's programs nor an MPI is found there.
    const { stdout, rows } = await targets('ratios,sums,link', { PATH: folder, CXX: 'no-such-compiler' });
    assert.deepEqual(
      rows.map(({ figure }) => figure ?? null),
      [null, null, null],
    );
    assert.match(stdout, /sum of float32.* not measured .*no-such-compiler/);
    assert.match(stdout, /iallreduce of 1 MiB at 1 Gbit\/s: overhead.* not measured/);
    for (const op of ['ibarrier', 'iallreduce', 'iexscan'])
      assert.match(stdout, new RegExp(`^${op} .* not measured`, 'm'), op);
  });

  it('says what is wrong with its options', async () => {
    const command = [join(ROOT, 'out/bench/targets/main.js'), '--only', 'sum'];
    const { code, stderr } = await run(process.execPath, command);
    assert.equal(code, 1);
    assert.match(stderr, /--only: ratios, .*but not sum/);
  });
});
