/** A trace as a picture (SVG): what overlaps, at a glance. Perfetto shows the rest. */
import { type ChromeEvent, Track } from './chrome.js';
import type { RankTrace } from './merge.js';
import { pendingOperations, slices } from './summary.js';

/** Milliseconds since the first event of the trace. */
export type Window = readonly [from: number, to: number];

/** A picture with more than that shows nothing, and no viewer likes it. */
const MOST_SLICES = 5000;

/** All lengths are pixels. */
const WIDTH = 900;
const LEFT = 130;
const ROW = 22;
const BAR = 14;
const LANE = 3 * ROW + 14;
const TOP = 30;
/** A bar with a name has this width at least, for each letter of it. */
const LETTER = 6.2;

const ROWS = ['program', 'operations', 'progress thread'] as const;

/**
 * Draws the ranks of a trace, one below the other, each with three rows: where its program computes and where it is in
 * a call of the library, which operations are pending, and when the progress thread works.
 *
 * @param traces of ranks, on one clock
 * @throws {Error} if the window is empty, or has too much to be seen
 */
export function drawTraces(traces: readonly RankTrace[], window?: Window): string {
  const times = traces.flatMap(({ events }) =>
    events.flatMap(({ ts, dur = 0 }) => (ts === undefined ? [] : [ts, ts + dur])),
  );
  const [first, last] = [least(times), -least(times.map((time) => -time))];
  const [from, to] = window === undefined ? [first, last] : window.map((ms) => first + ms * 1000);
  if (!(from < to) || from > last) throw new Error('there is nothing in this window of the trace');
  const x = (time: number): number =>
    LEFT + ((Math.min(Math.max(time, from), to) - from) / (to - from)) * (WIDTH - LEFT - 10);
  const inside = (slice: Slice): boolean => slice.to > from && slice.from < to;
  const lanes = traces.map(({ events, metadata }) => ({
    rank: metadata.rank,
    rows: rowsOf(events).map((row) => row.filter(inside)),
  }));
  const count = lanes.reduce((sum, { rows }) => sum + rows.flat().length, 0);
  if (count > MOST_SLICES)
    throw new Error(`${count} slices are too many for a picture: choose a shorter window of the trace`);
  const bottom = TOP + lanes.length * LANE;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${bottom + ROW}" width="${WIDTH}" height="${bottom + ROW}">`,
    STYLE,
    ...ticks(to - from).map((ms) => drawTick(ms, x(from + ms * 1000), bottom)),
    ...lanes.flatMap(({ rank, rows }, index) => drawLane(rank, rows, TOP + index * LANE, [x(from), x(to)], x)),
    ...LEGEND.map(([kind, text], index) => drawLegend(kind, text, LEFT + index * 190, bottom)),
    '</svg>',
    '',
  ].join('\n');
}

/** Without the limit that a call's arguments have. */
const least = (numbers: readonly number[]): number => numbers.reduce((a, b) => Math.min(a, b), Infinity);

interface Slice {
  from: number;
  to: number;
  /** Empty: nothing is written into it. */
  name: string;
}

/** In the order of {@link ROWS}; of the program, its calls. */
function rowsOf(events: readonly ChromeEvent[]): Slice[][] {
  const nameless = ([from, to]: readonly [number, number]): Slice => ({ from, to, name: '' });
  const operations = pendingOperations(events).map(({ from, to, name }) => ({ from, to, name }));
  return [slices(events, Track.PROGRAM).map(nameless), operations, slices(events, Track.PROGRESS).map(nameless)];
}

/** Some round numbers of milliseconds. */
function ticks(microseconds: number): number[] {
  const rough = microseconds / 1000 / 8;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough)!;
  return Array.from({ length: Math.floor(microseconds / 1000 / step) + 1 }, (_, index) =>
    Number((index * step).toPrecision(6)),
  );
}

function drawTick(ms: number, at: number, height: number): string {
  return `<line class="tick" x1="${px(at)}" y1="${TOP - 8}" x2="${px(at)}" y2="${height}"/><text class="small" x="${px(at)}" y="${TOP - 12}" text-anchor="middle">${ms} ms</text>`;
}

const LEGEND = [
  ['computes', 'the program computes'],
  ['call', 'it is in a call of the library'],
  ['operation', 'an operation is pending'],
  ['progress', 'the progress thread works'],
] as const;

function drawLegend(kind: string, text: string, left: number, top: number): string {
  const sample = `<rect class="${kind}" x="${left}" y="${top}" width="${BAR}" height="${BAR}"/>`;
  return `${sample}<text class="small" x="${left + BAR + 6}" y="${top + 11}">${text}</text>`;
}

type Scale = (time: number) => number;

function drawLane(rank: number, rows: readonly Slice[][], top: number, [left, right]: Window, x: Scale): string[] {
  const bar = (kind: string, row: number, from: number, to: number, name = ''): string => {
    const [y, width] = [top + row * ROW, Math.max(to - from, 0.6)];
    const text =
      name !== '' && name.length * LETTER < width
        ? `<text class="small" x="${px(from + 4)}" y="${y + 11}">${escape(name)}</text>`
        : '';
    const title = name === '' ? '' : `<title>${escape(name)}</title>`;
    return `<g>${title}<rect class="${kind}" x="${px(from)}" y="${y}" width="${px(width)}" height="${BAR}"/>${text}</g>`;
  };
  const [calls, operations, progress] = rows;
  return [
    `<text class="rank" x="10" y="${top + 11}">rank ${rank}</text>`,
    ...ROWS.map(
      (name, row) =>
        `<text class="small" x="${LEFT - 10}" y="${top + row * ROW + 11}" text-anchor="end">${name}</text>`,
    ),
    bar('computes', 0, left, right),
    ...calls.map(({ from, to }) => bar('call', 0, x(from), x(to))),
    ...operations.map(({ from, to, name }) => bar('operation', 1, x(from), x(to), name)),
    ...progress.map(({ from, to }) => bar('progress', 2, x(from), x(to))),
  ];
}

const px = (length: number): string => `${Number(length.toFixed(1))}`;

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const STYLE = `<style>
  svg { font: 13px system-ui, sans-serif; background: #ffffff; }
  text { fill: #1f2430; }
  .small { font-size: 11px; }
  .rank { font-weight: 600; }
  .tick { stroke: #d5d9e2; stroke-dasharray: 2 4; }
  .computes { fill: #dfe4ec; }
  .call { fill: #c0392b; }
  .operation { fill: #bcd6f7; stroke: #3b6fb6; stroke-width: 0.6; }
  .progress { fill: #2f7d4f; }
  @media (prefers-color-scheme: dark) {
    svg { background: #15181e; }
    text { fill: #e4e7ee; }
    .tick { stroke: #3a404c; }
    .computes { fill: #39414f; }
    .call { fill: #f0705f; }
    .operation { fill: #24456f; stroke: #7fb0f5; }
    .progress { fill: #6fce97; }
  }
</style>`;
