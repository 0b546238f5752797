/**
 * Request/response patterns, after _RDMA Communication Patterns: A Systematic Evaluation_ (see README.md): the command
 * line.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { parsePositive } from '#library/bench/nbcbench/options.js';
import { loadCharts } from '#library/bench/nbcbench/panels.js';
import { ProgressLine } from '#library/bench/nbcbench/progress.js';
import { draw } from './chart.js';
import { build, describe, Program } from './native.js';
import { best, faults, type Row } from './row.js';
import { plan, SWEEPS, TRANSPORTS, type Planned, type Sweep, type Transport } from './sweeps.js';
import { table } from './table.js';

interface Options {
  transport: Transport[];
  sweep: Sweep[];
  processors: 'auto' | 'one' | 'each' | 'any';
  repeat?: number;
  measure?: number;
  warmup?: number;
  device?: string;
  clientDevice?: string;
  quick?: true;
  json?: string;
  svg?: string;
}

/** A row with the name of its sweep, as it stands in the file. */
export type Named = { sweep: Sweep } & Row;

function listOf<T extends string>(all: readonly T[]) {
  return (text: string): T[] =>
    text.split(',').map((name) => {
      const found = all.find((one) => one === name);
      if (found === undefined) throw new InvalidArgumentError(`expected some of ${all.join(', ')}`);
      return found;
    });
}

const program = new Command('patterns')
  .description(
    'Request/response patterns: requests and responses by RDMA write into mailboxes or by SEND, one client or several, answered by one\n' +
      'thread or by a dispatcher and workers; mostly empty mailboxes; inline data; selective signalling. Builds what it needs.',
  )
  .addOption(
    new Option('-t, --transport <list>', 'on what')
      .argParser(listOf(TRANSPORTS))
      .default(['shm'], 'shm; verbs needs an RDMA device'),
  )
  .addOption(
    new Option('-s, --sweep <list>', `some of ${SWEEPS.join(', ')}`)
      .argParser(listOf(SWEEPS))
      .default([...SWEEPS], 'all'),
  )
  .addOption(
    new Option(
      '--processors <how>',
      'one: all threads take turns on one; each: a processor for each thread; any: as the kernel likes; auto: each if there are ten, ' +
        'enough for the largest case, else one',
    )
      .choices(['auto', 'one', 'each', 'any'])
      .default('auto'),
  )
  .option('-r, --repeat <n>', 'how often everything is measured; a row is the fastest run (3)', parsePositive)
  .option('--measure <ms>', 'how long a row is measured (200)', parsePositive)
  .option('--warmup <ms>', 'before that (50)', parsePositive)
  .option('--device <name>', 'RDMA device of the responder (the first active one)')
  .option('--client-device <name>', "RDMA device of the clients (the responder's)")
  .option('-q, --quick', 'few points, 10 ms each, once: shows that it works')
  .option('--json <file>', 'write the rows; "-" is standard output')
  .option('--svg <folder>', 'draw a plot for each sweep and transport')
  .action(main);

async function main(options: Options): Promise<void> {
  const charts = options.svg === undefined ? undefined : await loadCharts();
  const quick = options.quick === true;
  build();
  const planned = options.transport.flatMap((transport) => {
    const mostInline = transport === 'verbs' ? describe(options.device).most_inline : 0;
    return options.sweep.flatMap((sweep) => plan(transport, sweep, quick, mostInline));
  });
  if (planned.length === 0) throw new Error('nothing to measure: shared memory has no inline and no signal sweep');

  const settings = {
    processors: processorsFor(options.processors),
    measure_ms: options.measure ?? (quick ? 10 : 200),
    warmup_ms: options.warmup ?? (quick ? 5 : 50),
    ...(options.device === undefined ? {} : { device: options.device }),
    ...(options.clientDevice === undefined ? {} : { client_device: options.clientDevice }),
  };
  const { rows, failures } = await measure(planned, settings, options.repeat ?? (quick ? 1 : 3));

  (options.json === '-' ? process.stderr : process.stdout).write(table(rows));
  if (options.json !== undefined) {
    const text = `${JSON.stringify(rows, null, 2)}\n`;
    if (options.json === '-') process.stdout.write(text);
    else writeFileSync(options.json, text);
  }
  if (charts && options.svg !== undefined) {
    mkdirSync(options.svg, { recursive: true });
    for (const transport of options.transport) {
      for (const sweep of options.sweep) {
        const own = rows.filter((row) => row.transport === transport && row.sweep === sweep);
        if (own.length > 0) writeFileSync(join(options.svg, `${transport}-${sweep}.svg`), draw(charts, sweep, own));
      }
    }
  }
  for (const failure of failures) process.stderr.write(`patterns: ${failure}\n`);
  process.exitCode = failures.length > 0 ? 1 : 0;
}

/**
 * The responder, two workers and seven clients: the threads of the largest case, whatever this run has, so that runs
 * can be compared.
 */
const MOST_THREADS = 10;

function processorsFor(wanted: Options['processors']): string {
  if (wanted !== 'auto') return wanted;
  return MOST_THREADS <= availableParallelism() ? 'each' : 'one';
}

/** All cases, `repeat` times in turn, so that a bad minute does not fall on one of them alone. */
async function measure(
  planned: readonly Planned[],
  settings: Readonly<Record<string, string | number>>,
  repeat: number,
): Promise<{ rows: Named[]; failures: string[] }> {
  const measured = planned.map((): Row[] => []);
  const failures: string[] = [];
  const progress = new ProgressLine();
  const native = new Program();
  try {
    for (let run = 0; run < repeat; run++) {
      for (const [i, { sweep, case: wanted }] of planned.entries()) {
        const words = Object.entries(wanted).map(([name, value]) => `${name}=${value}`);
        const what = `${sweep}: ${words.join(' ')}`;
        progress.update((run + i / planned.length) / repeat, what);
        try {
          const row = await native.measure({ ...wanted, ...settings });
          const wrong = faults(row, wanted);
          if (wrong.length > 0) failures.push(`${what}: ${wrong.join('; ')}: ${JSON.stringify(row)}`);
          measured[i].push(row);
        } catch (error) {
          failures.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
    }
  } finally {
    progress.clear();
    await native.close();
  }
  const rows = planned.flatMap(({ sweep }, i) => (measured[i].length > 0 ? [{ sweep, ...best(measured[i]) }] : []));
  return { rows, failures };
}

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`patterns: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
