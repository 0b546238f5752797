/**
 * The bench of control messages beside bulk data (bench/tcp/delay.ts): that it runs, and what its JSON holds. No time
 * is asserted.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from './support/commands.js';
import { type End, ROOT } from './support/launch.js';

interface Row {
  transport: string;
  situation: string;
  round_trips: number;
  median_us: number;
  p99_us: number;
  longest_us: number;
  large: number;
  large_us: number | null;
}

describe('the delay of control messages', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-delay-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function delay(ranks: number, ...args: string[]): Promise<End> {
    const command = [join(ROOT, 'dist/cli/nbcrun.js'), '-n', `${ranks}`, join(ROOT, 'out/bench/tcp/delay.js'), ...args];
    return run(process.execPath, command, { NBC_TRANSPORT: undefined });
  }

  it('is measured over TCP, alone and beside 64 MiB', async () => {
    const json = join(folder, 'rows.json');
    const { code, stdout, stderr } = await delay(2, '--seconds', '0.2', '--json', json);
    assert.equal(code, 0, stderr);
    const rows = JSON.parse(readFileSync(json, 'utf8')) as Row[];
    assert.deepEqual(
      rows.map(({ transport, situation }) => `${transport}: ${situation}`),
      ['tcp: alone', 'tcp: same direction', 'tcp: both directions'],
    );
    for (const row of rows) {
      const { situation, round_trips, median_us, p99_us, longest_us, large, large_us } = row;
      const text = JSON.stringify(row);
      assert(round_trips > 0 && median_us > 0 && median_us <= p99_us && p99_us <= longest_us, text);
      if (situation === 'alone') assert(large === 0 && large_us === null, text);
      else assert(large > 0 && Number(large_us) > 0, text);
      assert.match(stdout, new RegExp(`tcp +${situation} +${round_trips} +${median_us.toFixed(1)}`));
    }
  });

  it('says how it is used', async () => {
    const help = await delay(1, '--help');
    assert.equal(help.code, 0);
    assert.match(help.stdout, /nbcrun -n 2 .*--seconds.*--json/);
    for (const [ranks, args, why] of [
      [2, ['--seconds', 'long'], /--seconds long: not a number of seconds/],
      [3, [], /it takes two ranks/],
    ] as const) {
      const { code, stderr } = await delay(ranks, ...args);
      assert.notEqual(code, 0);
      assert.match(stderr, why);
    }
  });
});
