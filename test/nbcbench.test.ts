/**
 * nbcbench: its arithmetic on samples made by hand, its command line, and small runs of the real thing. No test asserts
 * a time.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { BRIEF, inFull, skip } from './helpers.js';
import { run } from './support/commands.js';
import { LIMIT_S } from './support/limit.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');
const NBCBENCH = join(ROOT, 'dist/bench/nbcbench/main.js');

/** Modules of nbcbench are no part of the package's surface, so they are loaded from where they were compiled to. */
const load = async <T>(name: string): Promise<T> =>
  (await import(new URL(`../../dist/bench/nbcbench/${name}.js`, import.meta.url).href)) as T;

interface Gates {
  GATE_FIFOS: readonly string[];
  buildGate: (directory: string, warn: (text: string) => void) => void;
}

interface Repetition {
  init: number;
  test: number;
  wait: number;
  total: number;
}

const FIELDS = [
  'implementation',
  'op',
  'ranks',
  'bytes',
  'transport',
  'progress',
  'buffers',
  'form',
  'start',
  'interval',
  'blocking_us',
  'init_us',
  'test_us',
  'wait_us',
  'overhead_us',
  'overlap_pct',
];
type Row = Record<string, string | number>;

/** Small enough for a test: what is asserted does not get better with more repetitions, or when all is compiled. */
const QUICK = [
  ...['--sizes', '8', '--repetitions', BRIEF ? '5' : '20', '--max-seconds', BRIEF ? '1' : '5'],
  '--no-warm-up',
];

let scratch: string;

async function nbcbench(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  // A temporary directory of its own shows what is left behind.
  const temporary = mkdtempSync(join(scratch, 'tmp-'));
  const end = await run(process.execPath, [NBCBENCH, ...args], { TMPDIR: temporary, ...env }, { limitS: LIMIT_S.long });
  // The folder of the sockets for nbctop stays, but nothing in it.
  const left = readdirSync(temporary, { recursive: true, encoding: 'utf8' });
  return { ...end, left: left.filter((name) => name !== `node-nbc-${process.getuid!()}`) };
}

/** A directory with nothing but these programs, to be a PATH. */
function pathOf(...programs: string[]): string {
  const directory = join(scratch, `path-${programs.join('-')}`);
  mkdirSync(directory);
  for (const program of programs) {
    const found = (process.env.PATH ?? '')
      .split(delimiter)
      .map((part) => join(part, program))
      .find((path) => spawnSync('test', ['-x', path]).status === 0);
    assert(found !== undefined, `${program} is installed`);
    symlinkSync(found, join(directory, program));
  }
  return directory;
}

const has = (program: string): boolean => spawnSync(program, ['--version']).error === undefined;
const OPEN_MPI = has('mpicc.openmpi') && has('mpirun.openmpi');

describe('nbcbench', () => {
  before(() => {
    scratch = mkdtempSync(join(tmpdir(), 'nbcbench-test-'));
  });
  after(() => rmSync(scratch, { recursive: true, force: true }));

  describe('statistics', () => {
    interface Statistics {
      median(values: readonly number[]): number;
      repetitions(batch: readonly Float64Array[], first?: number, meanOfRanks?: boolean): Repetition[];
      testsFor(bytes: number, interval: number): number;
      overlapPercentage(total: number, compute: number, blocking: number): number;
    }
    let statistics: Statistics;
    before(async () => {
      statistics = await load<Statistics>('statistics');
    });

    it('median: the middle, the mean of two in the middle, nothing of nothing', () => {
      assert.equal(statistics.median([9, 1, 5]), 5);
      assert.equal(statistics.median([1, 10, 2, 4]), 3);
      assert.equal(statistics.median([7]), 7);
      assert(Number.isNaN(statistics.median([])));
    });

    it('a repetition is that of its slowest rank, from the first start to the last end', () => {
      // start, init, test, wait, total
      const a = Float64Array.of(100, 1, 0, 9, 10, 200, 5, 1, 1, 7);
      const b = Float64Array.of(102, 3, 1, 4, 12, 200, 1, 1, 2, 4);
      assert.deepEqual(statistics.repetitions([a, b]), [
        { init: 1, test: 0, wait: 9, total: 14 },
        { init: 5, test: 1, wait: 1, total: 7 },
      ]);
      assert.deepEqual(statistics.repetitions([a, b], 1), [{ init: 5, test: 1, wait: 1, total: 7 }]);
      const means = statistics.repetitions([a, b], 0, true).map(({ total }) => total);
      assert.deepEqual(means, [11, 5.5], "the mean of the ranks' own times, as in the OSU benchmarks");
    });

    it('a repetition that any rank began late does not count', () => {
      const late = Float64Array.of(NaN, NaN, 0, 2, NaN, 0, 1, 0, 2, 3);
      const inTime = Float64Array.of(0, 1, 0, 2, 3, 0, 1, 0, 2, 3);
      for (const batch of [
        [late, inTime],
        [inTime, late],
      ]) {
        assert.deepEqual(statistics.repetitions(batch), [{ init: 1, test: 0, wait: 2, total: 3 }]);
      }
    });

    it('tests: none for interval 0, else floor(size / interval) + 1', () => {
      assert.equal(statistics.testsFor(4096, 0), 0);
      assert.equal(statistics.testsFor(4096, 2048), 3); // the paper's example
      assert.equal(statistics.testsFor(4095, 2048), 2);
      assert.equal(statistics.testsFor(8, 1024), 1);
    });

    it('overlap: all of it, none of it, and a computation slowed down', () => {
      assert.equal(statistics.overlapPercentage(100, 100, 50), 100);
      assert.equal(statistics.overlapPercentage(150, 100, 50), 0);
      assert.equal(statistics.overlapPercentage(200, 100, 50), -100);
    });
  });

  describe('options', () => {
    interface Options {
      parseSizes: (text: string) => number[];
      parseBuffers: (text: string) => string[];
      formatBytes: (bytes: number) => string;
    }
    interface Processors {
      parseCpuList: (text: string) => number[];
      formatCpuList: (processors: number[]) => string;
    }

    it('sizes: units, ranges, no duplicates', async () => {
      const { parseSizes, formatBytes, parseBuffers } = await load<Options>('options');
      assert.deepEqual(parseSizes('8,1K,16KiB, 1M'), [8, 1024, 16384, 1048576]);
      assert.deepEqual(parseSizes('1K..8K'), [1024, 2048, 4096, 8192]);
      assert.deepEqual(parseSizes('0,0'), [0]);
      for (const wrong of ['', '-1', '1.5', '8Q', '8K..1K', '0..8', '4G'])
        assert.throws(() => parseSizes(wrong), wrong);
      assert.equal(formatBytes(1000), '1000 B');
      assert.equal(formatBytes(131072), '128 KiB');
      assert.deepEqual(parseBuffers('both'), ['plain', 'alloc']);
    });

    it('lists of processors as the kernel writes them', async () => {
      const { formatCpuList, parseCpuList } = await load<Processors>('../../processors');
      assert.deepEqual(parseCpuList('0-2,5\n'), [0, 1, 2, 5]);
      assert.deepEqual(parseCpuList('7'), [7]);
      for (const text of ['', '0', '0-2,5', '1,3-4,6', '0-8191', '7,9,11'])
        assert.equal(formatCpuList(parseCpuList(text)), text);
    });

    it('wrong usage ends with exit code 2 and says what is wrong', async () => {
      for (const [args, word] of [
        [['--bogus'], /bogus/],
        [['--sizes', '5Q'], /5Q/],
        [['--ops', 'ifold'], /ifold.*all, ibarrier, ibcast/],
        [['--ops', 'iscan', '--sizes', '12'], /float64.*12 bytes/],
        [['--forms', 'eternal'], /eternal.*nonblocking, persistent/],
        [['--buffers', 'shiny'], /shiny.*plain, alloc/],
        [['--no-ours'], /--peers/],
        [['--ways', 'some-on-init'], /some-on-init.*no test-on-init, test-on-init, wait-on-send/],
        [['--delays', '0,1'], /--links/],
        [['--links', 'lo'], /--delays/],
        [['--delays', 'long', '--links', 'lo'], /long.*milliseconds/],
        [['waiting', '--seconds', 'x'], /seconds/],
        [['pingpong', '--sizes', '5Q'], /5Q/],
        [['--join', '--ranks', '3'], /'--join' cannot be used with option '--ranks/],
        [['pingpong', '--join', '--transport', 'tcp'], /'--join' cannot be used with option '--transport/],
      ] as const) {
        const { code, stderr } = await nbcbench(args);
        assert.equal(code, 2, stderr);
        assert.match(stderr, word);
      }
    });

    it('--help of the program and of its commands', async () => {
      for (const args of [['--help'], ['waiting', '--help'], ['pingpong', '--help'], ['memory', '--help']]) {
        const { code, stdout } = await nbcbench(args);
        assert.equal(code, 0);
        assert.match(stdout, /Usage: nbcbench/);
      }
      const { stdout } = await nbcbench(['--help']);
      for (const option of [
        'ranks',
        'ops',
        'sizes',
        'intervals',
        'transport',
        'progress',
        'buffers',
        'forms',
        'same-buffers',
        'repetitions',
        'no-warm-up',
        'json',
        'svg',
        'peers',
      ])
        assert.match(stdout, new RegExp(`--${option}\\b`));
    });
  });

  describe('the start gate', () => {
    const PASSES = 200;
    const RANK = `
      const { workerData: { gate, directory, rank, size, arrived } } = require('node:worker_threads');
      import(gate).then(({ openGate }) => {
        const opened = openGate(directory, rank, size);
        for (let i = 1; i <= ${PASSES}; i++) {
          Atomics.add(arrived, 0, 1);
          opened.pass(0);
          if (Atomics.load(arrived, 0) < i * size) throw new Error('rank ' + rank + ' passed before all had come');
        }
      });`;

    for (const compiled of [true, false]) {
      for (const size of [1, 2, 5]) {
        it(`lets ${size} through when all have come (${compiled ? 'compiled' : 'in JavaScript'})`, async () => {
          const { buildGate, GATE_FIFOS } = await load<Gates>('gate');
          const directory = mkdtempSync(join(tmpdir(), 'nbc-gate-'));
          try {
            for (const name of GATE_FIFOS) assert.equal(spawnSync('mkfifo', [join(directory, name)]).status, 0);
            const warn = (text: string) => assert.equal(text, '');
            if (compiled) buildGate(directory, warn);
            const gate = new URL('../../dist/bench/nbcbench/gate.js', import.meta.url).href;
            const arrived = new Int32Array(new SharedArrayBuffer(4));
            const workers = Array.from(
              { length: size },
              (_, rank) => new Worker(RANK, { eval: true, workerData: { gate, directory, rank, size, arrived } }),
            );
            await Promise.all(workers.map((worker) => once(worker, 'exit')));
            assert.equal(arrived[0], size * PASSES);
          } finally {
            delete process.env['NBCBENCH_GATE'];
            rmSync(directory, { recursive: true });
          }
        });
      }
    }
  });

  describe('a run', () => {
    it('writes one row for each operation, size, kind of buffers, progress and interval', async () => {
      const json = join(scratch, 'rows.json');
      const svg = join(scratch, 'rows.svg');
      const { code, stdout, stderr, left } = await nbcbench([
        ...[
          '--ops',
          'ibcast,igather,ialltoall',
          '--sizes',
          '8,4K',
          '--intervals',
          '0,1K',
          '--progress',
          'thread,manual',
        ],
        ...['--buffers', 'both', '--repetitions', BRIEF ? '3' : '10', '--json', json, '--svg', svg],
        ...(BRIEF ? ['--no-warm-up'] : []),
      ]);
      assert.equal(code, 0, stderr);
      const rows = JSON.parse(readFileSync(json, 'utf8')) as Row[];
      assert.equal(rows.length, 3 * 2 * 2 * 2 * 2);
      for (const row of rows) {
        assert.deepEqual(Object.keys(row), FIELDS);
        assert.equal(row.implementation, 'node-nbc');
        const { init_us, test_us, wait_us, overhead_us, blocking_us, interval } = row as Record<string, number>;
        assert(Math.abs(init_us + test_us + wait_us - overhead_us) < 0.002, JSON.stringify(row));
        assert(blocking_us > 0 && init_us > 0 && Number.isFinite(row.overlap_pct), JSON.stringify(row));
        if (interval === 0) assert.equal(test_us, 0);
      }
      assert(rows.some(({ interval, test_us }) => interval !== 0 && test_us !== 0));
      const points = new Set(
        rows.map((row) =>
          FIELDS.slice(0, FIELDS.indexOf('blocking_us'))
            .map((field) => row[field])
            .join(),
        ),
      );
      assert.equal(points.size, rows.length);
      assert.match(stdout, /Blocking[^]*Overhead[^]*no tests[^]*Overhead[^]*a test every 1 KiB/);
      const drawing = readFileSync(svg, 'utf8');
      for (const title of ['ibcast, 2 ranks', 'igather, 2 ranks', 'ialltoall, 2 ranks', 'overhead, µs']) {
        assert(drawing.includes(title), title);
      }
      assert.deepEqual(left, []);
    });

    it("each of the paper's modes with progress 'manual', and the progress thread once", async () => {
      const ways = ['no test-on-init', 'test-on-init', 'wait-on-send'];
      const { code, stdout, stderr } = await nbcbench([
        ...['--ops', 'ialltoall', '--buffers', 'plain', '--progress', 'thread,manual', '--ways', ways.join()],
        ...['--json', '-', ...QUICK],
      ]);
      assert.equal(code, 0, stderr);
      assert.deepEqual(
        (JSON.parse(stdout) as Row[]).map(({ progress, way }) => [progress, way]),
        [['thread', undefined], ...ways.map((way) => ['manual', way])],
      );
      assert.match(stderr, /mode[^]*default[^]*no test-on-init[^]*wait-on-send/, 'a column that tells them apart');
    });

    it('with more ranks than processors, and beside another program', async () => {
      const { code, stdout, stderr, left } = await nbcbench([
        '--ranks',
        '5',
        '--ops',
        'ialltoall',
        ...QUICK,
        '--json',
        '-',
        '--start',
        'gate',
        '--busy',
        '1',
      ]);
      assert.equal(code, 0, stderr);
      assert.deepEqual(left, []);
      const rows = JSON.parse(stdout) as Row[];
      assert.deepEqual(
        rows.map(({ ranks, buffers }) => [ranks, buffers]),
        [
          [5, 'plain'],
          [5, 'alloc'],
        ],
      );
      assert.match(stderr, /Blocking/, 'tables give way to JSON on standard output');
    });

    it("out of each library's own barrier, as the OSU benchmarks do", async () => {
      const peers = OPEN_MPI ? ['openmpi'] : [];
      const { code, stdout, stderr, left } = await nbcbench([
        ...['--ranks', '3', '--ops', 'igather', '--start', 'osu', ...QUICK, '--buffers', 'plain', '--json', '-'],
        ...peers.flatMap((name) => ['--peers', name]),
      ]);
      assert.equal(code, 0, stderr);
      assert.deepEqual(left, []);
      assert.match(stderr, /common start: osu/);
      const rows = JSON.parse(stdout) as Row[];
      assert.deepEqual(rows.map(({ implementation }) => implementation).sort(), ['node-nbc', ...peers]);
      assert(rows.every(({ start }) => start === 'osu'));
      assert(rows.every(({ blocking_us }) => Number(blocking_us) > 0));
    });

    it('crowd: all-to-all of many ranks over TCP, labelled for what it is', async () => {
      const what = ['crowd', '--ranks', '5', '--sizes', '64,4K', '--repetitions', '5', '--max-seconds', '2'];
      const { code, stdout, stderr, left } = await nbcbench([...what, '--no-warm-up', '--json', '-']);
      assert.equal(code, 0, stderr);
      const { label, rows } = JSON.parse(stdout) as { label: string; rows: Row[] };
      assert.match(label, /^5 ranks on \d+ processors of one machine, TCP over loopback: .*not what a network/);
      assert(stderr.includes(label), 'the table has it, too');
      assert(rows.every(({ blocking_us }) => Number(blocking_us) > 0));
      assert.deepEqual(
        rows.map(({ op, ranks, transport, bytes }) => [op, ranks, transport, bytes]),
        [
          ['ialltoall', 5, 'tcp', 64],
          ['ialltoall', 5, 'tcp', 4096],
        ],
      );
      assert.deepEqual(left, []);
    });

    it('beside the MPIs that are installed', async function () {
      const peers = ['openmpi', 'mpich'].filter((name) => has(`mpicc.${name}`) && has(`mpirun.${name}`));
      if (peers.length === 0) skip(this, 'neither mpicc.openmpi nor mpicc.mpich is installed');
      const { code, stdout, stderr, left } = await nbcbench([
        '--peers',
        '--buffers',
        'plain',
        '--json',
        '-',
        '--intervals',
        '0,1K',
        ...QUICK,
      ]);
      assert.equal(code, 0, stderr);
      const rows = JSON.parse(stdout) as Row[];
      const found = new Set(rows.map(({ implementation }) => implementation));
      assert.deepEqual([...found].sort(), [...peers, 'node-nbc'].sort());
      for (const row of rows) assert.deepEqual(Object.keys(row), FIELDS);
      assert.equal(rows.length, 3 * 2 * found.size);
      for (const name of peers) assert.match(stderr, new RegExp(`/${name}\\b`), 'a column of ratios');
      assert.deepEqual(left, []);
    });

    inFull('over TCP, beside Open MPI over TCP', async function () {
      if (!OPEN_MPI) skip(this, 'mpicc.openmpi or mpirun.openmpi is missing (apt install libopenmpi-dev)');
      const what = ['--peers', 'openmpi', '--transport', 'tcp', '--buffers', 'plain', '--json', '-'];
      // If it were left to itself it would take this, and no rank could reach another: so what it is told counts.
      const alone = { OMPI_MCA_pml: 'ob1', OMPI_MCA_btl: 'self' };
      const { code, stdout, stderr, left } = await nbcbench([...what, ...QUICK], alone);
      assert.equal(code, 0, stderr);
      const rows = JSON.parse(stdout) as Row[];
      assert.deepEqual(
        rows.map(({ implementation, op, transport }) => `${implementation} ${op} ${transport}`).sort(),
        ['node-nbc', 'openmpi'].flatMap((name) => ['ialltoall', 'ibcast', 'igather'].map((op) => `${name} ${op} tcp`)),
      );
      for (const row of rows) assert(Number(row.blocking_us) > 0, JSON.stringify(row));
      assert.match(stderr, /\/openmpi\b/, 'a column of ratios');
      assert.deepEqual(left, []);
    });

    inFull(
      'against-node: every mechanism of Node.js that is installed, quiet and busy; nothing is left behind',
      async () => {
        interface Case {
          mechanism: string;
          bytes: number;
          load: string;
          repetitions: number;
          median_us: number;
          p99_us: number;
        }
        const sizes = BRIEF ? [8] : [8, 102_400];
        const what = ['--sizes', sizes.join(), '--repetitions', '25', '--max-seconds', '2', '--busy', '1'];
        const { code, stdout, stderr, left } = await nbcbench(['against-node', ...what, '--json', '-']);
        assert.equal(code, 0, stderr);
        const rows = JSON.parse(stdout) as Case[];
        const { installed } = await load<{ installed: () => { name: string; title: string }[] }>('against-node');
        const mechanisms = installed();
        assert(mechanisms.length >= 7);
        const cases = ['quiet', 'busy'].flatMap((load) =>
          sizes.flatMap((bytes) => mechanisms.map(({ name }) => `${name} ${bytes} ${load}`)),
        );
        assert.deepEqual(
          rows.map(({ mechanism, bytes, load }) => `${mechanism} ${bytes} ${load}`),
          cases,
        );
        for (const row of rows) {
          // On a busy machine what takes long ends at --max-seconds.
          assert(row.repetitions >= 5 && row.repetitions <= 25, JSON.stringify(row));
          assert(row.median_us > 0 && row.p99_us >= row.median_us, JSON.stringify(row));
        }
        for (const { title } of mechanisms) assert(stderr.includes(title), title);
        assert.deepEqual(left, []);
      },
    );

    it('--threads: ranks that are threads, as rows of their own', async () => {
      const what = ['--threads', '--ranks', '3', '--ops', 'ialltoall', '--buffers', 'plain'];
      const { code, stdout, stderr, left } = await nbcbench([...what, ...QUICK, '--json', '-']);
      assert.equal(code, 0, stderr);
      const rows = JSON.parse(stdout) as Row[];
      assert.deepEqual(
        rows.map(({ implementation, op, ranks, transport }) => [implementation, op, ranks, transport]),
        [['node-nbc', 'ialltoall', 3, 'threads']],
      );
      assert.deepEqual(left, []);
      const refused = await nbcbench(['--threads', '--transport', 'tcp']);
      assert.equal(refused.code, 2);
      assert.match(refused.stderr, /'--threads' cannot be used with option '--transport/);
    });

    inFull('pingpong: round trips, in turns with Open MPI over TCP', async function () {
      if (!OPEN_MPI) skip(this, 'mpicc.openmpi or mpirun.openmpi is missing (apt install libopenmpi-dev)');
      const what = ['pingpong', '--sizes', '8,64K', '--repetitions', '130', '--transport', 'tcp', '--peers', 'openmpi'];
      const warm = BRIEF ? ['--no-warm-up'] : [];
      const { code, stdout, stderr, left } = await nbcbench([...what, ...warm, '--json', '-']);
      assert.equal(code, 0, stderr);
      const rows = JSON.parse(stdout) as Row[];
      assert.deepEqual(
        rows.map(({ implementation, transport, bytes, repetitions }) => [
          implementation,
          transport,
          bytes,
          repetitions,
        ]),
        [8, 65536].flatMap((bytes) => ['node-nbc', 'openmpi'].map((name) => [name, 'tcp', bytes, 130])),
      );
      const ratios = [...stderr.matchAll(/^tcp .* ([\d.]+)×$/gm)].map(([, ratio]) => Number(ratio));
      for (const [index, ratio] of ratios.entries()) {
        const [ours, theirs] = rows.slice(2 * index).map(({ round_trip_us }) => Number(round_trip_us));
        assert(ours > 0 && Math.abs(ours / theirs - ratio) < 0.006, stderr);
      }
      assert.match(stderr, /node-nbc +openmpi +\/openmpi/);
      assert.equal(ratios.length, 2, stderr);
      assert.deepEqual(left, []);
    });

    it('--join: the ranks of a job that a launcher has started', async () => {
      const join = async (ranks: number, ...args: string[]) => {
        const command = [NBCRUN, '-n', String(ranks), NBCBENCH, ...args, '--join', ...QUICK, '--json', '-'];
        const { code, stdout, stderr } = await run(process.execPath, command, {}, { limitS: LIMIT_S.long });
        assert.equal(code, 0, stderr);
        return JSON.parse(stdout) as Row[];
      };
      const rows = await join(3, '--ops', 'ialltoall', '--buffers', 'plain');
      assert.deepEqual(
        rows.map(({ implementation, op, ranks, transport, bytes }) => [implementation, op, ranks, transport, bytes]),
        [['node-nbc', 'ialltoall', 3, 'auto', 8]],
      );
      for (const field of ['blocking_us', 'overhead_us']) assert(Number(rows[0][field]) > 0);
      const [played, ...more] = await join(2, 'pingpong');
      assert(Number(played['round_trip_us']) > 0);
      assert.deepEqual(more, []);
    });

    it('--join without a job, and with a rank that fails: exit code 1, and nobody waits', async () => {
      const alone = await nbcbench(['pingpong', '--join']);
      assert.equal(alone.code, 1);
      assert.match(alone.stderr, /a launcher must have started several ranks/);
      const file = join(scratch, 'no-clock.mjs');
      const broken = "process.hrtime.bigint = () => { throw new Error('there is no clock'); };";
      const program = `import ${JSON.stringify(NBCBENCH)};`;
      // Modules are evaluated in their order.
      writeFileSync(join(scratch, 'no-clock-of-1.mjs'), `if (process.env.NBC_RANK === '1') ${broken}\n`);
      writeFileSync(file, `import './no-clock-of-1.mjs';\n${program}\n`);
      const options = ['--join', '--ops', 'ialltoall', '--buffers', 'plain', ...QUICK];
      const command = [NBCRUN, '-n', '2', '--on-failure', 'continue', file, ...options];
      const { code, stderr } = await run(process.execPath, command, {}, { limitS: LIMIT_S.long });
      assert.equal(code, 1, stderr);
      assert.match(stderr, /there is no clock/);
    });

    it('without MPI: says what to install and goes on', async () => {
      const { code, stderr, stdout } = await nbcbench(['--peers', '--ops', 'ibcast', ...QUICK], {
        PATH: pathOf('mkfifo', 'taskset'),
      });
      assert.equal(code, 0, stderr);
      assert.match(stderr, /Open MPI is left out.*libopenmpi-dev/);
      assert.match(stderr, /MPICH is left out.*libmpich-dev/);
      assert.match(stdout, /ibcast/);
    });

    it('measures with the delays that it is given, and says where it cannot make them', async () => {
      const what = ['--ops', 'ibcast', '--buffers', 'plain', ...QUICK, '--links', 'nosuch0'];
      const without = await nbcbench([...what, '--delays', '0', '--json', '-']);
      assert.equal(without.code, 0, without.stderr);
      assert.deepEqual(
        (JSON.parse(without.stdout) as Row[]).map(({ delay_ms }) => delay_ms),
        [0],
      );
      const refused = await nbcbench([...what, '--delays', '5']);
      assert.equal(refused.code, 1, refused.stderr);
      assert.match(refused.stderr, /nosuch0|tc: .*iproute2/);
      assert.deepEqual(refused.left, []);
    });

    it('without taskset: says that nobody is bound, and goes on', async () => {
      const { code, stderr } = await nbcbench(['--ops', 'ibcast', ...QUICK], { PATH: pathOf('mkfifo') });
      assert.equal(code, 0, stderr);
      assert.match(stderr, /not bound: taskset.*util-linux|none bound/);
    });

    it('says why ranks cannot start, with exit code 1', async () => {
      const { code, stderr, left } = await nbcbench(['--transport', 'pigeon', '--ops', 'ibcast', ...QUICK]);
      assert.equal(code, 1);
      assert.match(stderr, /NBC_TRANSPORT.*pigeon/);
      assert.deepEqual(left, []);
    });

    it('ends on a signal without leaving anything behind', async () => {
      const temporary = mkdtempSync(join(scratch, 'tmp-'));
      const child = spawn(process.execPath, [NBCBENCH, '--repetitions', '1000000', '--max-seconds', '100'], {
        stdio: ['ignore', 'ignore', 'pipe'],
        env: { ...process.env, TMPDIR: temporary },
      });
      let said = '';
      child.stderr.setEncoding('utf8');
      for await (const text of child.stderr as AsyncIterable<string>) {
        said += text;
        if (said.includes('pass 1')) break; // ranks are at work
      }
      child.kill('SIGTERM');
      const [code] = (await once(child, 'exit')) as [number];
      assert.equal(code, 143);
      assert.deepEqual(readdirSync(temporary), []);
    });
  });

  describe('nbov', () => {
    const CALLS = ['isend_us', 'irecv_us', 'test_us'] as const;

    for (const progress of ['manual', 'thread']) {
      it(`costs of the calls in each of the three modes, progress '${progress}'`, async () => {
        const sizes = [8, 65536];
        const what = ['--sizes', sizes.join(), '--repetitions', '50', '--progress', progress, '--json', '-'];
        const { code, stdout, stderr, left } = await nbcbench(['nbov', ...what]);
        assert.equal(code, 0, stderr);
        const rows = JSON.parse(stdout) as Row[];
        assert.deepEqual(
          rows.map(({ way, bytes }) => [way, bytes]),
          ['no test-on-init', 'test-on-init', 'wait-on-send'].flatMap((way) => sizes.map((bytes) => [way, bytes])),
        );
        for (const row of rows) {
          const text = JSON.stringify(row);
          const { repetitions, tests, round_trip_us } = row as Record<string, number>;
          assert.equal(repetitions, 50);
          assert(tests >= 1, text); // somebody has to notice that it is over
          // In each repetition every call lies within the round trip, and so do the medians.
          for (const call of CALLS) assert(Number.isFinite(row[call]) && Number(row[call]) <= round_trip_us, text);
          assert(Number(row.isend_us) > 0, text);
        }
        assert.match(
          stderr,
          /isend +irecv +each test +tests +round trip/,
          'tables give way to JSON on standard output',
        );
        assert.deepEqual(left, []);
      });
    }

    it('only the modes that it is asked for', async () => {
      const { code, stdout, stderr } = await nbcbench([
        ...['nbov', '--ways', 'wait-on-send', '--sizes', '8', '--repetitions', '10', '--json', '-'],
      ]);
      assert.equal(code, 0, stderr);
      assert.deepEqual(
        (JSON.parse(stdout) as Row[]).map(({ way }) => way),
        ['wait-on-send'],
      );
    });
  });

  describe('waiting and memory', () => {
    it('waiting: ranks that wait leave the processor to others', async () => {
      const { code, stdout, stderr } = await nbcbench([
        'waiting',
        '--ranks',
        '4',
        '--seconds',
        '1',
        '--idle',
        '0.1',
        '--json',
        '-',
      ]);
      assert.equal(code, 0, stderr);
      const rows = JSON.parse(stdout) as { how: string; cpu_pct: number; waited: number }[];
      assert.deepEqual(
        rows.map(({ how }) => how),
        ['wait', 'await'],
      );
      // Spinning would be 100 and more.
      for (const { waited } of rows) assert.equal(waited, 4);
      for (const { cpu_pct } of rows) assert(cpu_pct < 50, `${cpu_pct} %`);
    });

    it('memory: of ranks and of bare Node', async () => {
      const { code, stdout, stderr } = await nbcbench(['memory', '--ranks', '3', '--json', '-']);
      assert.equal(code, 0, stderr);
      const { bare, rank } = JSON.parse(stdout) as Record<string, { rss: number; pss: number }>;
      for (const { rss, pss } of [bare, rank]) assert(rss > 1e7 && pss > 1e6 && pss <= rss, stdout);
    });
  });
});
