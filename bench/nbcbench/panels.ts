/** Curves over message sizes, in panels side by side, as one SVG document. Both axes are logarithmic. */
import type * as Echarts from 'echarts';
import { formatBytes } from './options.js';

const PANEL = { width: 460, height: 300, left: 74, top: 40, gapX: 96, gapY: 96 };
const COLUMNS = 3;
const DASHES: readonly ('solid' | number[])[] = ['solid', [6, 3], [2, 3], [8, 3, 2, 3], [12, 4]];

export const COLOURS = [
  '#1f5fbf',
  '#e07b00',
  '#7a7a7a',
  '#2a9d4a',
  '#b02a6b',
  '#00a0a8',
  '#8a5a2b',
  '#6a4fb3',
] as const;

/**
 * The library that draws is an optional peer dependency. Called before anything is measured, so that nothing is in
 * vain.
 */
export async function loadCharts(): Promise<typeof Echarts> {
  try {
    return await import('echarts');
  } catch (error) {
    throw new Error('--svg draws with the package echarts, which is not installed: npm install echarts', {
      cause: error,
    });
  }
}

export interface Curve {
  name: string;
  colour: string;
  /** Which dash pattern; 0: none. */
  dash: number;
  /** Bytes and microseconds. */
  points: readonly (readonly [bytes: number, us: number])[];
}

export interface Panel {
  title: string;
  curves: readonly Curve[];
  /** Names its curves inside the panel; all others share the names below the panels. */
  ownLegend?: boolean;
}

export interface Drawing {
  panels: readonly Panel[];
  /** What is on the y axes, with its unit. */
  y: string;
  /** Above all panels. */
  title?: string;
  /** The same scale in every panel, so that they can be compared. */
  sameScale?: boolean;
}

/** An SVG document. Sizes of zero have no place on a logarithmic axis and are left out. */
export function drawPanels(echarts: typeof Echarts, { panels, y, title, sameScale }: Drawing): string {
  const headroom = title === undefined ? 0 : 40;
  const columns = Math.min(COLUMNS, Math.max(1, panels.length));
  const lines = Math.ceil(panels.length / columns);
  const place = panels.map((_, i) => ({
    left: PANEL.left + (i % columns) * (PANEL.width + PANEL.gapX),
    top: headroom + PANEL.top + Math.floor(i / columns) * (PANEL.height + PANEL.gapY),
  }));
  const namesOf = (some: readonly Panel[]) => [
    ...new Set(some.flatMap(({ curves }) => curves.map(({ name }) => name))),
  ];
  const shared = namesOf(panels.filter(({ ownLegend }) => !ownLegend));
  const legendRows = Math.ceil(shared.length / (columns * 2));
  const width = PANEL.left + columns * (PANEL.width + PANEL.gapX) - PANEL.gapX + 30;
  const height = headroom + PANEL.top + lines * (PANEL.height + PANEL.gapY) + 24 * legendRows;
  const sizes = [
    ...new Set(panels.flatMap(({ curves }) => curves.flatMap(({ points }) => drawn(points).map(([x]) => x)))),
  ];
  const scale = sameScale ? decades(panels.flatMap(({ curves }) => curves)) : {};

  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width, height });
  chart.setOption({
    animation: false,
    backgroundColor: '#fff',
    title: [
      ...(title === undefined
        ? []
        : [{ text: title, left: width / 2, top: 8, textAlign: 'center' as const, textStyle: { fontSize: 18 } }]),
      ...panels.map(({ title: text }, i) => ({
        text,
        left: place[i].left + PANEL.width / 2,
        top: place[i].top - 30,
        textAlign: 'center' as const,
        textStyle: { fontSize: 15 },
      })),
    ],
    textStyle: { fontFamily: 'Helvetica, Arial, sans-serif' },
    legend: [
      { bottom: 6, itemGap: 36, data: shared },
      ...panels.flatMap((panel, i) =>
        panel.ownLegend
          ? [
              {
                left: place[i].left + 8,
                top: place[i].top + 6,
                orient: 'vertical' as const,
                itemGap: 4,
                data: namesOf([panel]),
              },
            ]
          : [],
      ),
    ],
    grid: place.map((at) => ({ ...at, width: PANEL.width, height: PANEL.height })),
    xAxis: panels.map((_, gridIndex) => ({
      gridIndex,
      type: 'log',
      logBase: 2,
      name: 'message size',
      nameLocation: 'middle',
      nameGap: 30,
      // Where there are points: a logarithmic axis by itself may name nothing but its ends.
      axisTick: { customValues: sizes },
      axisLabel: { formatter: formatBytes, fontSize: 10, hideOverlap: true, customValues: sizes },
      min: 'dataMin',
      max: 'dataMax',
    })),
    yAxis: panels.map((_, gridIndex) => ({
      gridIndex,
      type: 'log',
      name: y,
      nameLocation: 'middle',
      nameGap: 50,
      axisLabel: { formatter: (us: number) => String(us) },
      ...scale,
    })),
    series: panels.flatMap(({ curves }, panel) =>
      curves.map(({ name, colour, dash, points }) => ({
        name,
        type: 'line' as const,
        xAxisIndex: panel,
        yAxisIndex: panel,
        symbolSize: 6,
        itemStyle: { color: colour },
        lineStyle: { color: colour, type: DASHES[dash % DASHES.length] },
        data: drawn(points),
      })),
    ),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

/** The logarithm of what the clock cannot tell from nothing is drawn at its resolution. */
function drawn(points: Curve['points']): [number, number][] {
  return points.filter(([bytes]) => bytes > 0).map(([bytes, us]) => [bytes, Math.max(0.01, us)]);
}

/** From which power of ten to which all points lie. */
function decades(curves: readonly Curve[]): { min: number; max: number } {
  const values = curves.flatMap(({ points }) => drawn(points).map(([, us]) => us));
  return {
    min: 10 ** Math.floor(Math.log10(Math.min(...values))),
    max: 10 ** Math.ceil(Math.log10(Math.max(...values))),
  };
}
