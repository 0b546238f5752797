#!/usr/bin/env node
/**
 * `npm run figures`: measures and draws the figures of the paper that this library can, into docs/figures. The page
 * there says what they show.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { build } from './build.mjs';
import { ROOT, timed } from './test/process.mjs';

const NAMES = ['ialltoall', 'igather', 'isend-irecv', 'compression', 'fft3d', 'training'];
const EX_UNAVAILABLE = 69;

const HELP = `Usage: npm run figures -- [options]

Measures on a loopback of 1 Gbit/s (scripts/slow-link: as root, with ip and tc) and draws, for each figure, NAME.svg with all its numbers in NAME.json, and its
tables in README.md beside them. All of them take about fifteen minutes, in which the machine should have nothing else to do. Open MPI is measured where it is installed.

Figures: ${NAMES.join(', ')}

Options:
  --only <name>  one figure; may be repeated
  --out <dir>    where they go (default: docs/figures)
  --redraw       measures nothing: draws what the JSON there says
  --quick        few sizes and repetitions, without Open MPI: shows that it works
  --no-build     measures what was built last
  -h, --help     displays this
`;

let values;
try {
  ({ values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: NAMES },
      out: { type: 'string', default: join(ROOT, 'docs/figures') },
      redraw: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      'no-build': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  }));
  const unknown = values.only.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`there is no figure ${unknown}`);
} catch (error) {
  process.stderr.write(`${error.message}\n\n${HELP}`);
  process.exit(2);
}

if (values.help) process.stdout.write(HELP);
else process.exitCode = await main();

/** Returns the exit status. */
async function main() {
  if (!values['no-build']) build();
  // They import what was built.
  const { whyNot } = await import('./figures/slow-link.mjs');
  const { overhead } = await import('./figures/overhead.mjs');
  const { calls } = await import('./figures/calls.mjs');
  const { compression, fft3d } = await import('./figures/kernels.mjs');
  const { training } = await import('./figures/training.mjs');
  const all = [
    overhead('ialltoall', 'Figures 1, 2, 6, 7 and 10'),
    overhead('igather', 'Figures 3, 8, 9 and 10'),
    calls,
    compression,
    fft3d,
    training,
  ];

  const reason = values.redraw ? undefined : whyNot();
  if (reason !== undefined) {
    say(`figures: nothing can be measured here: ${reason}`);
    return EX_UNAVAILABLE;
  }
  mkdirSync(values.out, { recursive: true });
  for (const figure of all.filter(({ name }) => values.only.includes(name))) {
    const [, time] = await timed(() => make(figure));
    say(`${figure.name}: ${time}`);
  }
  return 0;
}

async function make(figure) {
  const { loadCharts } = await import('../dist/bench/nbcbench/panels.js');
  const { withTable } = await import('./figures/page.mjs');
  const echarts = await loadCharts();
  const json = join(values.out, `${figure.name}.json`);
  if (!values.redraw) {
    const { title, paper } = figure;
    const found = { title, paper, ...(await figure.measure({ quick: values.quick, say })) };
    await write(json, JSON.stringify(found));
  }
  const data = JSON.parse(readFileSync(json, 'utf8'));
  const svg = renumbered(figure.draw(echarts, data));
  writeFileSync(join(values.out, `${figure.name}.svg`), `${svg}\n`);
  const page = join(values.out, 'README.md');
  const text = withTable(page, figure.name, figure.table(data));
  if (text !== undefined) await write(page, text);
}

/**
 * echarts counts the charts and the classes that it has drawn, and names things after them: the same figure should be
 * the same file.
 */
function renumbered(svg) {
  const text = svg.replaceAll(/\bzr\d+-/g, 'zr-');
  const classes = [...new Set(text.match(/\bzr-cls-\d+/g))];
  return text.replaceAll(/\bzr-cls-\d+/g, (name) => `zr-cls-${classes.indexOf(name)}`);
}

/** As `npm run format` would leave it. */
async function write(file, text) {
  writeFileSync(file, await format(text, { ...(await resolveConfig(join(ROOT, 'package.json'))), filepath: file }));
}

function say(text) {
  process.stderr.write(`${text}\n`);
}
