/** Overhead against message size, as in the paper's figures: one panel for each operation and number of ranks. */
import type * as Echarts from 'echarts';
import { formatInterval } from './options.js';
import { COLOURS, drawPanels } from './panels.js';
import { SETTINGS, type Row } from './report.js';

/**
 * What a curve shows: an implementation in one setting, which gives it its colour, and a test interval, which dashes
 * it.
 */
interface Kind {
  name: string;
  colour: string;
  dash: number;
  has: (row: Row) => boolean;
}

function kinds(rows: readonly Row[]): Kind[] {
  const settingOf = (row: Row): string => {
    const ours = rows.filter(({ implementation }) => implementation === row.implementation);
    const differing = SETTINGS.filter((field) => new Set(ours.map((other) => other[field])).size > 1);
    return [row.implementation, ...differing.map((field) => row[field] ?? 'default')].join(', ');
  };
  const settings = [...new Set(rows.map(settingOf))];
  const intervals = [...new Set(rows.map(({ interval }) => interval))];
  return settings.flatMap((setting, i) =>
    intervals.map((interval, dash) => ({
      name: intervals.length > 1 ? `${setting}, ${formatInterval(interval)}` : setting,
      colour: COLOURS[i % COLOURS.length],
      dash,
      has: (row: Row) => row.interval === interval && settingOf(row) === setting,
    })),
  );
}

/** An SVG document. */
export function drawOverhead(echarts: typeof Echarts, rows: readonly Row[]): string {
  const titleOf = ({ op, ranks }: Row) => `${op}, ${ranks} rank${ranks === 1 ? '' : 's'}`;
  const curves = kinds(rows);
  const panels = [...new Set(rows.map(titleOf))].map((title) => ({
    title,
    curves: curves.map(({ has, ...curve }) => ({
      ...curve,
      points: rows
        .filter((row) => titleOf(row) === title && has(row))
        .map(({ bytes, overhead_us }) => [bytes, overhead_us] as const),
    })),
  }));
  return drawPanels(echarts, { panels, y: 'overhead, µs' });
}
