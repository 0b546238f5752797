/**
 * The communication overhead of the two application kernels, as the paper's Figures 11 and 12: examples/compression and
 * examples/fft3d.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { VARIABLES } from '../../dist/bench/nbcbench/ways.js';
import { drawBars } from './bars.mjs';
import { TESTED, THREAD, colourOf, digits, linkName, percent, table, unique } from './curves.mjs';
import { RATE, facts, runThere } from './slow-link.mjs';

/** The first is enough to show that it works. */
const JOBS = [
  { ranks: 2, rate: RATE },
  { ranks: 4, rate: RATE },
];

/** Settings of node-nbc under which a kernel runs; `args`: what the kernel itself is told. */
const manual = (way, args = []) => ({ env: { NBC_PROGRESS: 'manual', ...VARIABLES[way] }, args });
const MODES = {
  'no test-on-init': manual('no test-on-init'),
  'test-on-init': manual('test-on-init'),
  'wait-on-send': manual('wait-on-send'),
  [THREAD]: { env: { NBC_PROGRESS: 'thread' }, args: [] },
};

export const compression = {
  name: 'compression',
  title: 'parallel compression',
  paper: 'Figure 11',
  measure: (options) =>
    measure(options, {
      script: 'out/examples/compression/main.js',
      input: options.quick ? 'node_modules/commander' : 'node_modules',
      args: ({ input, scratch }) => [input, '--level', '1', '--archive', join(scratch, 'archive')],
      modes: MODES,
      // Times of the job: the whole, and what exceeds the work of the rank that had most of it.
      jobs: JOBS,
      line: /^(blocking|non-blocking)\s+whole ([\d.]+) ms, .*communication ([\d.]+) ms/gm,
    }),
  draw,
  table: tables,
};

export const fft3d = {
  name: 'fft3d',
  title: '3D FFT',
  paper: 'Figure 12',
  measure: (options) =>
    measure(options, {
      script: 'out/examples/fft3d/main.js',
      input: options.quick ? '16x16x16' : '112x120x96',
      // A long series: of one volume alone, half of what there is to compute comes when nothing travels, as in the
      // first and last steps of a series.
      args: ({ input, scratch }) => [
        ...['--grid', input, '--volumes', options.quick ? '2' : '12', '--planes', '8', '--check', 'parseval'],
        ...['--output', scratch, '--format', 'nii'],
      ],
      modes: { [TESTED]: manual('test-on-init', ['--test']), ...MODES },
      // Where all share 1 Gbit/s it communicates for longer than it computes, so that not all can be hidden. With a
      // card for each rank they send at the same time, as in a cluster.
      jobs: [...JOBS, { ranks: 2, rate: RATE, cards: 2 }, { ranks: 4, rate: RATE, cards: 4 }],
      // Times of the slowest rank.
      line: /^(blocking|non-blocking)\s+([\d.]+) ms\s+([\d.]+) ms/gm,
    }),
  draw,
  table: tables,
};

async function measure({ quick, say }, { script, input, args, modes, jobs, line }) {
  const repetitions = quick ? 1 : 5;
  const rows = [];
  const scratch = mkdtempSync(join(tmpdir(), 'nbc-figures-'));
  try {
    for (const { ranks, rate, cards = 0 } of quick ? jobs.slice(0, 1) : jobs) {
      for (const [mode, { env, args: more }] of Object.entries(modes)) {
        say(`${script}: ${ranks} ranks, ${linkName({ rate, cards })}, ${mode}`);
        const own = [...args({ input, scratch }), ...more, '--repetitions', `${repetitions}`];
        const output = await runThere('dist/cli/nbcrun.js', ['-n', `${ranks}`, script, ...own], {
          rate,
          cards,
          env: { NBC_TRANSPORT: 'tcp', ...env },
        });
        rows.push({ ranks, rate, cards, mode, ...read(output, line) });
      }
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return { ...facts(), input, repetitions, rows };
}

/** Milliseconds of both variants, which the kernel runs in turns; medians. */
function read(output, line) {
  const found = Object.fromEntries([...output.matchAll(line)].map(([, name, ...times]) => [name, times.map(Number)]));
  if (!found.blocking || !found['non-blocking']) throw new Error(`the kernel did not print its times:\n${output}`);
  const [[blocking_ms, blocking_overhead_ms], [total_ms, overhead_ms]] = [found.blocking, found['non-blocking']];
  return { blocking_ms, blocking_overhead_ms, total_ms, overhead_ms };
}

const groupOf = (row) => `${row.ranks} ranks, ${linkName(row)}`;

/**
 * What is left of the overhead of blocking calls with node-nbc's defaults: without a progress thread those, too, would
 * take longer.
 */
function left(row, rows) {
  const usual = rows.find((each) => each.mode === THREAD && groupOf(each) === groupOf(row));
  return row.overhead_ms / usual.blocking_overhead_ms;
}

function draw(echarts, { rows, title }) {
  const usual = rows.filter(({ mode }) => mode === THREAD);
  const bars = unique(rows.map(({ mode }) => mode)).map((mode) => ({
    name: mode,
    colour: colourOf(mode),
    values: usual.map((group) => {
      const row = rows.find((each) => each.mode === mode && groupOf(each) === groupOf(group));
      return { value: 100 * left(row, rows), label: `${digits(row.overhead_ms)} ms` };
    }),
  }));
  return drawBars(echarts, {
    title: `${title}: communication overhead, non-blocking`,
    y: 'overhead, % of that of blocking calls',
    groups: usual.map((row) => `${groupOf(row)}\n100 %: ${digits(row.blocking_overhead_ms)} ms`),
    bars,
  });
}

function tables({ rows }) {
  const head = ['ms', 'blocking: whole', 'overhead', 'non-blocking: whole', 'overhead', 'overhead removed'];
  return table(
    head,
    rows.map((row) => [
      `${groupOf(row)}, ${row.mode}`,
      ...[row.blocking_ms, row.blocking_overhead_ms, row.total_ms, row.overhead_ms].map(digits),
      percent(1 - left(row, rows)),
    ]),
  );
}
