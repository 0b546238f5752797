/**
 * One SVG for each sweep and transport: throughput above, latency below; one column for each design, or pair of verbs.
 */
import type * as Echarts from 'echarts';
import type { Row } from './row.js';
import type { Sweep } from './sweeps.js';

interface Axis {
  of: (row: Row) => number;
  name: string;
  /** What a column and a curve stand for. */
  column: (row: Row) => string;
  curve: (row: Row) => string;
}

const verbs = ({ request, response }: Row): string => `${request} / ${response}`;
const design = (row: Row): string => (row.design === 'private' ? 'one thread answers' : 'dispatcher, up to 2 workers');

const AXES: Record<Sweep, Axis> = {
  size: { of: (row) => row.response_bytes, name: 'bytes of a response', column: () => 'one to one', curve: verbs },
  clients: { of: (row) => row.clients, name: 'clients', column: design, curve: verbs },
  empty: { of: (row) => row.empty_pct, name: 'mailboxes of nobody, %', column: design, curve: verbs },
  inline: {
    of: (row) => row.request_bytes,
    name: 'bytes of a message',
    column: verbs,
    curve: ({ inline_bytes }) => (inline_bytes === 0 ? 'nothing inline' : `inline up to ${inline_bytes} B`),
  },
  signal: { of: (row) => row.signal_every ?? 0, name: 'one signalled of', column: () => 'one to one', curve: verbs },
};

const FIGURES = [
  { name: 'requests/s', of: (row: Row) => row.requests_per_s, dashed: false },
  { name: 'latency, µs (dashed: 99th percentile)', of: (row: Row) => row.median_us, dashed: false },
] as const;

/**
 * One scale for all columns, so that they can be compared by eye. Throughput is from 0, so that a small difference
 * looks small.
 */
function scalesOf(rows: readonly Row[]) {
  const most = Math.max(...rows.map((row) => row.requests_per_s));
  const unit = 10 ** Math.floor(Math.log10(most)) / 2;
  const decade = (round: (power: number) => number, us: number) => 10 ** round(Math.log10(us));
  return [
    { type: 'value', min: 0, max: Math.ceil(most / unit) * unit },
    // Latencies reach from the median to many times that.
    {
      type: 'log',
      min: decade(Math.floor, Math.min(...rows.map((row) => row.median_us))),
      max: decade(Math.ceil, Math.max(...rows.map((row) => row.p99_us))),
    },
  ] as const;
}

const PANEL = { width: 440, height: 260, left: 84, top: 50, gapX: 110, gapY: 90 };
const COLOURS = ['#1f5fbf', '#e07b00', '#2a9d4a', '#b02a6b', '#7a7a7a', '#00a0a8'];

/** An SVG document of rows of one sweep on one transport. */
export function draw(echarts: typeof Echarts, sweep: Sweep, rows: readonly Row[]): string {
  const axis = AXES[sweep];
  const columns = [...new Set(rows.map(axis.column))];
  const curves = [...new Set(rows.map(axis.curve))];
  const points = [...new Set(rows.map(axis.of))].sort((a, b) => a - b);
  const scales = scalesOf(rows);
  const panels = FIGURES.flatMap((figure, line) => columns.map((column, at) => ({ figure, line, column, at })));
  const place = panels.map(({ line, at }) => ({
    left: PANEL.left + at * (PANEL.width + PANEL.gapX),
    top: PANEL.top + line * (PANEL.height + PANEL.gapY),
  }));
  const width = PANEL.left + columns.length * (PANEL.width + PANEL.gapX) - PANEL.gapX + 30;
  const height = PANEL.top + FIGURES.length * (PANEL.height + PANEL.gapY) + 30;

  const seriesOf = (panel: number, curve: string, of: (row: Row) => number, dashed: boolean) => {
    const colour = COLOURS[curves.indexOf(curve) % COLOURS.length];
    const own = rows.filter((row) => axis.column(row) === panels[panel].column && axis.curve(row) === curve);
    return {
      name: curve,
      type: 'line' as const,
      xAxisIndex: panel,
      yAxisIndex: panel,
      symbolSize: dashed ? 0 : 6,
      itemStyle: { color: colour },
      lineStyle: { color: colour, width: dashed ? 1 : 2, type: dashed ? ('dashed' as const) : ('solid' as const) },
      data: own.map((row) => [points.indexOf(axis.of(row)), of(row)]),
    };
  };

  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width, height });
  chart.setOption({
    animation: false,
    backgroundColor: '#fff',
    textStyle: { fontFamily: 'Helvetica, Arial, sans-serif' },
    title: panels.map(({ column }, i) => ({
      text: column,
      left: place[i].left + PANEL.width / 2,
      top: place[i].top - 34,
      textAlign: 'center',
      textStyle: { fontSize: 14 },
    })),
    legend: { bottom: 4, itemGap: 30, data: curves },
    grid: place.map((at) => ({ ...at, width: PANEL.width, height: PANEL.height })),
    // Points at equal distances: they are powers of two mostly, and per cents that crowd towards their end.
    xAxis: panels.map((_, gridIndex) => ({
      gridIndex,
      type: 'category',
      data: points.map(String),
      name: axis.name,
      nameLocation: 'middle',
      nameGap: 28,
    })),
    yAxis: panels.map(({ line }, gridIndex) => ({
      gridIndex,
      ...scales[line],
      name: FIGURES[line].name,
      nameLocation: 'middle',
      nameGap: 60,
    })),
    series: panels.flatMap(({ line, figure }, panel) =>
      curves.flatMap((curve) => [
        seriesOf(panel, curve, figure.of, false),
        ...(line === 1 ? [seriesOf(panel, curve, (row) => row.p99_us, true)] : []),
      ]),
    ),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
