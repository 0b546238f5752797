/** What isend, irecv and a test cost in each mode, as the paper's Figures 4 and 5: nbcbench nbov. */
import { formatBytes } from '../../dist/bench/nbcbench/options.js';
import { drawPanels } from '../../dist/bench/nbcbench/panels.js';
import { WAYS } from '../../dist/bench/nbcbench/ways.js';
import { THREAD, colourOf, digits, linkName, table, unique } from './curves.mjs';
import { facts, runThere } from './slow-link.mjs';

const CALLS = { isend: 'isend_us', irecv: 'irecv_us', 'each test': 'test_us' };
const MODES = [...WAYS, THREAD];

export const calls = {
  name: 'isend-irecv',
  title: 'the cost of isend, irecv and test',
  paper: 'Figures 4 and 5',
  measure,
  draw,
  table: costs,
};

async function measure({ quick }) {
  const repetitions = quick ? 20 : 1000;
  const common = ['--transport', 'tcp', '--repetitions', `${repetitions}`, '--json', '-'];
  const sizes = ['--sizes', quick ? '8,8K' : '8..256K'];
  const nbov = async (...args) =>
    JSON.parse(await runThere('dist/bench/nbcbench/main.js', ['nbov', ...args, ...sizes, ...common]));
  const manual = await nbov('--progress', 'manual');
  const thread = await nbov('--progress', 'thread', '--ways', 'test-on-init');
  const rows = [...manual, ...thread].map(({ progress, way, bytes, ...row }) => ({
    mode: progress === 'thread' ? THREAD : way,
    bytes,
    ...Object.fromEntries(
      [...Object.values(CALLS), 'tests', 'round_trip_us'].map((field) => [field, rounded(row[field])]),
    ),
  }));
  return { ...facts(), ranks: 2, repetitions, rows };
}

const rounded = (value) => Math.round(value * 1000) / 1000;

function draw(echarts, { rows, link }) {
  const panels = Object.entries(CALLS).map(([title, field]) => ({
    title,
    curves: MODES.map((mode) => ({
      name: mode,
      colour: colourOf(mode),
      dash: mode === THREAD ? 1 : 0,
      points: rows.filter((row) => row.mode === mode).map((row) => [row.bytes, row[field]]),
    })),
  }));
  const title = `Ping-pong between 2 ranks, ${linkName(link)}`;
  return drawPanels(echarts, { panels, title, y: 'time of a call, µs', sameScale: true });
}

function costs({ rows }) {
  const columns = Object.keys(CALLS)
    .slice(0, 2)
    .flatMap((call) => MODES.map((mode) => [call, mode]));
  const head = ['µs', ...columns.map(([call, mode]) => `${call}, ${mode}`)];
  return table(
    head,
    unique(rows.map(({ bytes }) => bytes)).map((bytes) => [
      formatBytes(bytes),
      ...columns.map(([call, mode]) =>
        digits(rows.find((row) => row.bytes === bytes && row.mode === mode)[CALLS[call]]),
      ),
    ]),
  );
}
