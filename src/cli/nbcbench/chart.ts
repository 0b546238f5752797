/** Overhead against message size, as in the paper's figures: one panel for each operation and number of ranks. */
import type * as Echarts from 'echarts';
import type { Row } from './report.js';
import { formatBytes } from './options.js';

const PANEL = { width: 460, height: 300, left: 74, top: 40, gapX: 96, gapY: 96 };
const COLUMNS = 3;

/** The library that draws is an optional peer dependency. Called before anything is measured, so that nothing is in vain. */
export async function loadCharts(): Promise<typeof Echarts> {
  try {
    return await import('echarts');
  } catch (error) {
    throw new Error('--svg draws with the package echarts, which is not installed: npm install echarts', {
      cause: error,
    });
  }
}

/** What a curve shows: an implementation in one setting, which gives it its colour, and a test interval, which dashes it. */
interface Curve {
  name: string;
  colour: string;
  dash: number;
  has: (row: Row) => boolean;
}

const COLOURS = ['#1f5fbf', '#e07b00', '#7a7a7a', '#2a9d4a', '#b02a6b', '#00a0a8', '#8a5a2b', '#6a4fb3'];
const DASHES = ['solid', [6, 3], [2, 3], [8, 3, 2, 3]] as const;

function curves(rows: readonly Row[]): Curve[] {
  const settingOf = (row: Row): string => {
    const ours = rows.filter(({ implementation }) => implementation === row.implementation);
    const differing = (['transport', 'progress', 'buffers'] as const).filter(
      (field) => new Set(ours.map((other) => other[field])).size > 1,
    );
    return [row.implementation, ...differing.map((field) => row[field])].join(', ');
  };
  const settings = [...new Set(rows.map(settingOf))];
  const intervals = [...new Set(rows.map(({ interval }) => interval))];
  return settings.flatMap((setting, i) =>
    intervals.map((interval, dash) => {
      const tests = interval === 0 ? 'no tests' : `a test every ${formatBytes(interval)}`;
      return {
        name: intervals.length > 1 ? `${setting}, ${tests}` : setting,
        colour: COLOURS[i % COLOURS.length],
        dash: dash % DASHES.length,
        has: (row: Row) => row.interval === interval && settingOf(row) === setting,
      };
    }),
  );
}

/** An SVG document. Sizes of zero have no place on a logarithmic axis and are left out. */
export function drawOverhead(echarts: typeof Echarts, rows: readonly Row[]): string {
  const drawn = rows.filter(({ bytes }) => bytes > 0);
  const panels = [...new Set(drawn.map(({ op, ranks }) => `${op}, ${ranks} rank${ranks === 1 ? '' : 's'}`))];
  const panelOf = ({ op, ranks }: Row) => panels.indexOf(`${op}, ${ranks} rank${ranks === 1 ? '' : 's'}`);
  const drawnCurves = curves(drawn);
  const columns = Math.min(COLUMNS, Math.max(1, panels.length));
  const lines = Math.ceil(panels.length / columns);
  const place = panels.map((_, i) => ({
    left: PANEL.left + (i % columns) * (PANEL.width + PANEL.gapX),
    top: PANEL.top + Math.floor(i / columns) * (PANEL.height + PANEL.gapY),
  }));
  const legendRows = Math.ceil(drawnCurves.length / (columns * 2));
  const width = PANEL.left + columns * (PANEL.width + PANEL.gapX) - PANEL.gapX + 30;
  const height = PANEL.top + lines * (PANEL.height + PANEL.gapY) + 24 * legendRows;

  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width, height });
  chart.setOption({
    animation: false,
    backgroundColor: '#fff',
    title: panels.map((text, i) => ({
      text,
      left: place[i].left + PANEL.width / 2,
      top: place[i].top - 30,
      textAlign: 'center',
      textStyle: { fontSize: 15 },
    })),
    textStyle: { fontFamily: 'Helvetica, Arial, sans-serif' },
    legend: { bottom: 6, itemGap: 36, data: drawnCurves.map(({ name }) => name) },
    grid: place.map((at) => ({ ...at, width: PANEL.width, height: PANEL.height })),
    xAxis: panels.map((_, gridIndex) => ({
      gridIndex,
      type: 'log',
      logBase: 2,
      name: 'message size',
      nameLocation: 'middle',
      nameGap: 30,
      splitNumber: 8,
      axisLabel: { formatter: (bytes: number) => formatBytes(bytes), hideOverlap: true },
      min: 'dataMin',
      max: 'dataMax',
    })),
    yAxis: panels.map((_, gridIndex) => ({
      gridIndex,
      type: 'log',
      name: 'overhead, µs',
      nameLocation: 'middle',
      nameGap: 50,
      axisLabel: { formatter: (us: number) => String(us) },
    })),
    series: panels.flatMap((_, panel) =>
      drawnCurves.map(({ name, colour, dash, has }) => ({
        name,
        type: 'line' as const,
        xAxisIndex: panel,
        yAxisIndex: panel,
        symbolSize: 6,
        itemStyle: { color: colour },
        lineStyle: { color: colour, type: dash === 0 ? 'solid' : [...(DASHES[dash] as readonly number[])] },
        data: drawn
          .filter((row) => panelOf(row) === panel && has(row))
          // The logarithm of what the clock cannot tell from nothing is drawn at its resolution.
          .map(({ bytes, overhead_us }) => [bytes, Math.max(0.01, overhead_us)]),
      })),
    ),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
