/** What examples/training learns, and how much of its communication it hides. The paper has no such figure. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { draw as drawTraining } from '../../out/examples/training/chart.js';
import { digits, linkName, percent, table } from './curves.mjs';
import { RATE, facts, runThere } from './slow-link.mjs';

const SCRIPT = 'out/examples/training/main.js';
/** One rank is what the others are compared with. On a network each rank has a card of its own, as in a cluster. */
const JOBS = [
  { ranks: 1, transport: 'shm' },
  { ranks: 2, transport: 'shm' },
  { ranks: 2, transport: 'tcp' },
  { ranks: 4, transport: 'tcp' },
];

export const training = {
  name: 'training',
  title: 'Data-parallel training',
  paper: 'none',
  measure,
  draw,
  table: tables,
};

async function measure({ quick, say }) {
  const args = quick ? ['--hidden', '16', '--train', '256', '--epochs', '2'] : [];
  const scratch = mkdtempSync(join(tmpdir(), 'nbc-figures-'));
  const rows = [];
  try {
    // The quick one shows that it works: one process, and one on the link.
    for (const { ranks, transport } of quick ? [JOBS[0], JOBS[2]] : JOBS) {
      say(`${SCRIPT}: ${ranks} ranks, ${transport}`);
      const cards = transport === 'tcp' ? ranks : 0;
      const own = ['-n', `${ranks}`, SCRIPT, ...args, '--output', join(scratch, 'training.svg')];
      const output = await runThere('dist/cli/nbcrun.js', own, { cards, env: { NBC_TRANSPORT: transport } });
      rows.push({ ranks, transport, cards, ...read(output) });
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return { ...facts(), repetitions: rows[0].epochs.length, rows };
}

/** Epochs, and of both variants the milliseconds of a step. */
function read(output) {
  const epochs = [...output.matchAll(/^epoch \d+: loss ([\d.]+), accuracy ([\d.]+) %$/gm)].map(
    ([, loss, accuracy]) => ({ loss: Number(loss), accuracy: Number(accuracy) / 100 }),
  );
  const times = Object.fromEntries(
    [...output.matchAll(/^(blocking|non-blocking) +([\d.]+) +[\d.]+ +([\d.]+)$/gm)].map(
      ([, name, total, communication]) => [name, { total: Number(total), communication: Number(communication) }],
    ),
  );
  const { blocking, 'non-blocking': nonblocking } = times;
  if (epochs.length === 0 || !blocking || !nonblocking) throw new Error(`the example printed other lines:\n${output}`);
  return { epochs, blocking, nonblocking };
}

const groupOf = ({ ranks, transport, cards }) =>
  `${ranks} ranks, ${transport === 'shm' ? 'shared memory' : linkName({ rate: RATE, cards })}`;
const together = ({ rows }) => rows.filter(({ ranks }) => ranks > 1);

function draw(echarts, data) {
  const { rows, title } = data;
  const most = rows.at(-1);
  return drawTraining(echarts, {
    title: `${title}: handwritten digits, batches of 128`,
    curves: [
      { name: 'one process', epochs: rows[0].epochs },
      { name: `${most.ranks} ranks`, epochs: most.epochs },
    ],
    bars: together(data).flatMap(({ ranks, transport, blocking, nonblocking }) => {
      // As short as there is room for: the table says more.
      const group = `${ranks} ranks\n${transport === 'shm' ? 'memory' : '1 Gbit/s'}`;
      return [
        { name: `${group}\nblocking`, ...blocking },
        { name: `${group}\nnon-blocking`, ...nonblocking },
      ];
    }),
  });
}

function tables(data) {
  const head = ['ms of a step', 'blocking: whole', 'communication', 'non-blocking: whole', 'communication', 'hidden'];
  return table(
    [...head, 'whole step, non-blocking / blocking'],
    together(data).map((row) => {
      const { blocking, nonblocking } = row;
      return [
        groupOf(row),
        ...[blocking.total, blocking.communication, nonblocking.total, nonblocking.communication].map(digits),
        percent(1 - nonblocking.communication / blocking.communication),
        digits(nonblocking.total / blocking.total),
      ];
    }),
  );
}
