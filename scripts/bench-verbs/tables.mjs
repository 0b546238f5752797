/** The figures as Markdown. */

/** Of what the parts found, by their titles; those that are missing are left out. */
export function tables({ transfers, overlap, ucx, hosts }) {
  const found = [];
  if (transfers?.length > 0) found.push(latencies(transfers), bandwidths(transfers));
  if (overlap?.length > 0) found.push(overlaps(overlap));
  if (ucx?.length > 0) found.push(besideUcx(ucx));
  if (hosts?.length > 0) found.push(betweenHosts(hosts));
  return found.length > 0 ? `\n${found.join('\n\n')}` : '\nNothing was measured.';
}

function latencies(figures) {
  const head = ['half a round trip, µs', 'ib_write_lat', 'engine', '/ib_write_lat', 'node-nbc', '/ib_write_lat'];
  const body = sizesOf(figures, 'latency').map((bytes) => {
    const of = (side) => middle(figures, 'latency', bytes, side);
    const [theirs, engine, ours] = [of('ib_write_lat'), of('engine'), of('node-nbc')];
    return [size(bytes), digits(theirs), digits(engine), ratio(engine / theirs), digits(ours), ratio(ours / theirs)];
  });
  return markdown(head, body);
}

function betweenHosts(figures) {
  const head = ['half a round trip, µs', 'ib_write_lat', 'verbs', '/ib_write_lat', 'TCP', 'verbs/TCP'];
  const body = sizesOf(figures, 'latency').map((bytes) => {
    const [theirs, verbs, tcp] = ['ib_write_lat', 'verbs', 'tcp'].map((side) =>
      middle(figures, 'latency', bytes, side),
    );
    return [size(bytes), digits(theirs), digits(verbs), ratio(verbs / theirs), digits(tcp), ratio(verbs / tcp)];
  });
  return markdown(head, body);
}

function bandwidths(figures) {
  const head = [
    'MB/s',
    'ib_send_bw',
    'ib_write_bw',
    'engine',
    '/ib_send_bw',
    'node-nbc',
    '/ib_send_bw',
    '/ib_write_bw',
  ];
  const body = sizesOf(figures, 'bandwidth').map((bytes) => {
    const of = (side) => middle(figures, 'bandwidth', bytes, side);
    const [sends, writes, engine, ours] = [of('ib_send_bw'), of('ib_write_bw'), of('engine'), of('node-nbc')];
    const all = [sends, writes, engine].map(digits);
    return [size(bytes), ...all, ratio(engine / sends), digits(ours), ratio(ours / sends), ratio(ours / writes)];
  });
  return markdown(head, body);
}

function overlaps(rows) {
  const delays = unique(rows.map((row) => row.delay_ms));
  const head = ['op', 'size', ...delays.flatMap((ms) => [`${ms} ms: start + wait, µs`, 'overhead, µs', 'overlap'])];
  const body = unique(rows.map(({ op }) => op)).flatMap((op) =>
    unique(rows.map(({ bytes }) => bytes)).map((bytes) => [
      op,
      size(bytes),
      ...delays.flatMap((ms) => {
        const row = rows.find((each) => each.op === op && each.bytes === bytes && each.delay_ms === ms);
        return row ? [digits(row.blocking_us), digits(row.overhead_us), percent(row.overlap_pct)] : ['–', '–', '–'];
      }),
    ]),
  );
  return markdown(head, body, 2);
}

function besideUcx(rows) {
  const sides = unique(rows.map(({ side }) => side));
  const body = unique(rows.map(({ op }) => op)).flatMap((op) =>
    unique(rows.map(({ bytes }) => bytes)).map((bytes) => [
      op,
      size(bytes),
      ...sides.map((side) =>
        digits(rows.find((each) => each.side === side && each.op === op && each.bytes === bytes)?.us),
      ),
    ]),
  );
  return markdown(['start + wait, µs', 'size', ...sides], body, 2);
}

const unique = (values) => [...new Set(values)];

const sizesOf = (figures, kind) => unique(figures.filter((one) => one.kind === kind).map(({ bytes }) => bytes));

/** The median over the rounds; not a number without any. */
function middle(figures, kind, bytes, side) {
  const values = figures
    .filter((one) => one.kind === kind && one.bytes === bytes && one.side === side)
    .map(({ value }) => value)
    .sort((a, b) => a - b);
  const half = values.length >> 1;
  return values.length % 2 === 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

const size = (bytes) =>
  bytes >= 1 << 20 ? `${bytes / (1 << 20)} MiB` : bytes >= 1024 ? `${bytes / 1024} KiB` : `${bytes} B`;
const digits = (value) => (Number.isFinite(value) ? value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0) : '–');
/** null: nothing was measured, in JSON. */
const percent = (value) => (Number.isFinite(value) ? `${Math.round(value)} %` : '–');
const ratio = (value) => (Number.isFinite(value) ? `${value.toFixed(2)}×` : '–');

/** The first `left` columns flush left, the others flush right. */
function markdown(head, body, left = 1) {
  const widths = head.map((title, i) => Math.max(title.length, ...body.map((cells) => cells[i].length)));
  const line = (cells) =>
    `| ${cells.map((cell, i) => (i < left ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`;
  const rule = widths.map((width, i) => (i < left ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [line(head), line(rule), ...body.map(line)].join('\n');
}
