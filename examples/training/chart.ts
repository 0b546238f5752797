import type * as Echarts from 'echarts';
import type { Epoch } from './learn.js';
import type { Times } from './replica.js';

export interface Drawing {
  title: string;
  /** What was learned, by how many ranks did it. */
  curves: { name: string; epochs: readonly Epoch[] }[];
  /** A bar for each way to take a step. */
  bars: ({ name: string } & Times)[];
}

const [BLUE, ORANGE, GREY] = ['#1f5fbf', '#e07b00', '#9a9a9a'];

/** Loss and accuracy over the epochs, and what a step consists of, as one SVG document. */
export function draw(echarts: typeof Echarts, { title, curves, bars }: Drawing): string {
  const [width, height, top, bottom] = [1200, 460, 96, 92];
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width, height });
  const line = (of: (epoch: Epoch) => number, yAxisIndex: number, what: string, color: string) =>
    curves.map(({ name, epochs }, index) => ({
      name: `${what}, ${name}`,
      type: 'line' as const,
      xAxisIndex: 0,
      yAxisIndex,
      itemStyle: { color },
      // The second is rings around the dots of the first, where they agree.
      ...(index === 0 ? { symbol: 'circle', symbolSize: 6, z: 4 } : { symbolSize: 14, lineStyle: { width: 0 } }),
      data: epochs.map((epoch, at) => [at + 1, of(epoch)]),
    }));
  const stack = (name: string, color: string, of: (times: Times) => number) => ({
    name,
    type: 'bar' as const,
    stack: 'step',
    xAxisIndex: 1,
    yAxisIndex: 2,
    barMaxWidth: 70,
    itemStyle: { color },
    label: { show: true, formatter: ({ value }: { value: unknown }) => (value as number).toFixed(1) },
    data: bars.map(of),
  });
  const series = [
    ...line(({ loss }) => loss, 0, 'loss', ORANGE),
    ...line(({ accuracy }) => 100 * accuracy, 1, 'accuracy', BLUE),
    stack('computation', GREY, ({ total, communication }) => total - communication),
    stack('communication that is not hidden', ORANGE, ({ communication }) => communication),
  ];
  const legend = (part: typeof series, left: number) => ({
    left,
    bottom: 8,
    itemGap: 24,
    data: part.map(({ name }) => name),
  });
  chart.setOption({
    animation: false,
    backgroundColor: '#fff',
    title: [
      { text: title, left: 'center', top: 8 },
      { text: 'what is learned', left: 270, top: 44, textAlign: 'center', textStyle: { fontSize: 15 } },
      { text: 'what a step consists of', left: 910, top: 44, textAlign: 'center', textStyle: { fontSize: 15 } },
    ],
    textStyle: { fontFamily: 'Helvetica, Arial, sans-serif' },
    legend: [legend(series.slice(0, -2), 14), legend(series.slice(-2), 740)],
    grid: [
      { left: 74, width: 396, top, bottom },
      { left: 650, right: 30, top, bottom },
    ],
    xAxis: [
      { type: 'value', name: 'epoch', nameLocation: 'middle', nameGap: 24, min: 1, minInterval: 1, max: 'dataMax' },
      { type: 'category', gridIndex: 1, data: bars.map(({ name }) => name), axisLabel: { interval: 0 } },
    ],
    yAxis: [
      { type: 'value', name: 'loss, training', min: 0 },
      { type: 'value', name: 'held-out digits recognised, %', max: 100, scale: true, splitLine: { show: false } },
      { type: 'value', name: 'ms', gridIndex: 1 },
    ],
    series,
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
