/**
 * Overhead against message size, as the paper's Figures 1 to 3 and 6 to 10: each mode with each test interval, then
 * each mode with the interval that suits it best, beside blocking calls.
 */
import { formatBytes, formatInterval } from '../../dist/bench/nbcbench/options.js';
import { COLOURS, drawPanels } from '../../dist/bench/nbcbench/panels.js';
import { peerVersion } from '../../dist/bench/nbcbench/peers.js';
import { WAYS } from '../../dist/bench/nbcbench/ways.js';
import { THREAD, colourOf, digits, linkName, percent, table, unique } from './curves.mjs';
import { facts, runThere } from './slow-link.mjs';

const INTERVALS = [0, 1024, 2048, 4096, 8192];
const SIZES = ['1K..1M'];
const QUICK_SIZES = ['1K', '16K'];
const PEER = 'openmpi';
const MPI = 'Open MPI';
/** Without tests in the paper, since they are meant not to need any. */
const UNTESTED = ['wait-on-send', THREAD];

export const overhead = (op, paper) => ({
  name: op,
  title: `${op}: overhead against message size`,
  paper,
  measure: (options) => measure(op, options),
  draw,
  table: tables,
});

async function measure(op, { quick }) {
  const repetitions = quick ? 5 : 50;
  const sizes = quick ? QUICK_SIZES : SIZES;
  const output = await runThere('dist/bench/nbcbench/main.js', [
    ...['--ops', op, '--ranks', '2', '--transport', 'tcp', '--buffers', 'plain', '--sizes', sizes.join()],
    ...['--intervals', INTERVALS.join(), '--progress', 'thread,manual', '--ways', WAYS.join()],
    ...['--repetitions', `${repetitions}`, '--max-seconds', quick ? '0.1' : '0.4', '--json', '-'],
    ...(quick ? ['--no-warm-up', '--start', 'gate'] : ['--peers', PEER]),
  ]);
  const rows = JSON.parse(output).map(({ implementation, way, progress, ...row }) => ({
    mode: implementation === PEER ? MPI : progress === 'thread' ? THREAD : way,
    ...pick(row),
  }));
  const found = facts();
  if (rows.some(({ mode }) => mode === MPI)) found.versions[MPI] = peerVersion(PEER);
  return { ...found, ranks: 2, repetitions, op, rows };
}

function pick({ bytes, interval, blocking_us, init_us, test_us, wait_us, overhead_us, overlap_pct }) {
  return { bytes, interval, blocking_us, init_us, test_us, wait_us, overhead_us, overlap_pct };
}

function draw(echarts, data) {
  const { rows } = data;
  const panels = modesOf(rows).map((mode) => ({
    title: mode === MPI ? `${MPI} ${data.versions[MPI]}` : mode,
    curves: [
      ...INTERVALS.map((interval, i) => ({
        name: formatInterval(interval),
        colour: COLOURS[i === 2 ? 6 : i],
        dash: i,
        points: points(rows, mode, interval),
      })),
      { name: 'blocking: start + wait', colour: colourOf('blocking'), dash: 2, points: blocking(rows, mode) },
    ],
  }));
  panels.push({ title: 'each mode at its best', curves: bestCurves(rows), ownLegend: true });
  const title = `${data.op} between ${data.ranks} ranks, ${linkName(data.link)}`;
  return drawPanels(echarts, { panels, title, y: 'overhead (init + test + wait), µs', sameScale: true });
}

const modesOf = (rows) => [MPI, ...WAYS, THREAD].filter((mode) => rows.some((row) => row.mode === mode));
const points = (rows, mode, interval) =>
  rows.filter((row) => row.mode === mode && row.interval === interval).map((row) => [row.bytes, row.overhead_us]);
const blocking = (rows, mode) =>
  rows.filter((row) => row.mode === mode && row.interval === 0).map((row) => [row.bytes, row.blocking_us]);

/** The interval with the least overhead, as the geometric mean over all sizes. */
function bestInterval(rows, mode) {
  if (UNTESTED.includes(mode)) return 0;
  const cost = (interval) => points(rows, mode, interval).reduce((sum, [, us]) => sum + Math.log(us), 0);
  return INTERVALS.reduce((best, interval) => (cost(interval) < cost(best) ? interval : best));
}

function bestCurves(rows) {
  const modes = modesOf(rows);
  const best = modes.map((mode) => {
    const interval = bestInterval(rows, mode);
    const name = `${mode}, ${formatInterval(interval)}`;
    return { name, colour: colourOf(mode), dash: 0, points: points(rows, mode, interval) };
  });
  const plain = [MPI, THREAD].filter((mode) => modes.includes(mode));
  const blocked = plain.map((mode) => ({
    name: `blocking, ${mode === MPI ? MPI : 'node-nbc'}`,
    colour: mode === MPI ? colourOf(MPI) : colourOf('blocking'),
    dash: 2,
    points: blocking(rows, mode),
  }));
  return [...best, ...blocked];
}

/** The last panel in numbers; and which interval is best where. */
function tables({ rows }) {
  const sizes = unique(rows.map(({ bytes }) => bytes));
  const modes = modesOf(rows);
  const curves = bestCurves(rows);
  const at = (curve, bytes) => curve.points.find(([x]) => x === bytes)?.[1];
  const thread = curves.find(({ name }) => name.startsWith(THREAD));
  const own = curves.find(({ name }) => name === 'blocking, node-nbc');
  const costs = table(
    ['overhead, µs', ...curves.map(({ name }) => name), 'progress thread, of blocking'],
    sizes.map((bytes) => [
      formatBytes(bytes),
      ...curves.map((curve) => digits(at(curve, bytes))),
      percent(at(thread, bytes) / at(own, bytes)),
    ]),
  );
  const intervals = table(
    ['best interval', ...modes],
    sizes.map((bytes) => [formatBytes(bytes), ...modes.map((mode) => bestAt(rows, mode, bytes))]),
  );
  return `${costs}\n\n${intervals}`;
}

function bestAt(rows, mode, bytes) {
  const here = rows.filter((row) => row.mode === mode && row.bytes === bytes);
  const { interval } = here.reduce((best, row) => (row.overhead_us < best.overhead_us ? row : best));
  return interval === 0 ? 'none' : formatBytes(interval);
}
