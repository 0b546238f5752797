/** Bars in groups, as one SVG document. */

/** @param bars `{ name, colour, values: { value, label? }[] }`, a value for each group */
export function drawBars(echarts, { title, y, groups, bars }) {
  const [width, height] = [1200, 480];
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width, height });
  chart.setOption({
    animation: false,
    backgroundColor: '#fff',
    title: { text: title, left: 'center', top: 8 },
    textStyle: { fontFamily: 'Helvetica, Arial, sans-serif' },
    legend: { bottom: 6, itemGap: 36, data: bars.map(({ name }) => name) },
    grid: { left: 74, right: 30, top: 70, bottom: 90 },
    xAxis: { type: 'category', data: groups },
    yAxis: { type: 'value', name: y, nameLocation: 'middle', nameGap: 50 },
    series: bars.map(({ name, colour, values }) => ({
      name,
      type: 'bar',
      itemStyle: { color: colour },
      label: { show: true, fontSize: 11, position: 'top', formatter: ({ data }) => data.text ?? '' },
      data: values.map(({ value, label }) => ({ value, text: label })),
    })),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
