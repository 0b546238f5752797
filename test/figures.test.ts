/**
 * `npm run figures`: what it draws is what it measured, and what docs/figures holds was drawn from the numbers beside
 * it. No test asserts a time.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BRIEF, inFull, skip } from './helpers.js';
import { run } from './support/commands.js';
import { LIMIT_S } from './support/limit.js';
import { ROOT } from './support/launch.js';

const KEPT = join(ROOT, 'docs/figures');
const WAYS = ['no test-on-init', 'test-on-init', 'wait-on-send'];
const MODES = [...WAYS, 'progress thread'];

interface Figure {
  title: string;
  versions: Record<string, string>;
  link: { rate: string };
  repetitions: number;
  date: string;
  rows: ({ mode: string } & Record<string, number>)[];
}

describe('npm run figures', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-test-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function figures(...args: string[]) {
    const command = [join(ROOT, 'scripts/figures.mjs'), '--no-build', '--out', folder, ...args];
    return run(process.execPath, command, {}, { limitS: LIMIT_S.long });
  }

  function read(name: string): { data: Figure; svg: string; text: Set<string> } {
    const svg = readFileSync(join(folder, `${name}.svg`), 'utf8');
    const data = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Figure;
    return { data, svg, text: new Set([...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text)) };
  }

  function checkFacts({ title, versions, link, repetitions, date }: Figure): void {
    assert(title.length > 0 && repetitions > 0);
    assert.equal(versions['node'], process.versions.node);
    assert.equal(link.rate, '1gbit');
    assert.match(date, /^\d{4}-\d\d-\d\d$/);
  }

  it('knows its options', async () => {
    assert.match((await figures('--help')).stdout, /--only[^]*--redraw[^]*--quick/);
    const wrong = await figures('--only', 'figure-99');
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /no figure figure-99/);
  });

  it('draws again what docs/figures holds, and its tables', async () => {
    cpSync(KEPT, folder, { recursive: true });
    // One by itself is the same as among the others.
    for (const only of BRIEF ? [[]] : [[], ['--only', 'fft3d']]) {
      const { code, stderr } = await figures('--redraw', ...only);
      assert.equal(code, 0, stderr);
    }
    const files = readdirSync(KEPT).sort();
    assert(files.length >= 11, files.join(' '));
    assert.deepEqual(readdirSync(folder).sort(), files);
    for (const file of files) {
      const same = readFileSync(join(folder, file), 'utf8') === readFileSync(join(KEPT, file), 'utf8');
      assert(same, `docs/figures/${file} is not what its JSON says: npm run figures -- --redraw`);
    }
  });

  describe('on the slow link', () => {
    before(async function () {
      const { code, stderr } = await run(join(ROOT, 'scripts/slow-link'), ['--', 'true']);
      if (code !== 0) skip(this, `no slow link can be made here: ${stderr.trim()}`);
    });

    inFull('isend-irecv: every number of the JSON is a point of the SVG', async () => {
      const { code, stderr } = await figures('--quick', '--only', 'isend-irecv');
      assert.equal(code, 0, stderr);
      assert.deepEqual(readdirSync(folder).sort(), ['isend-irecv.json', 'isend-irecv.svg']);
      const { data, svg, text } = read('isend-irecv');
      checkFacts(data);
      const sizes = new Set(data.rows.map(({ bytes }) => bytes));
      assert.equal(data.rows.length, MODES.length * sizes.size);
      for (const word of [...MODES, 'isend', 'irecv', 'each test', 'message size', 'time of a call, µs'])
        assert(text.has(word), word);

      const drawn = heights(svg);
      const values = ['isend_us', 'irecv_us', 'test_us'].flatMap((field) =>
        MODES.map((mode) => data.rows.filter((row) => row.mode === mode).map((row) => row[field])),
      );
      assert.deepEqual(
        drawn.map((points) => points.length),
        values.map((curve) => curve.length),
      );
      assertLogarithmic(values.flat(), drawn.flat());
    });

    for (const [kernel, modes] of [
      ['compression', MODES],
      ['fft3d', [...MODES, 'test-on-init, with tests']],
    ] as const) {
      inFull(`${kernel}: a bar for each mode, with its numbers`, () => barsOf(kernel, modes));
    }

    async function barsOf(kernel: string, modes: readonly string[]): Promise<void> {
      const { code, stderr } = await figures('--quick', '--only', kernel);
      assert.equal(code, 0, stderr);
      const { data, text } = read(kernel);
      checkFacts(data);
      assert.deepEqual(new Set(data.rows.map(({ mode }) => mode)), new Set(modes));
      for (const { mode, overhead_ms, blocking_overhead_ms, total_ms } of data.rows) {
        assert(overhead_ms > 0 && overhead_ms <= total_ms && blocking_overhead_ms > 0, mode);
        assert(text.has(mode), mode);
        assert(
          text.has(`${overhead_ms.toFixed(overhead_ms < 10 ? 2 : overhead_ms < 100 ? 1 : 0)} ms`),
          `${overhead_ms}`,
        );
      }
    }

    inFull('training: what each variant takes, and the curves of one process and of several ranks', async () => {
      const { code, stderr } = await figures('--quick', '--only', 'training');
      assert.equal(code, 0, stderr);
      const { data, text } = read('training');
      checkFacts(data);
      assert.equal(data.rows.length, 2);
      for (const word of ['loss, one process', 'accuracy, 2 ranks', 'non-blocking', 'computation'])
        assert(text.has(word), `${word} in ${[...text].join('; ')}`);
      for (const variant of ['blocking', 'nonblocking'] as const) {
        const { total, communication } = (data.rows[1] as unknown as Record<typeof variant, Record<string, number>>)[
          variant
        ];
        assert(communication > 0 && communication < total);
        for (const part of [communication, total - communication]) assert(text.has(part.toFixed(1)), `${part}`);
      }
    });

    inFull('ialltoall: all modes with all intervals', async () => {
      const { code, stderr } = await figures('--quick', '--only', 'ialltoall');
      assert.equal(code, 0, stderr);
      const { data, text } = read('ialltoall');
      checkFacts(data);
      const sizes = new Set(data.rows.map(({ bytes }) => bytes));
      assert.equal(data.rows.length, MODES.length * 5 * sizes.size);
      for (const { blocking_us, init_us, test_us, wait_us, overhead_us, interval } of data.rows) {
        assert(blocking_us > 0 && Math.abs(init_us + test_us + wait_us - overhead_us) < 0.002);
        assert(interval > 0 || test_us === 0);
      }
      for (const word of [...MODES, 'no tests', 'a test every 8 KiB', 'blocking, node-nbc'])
        assert(text.has(word), word);
    });
  });
});

/** Where the marks of each curve lie, from the top, in the order of the curves. */
function heights(svg: string): number[][] {
  const curves: number[][] = [];
  for (const [mark] of svg.matchAll(/<path[^>]*ecmeta_series_index[^>]*ecmeta_ssr_type="chart"[^>]*>/g)) {
    const [, y] = /matrix\([^)]*,([\d.]+)\)/.exec(mark)!;
    const [, curve] = /ecmeta_series_index="(\d+)"/.exec(mark)!;
    const [, point] = /ecmeta_data_index="(\d+)"/.exec(mark)!;
    (curves[Number(curve)] ??= [])[Number(point)] = Number(y);
  }
  return curves;
}

/** On one logarithmic scale a mark's height is a linear function of its value's logarithm. */
function assertLogarithmic(values: readonly number[], drawn: readonly number[]): void {
  const logs = values.map((value) => Math.log10(Math.max(0.01, value)));
  const [low, high] = [logs.indexOf(Math.min(...logs)), logs.indexOf(Math.max(...logs))];
  const slope = (drawn[high] - drawn[low]) / (logs[high] - logs[low]);
  assert(slope < 0, 'larger is higher');
  for (const [i, log] of logs.entries()) {
    const expected = drawn[low] + slope * (log - logs[low]);
    assert(Math.abs(drawn[i] - expected) < 0.5, `${values[i]} is drawn at ${drawn[i]}, not ${expected}`);
  }
}
