#!/usr/bin/env node
/** nbctop: shows live what the ranks of a running job do, and what they wait for. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { monitorFolder, processOf } from '../monitor.js';
import { askAll, type Sample, type Silent } from './nbctop/sample.js';
import { type Row, rowOf, tableOf } from './nbctop/table.js';
import { version } from './version.js';

const HELP = `
Shows the ranks of this user on this machine: those that nbcrun has started, and others with NBC_MONITOR=on, also threads
of runRanks(). With one job it shows that, with several it says which there are. It ends with the job, with --count, or
with Ctrl-C.

Columns: where the program is, how much of its time it was in wait(), then, each second: operations that it started, bytes
of messages that it sent and received, and times that it was woken; at last the oldest operation that is pending, and the
ranks that it waits for.

Examples:
  $ nbctop                          the job that runs
  $ nbctop 4711                     that of this process, of nbcrun or of a rank
  $ nbctop --json --count 2         two lines of JSON, for programs`;

interface Options {
  json?: boolean;
  interval: number;
  count: number;
  dir?: string;
}

type Answers = Awaited<ReturnType<typeof askAll>>;

/** A problem that the user can solve. */
class TopError extends Error {}

function parseInterval(text: string): number {
  const seconds = Number(text);
  // A rank stops to count what nobody has asked for in 30 s.
  if (text.trim() === '' || !(seconds >= 0.1 && seconds <= 10)) {
    throw new InvalidArgumentError('Give a number of seconds from 0.1 to 10.');
  }
  return seconds;
}

function parseNumber(text: string): number {
  if (!/^\d+$/.test(text) || Number(text) < 1) throw new InvalidArgumentError('Give a whole number from 1.');
  return Number(text);
}

/** The job to be shown. @throws {TopError} if that is not clear */
function choose(answers: Answers, wanted: number | undefined, folder: string): number {
  const ranks = [...answers.values()].filter((answer) => answer !== undefined);
  if (wanted !== undefined) {
    const found = ranks.find(({ job, process }) => job === wanted || process === wanted);
    if (found === undefined) throw new TopError(`no job with process ${wanted} has its sockets in ${folder}`);
    return found.job;
  }
  const jobs = [...new Set(ranks.map(({ job }) => job))];
  if (jobs.length === 1) return jobs[0];
  if (jobs.length === 0) {
    const silent = [...new Set([...answers.keys()].map(processOf))];
    const some = silent.length === 0 ? '' : `; these processes do not answer: ${silent.join(', ')}`;
    throw new TopError(`no job runs that can be shown, by its sockets in ${folder} (NBC_MONITOR=on)${some}`);
  }
  const lines = jobs.map((job) => {
    const { size, process } = ranks.find((rank) => rank.job === job)!;
    return `  nbctop ${job}   ${size} ${size === 1 ? 'rank' : 'ranks'} of ${commandOf(process)}`;
  });
  throw new TopError(`several jobs run; say which:\n${lines.join('\n')}`);
}

function commandOf(process: number): string {
  try {
    const text = readFileSync(`/proc/${process}/cmdline`, 'utf8');
    return text
      .replaceAll('\0', ' ')
      .replaceAll(/\p{Cc}/gu, '?')
      .trim()
      .slice(0, 80);
  } catch {
    return `process ${process}`;
  }
}

function show(rows: readonly Row[], job: number, json: boolean): void {
  const { size } = rows[0];
  if (json) {
    process.stdout.write(`${JSON.stringify({ time: new Date().toISOString(), job, size, ranks: rows })}\n`);
    return;
  }
  const missing = size - rows.length;
  const others = missing === 0 ? '' : `, ${missing} of them not here: on another machine, not yet in the job, or ended`;
  const lines = [`job ${job}: ${size} ${size === 1 ? 'rank' : 'ranks'}${others}`, ...tableOf(rows)];
  if (!process.stdout.isTTY) {
    process.stdout.write(`${lines.join('\n')}\n\n`);
    return;
  }
  const { columns, rows: height } = process.stdout;
  const fitting = lines.slice(0, Math.max(2, height - 1)).map((line) => line.slice(0, columns));
  // From the upper left corner, each line to its end, and all below.
  process.stdout.write(`\x1b[H${fitting.map((line) => `${line}\x1b[K\n`).join('')}\x1b[J`);
}

async function run(wanted: number | undefined, { dir, interval, count, json = false }: Options): Promise<void> {
  const folder = dir === undefined ? monitorFolder('on')! : resolve(dir);
  let answers = await askAll(folder, () => true);
  const job = choose(answers, wanted, folder);
  // Sockets of ranks that have said that they are of this job, and those that are of others.
  const known = new Map<string, Sample | Silent>();
  const others = new Set<string>();
  const note = (): Row[] => {
    const rows: Row[] = [];
    for (const [name, answer] of answers) {
      const before = known.get(name);
      if (answer === undefined) {
        if (before === undefined) continue;
        const { process, rank, size } = before;
        rows.push({ job, process, rank, size, caller: 'stopped' });
      } else if (answer.job === job) {
        rows.push(rowOf(answer, before));
        known.set(name, answer);
      } else {
        others.add(name);
      }
    }
    return rows.sort((a, b) => a.rank - b.rank);
  };
  note();
  if (process.stdout.isTTY && !json) process.stdout.write('\x1b[2J');
  for (let shown = 0; shown < count; shown++) {
    await sleep(interval * 1000);
    answers = await askAll(folder, (name) => !others.has(name));
    const rows = note();
    if (rows.length === 0) return; // the job has ended
    show(rows, job, json);
  }
}

// The reader of the output may close it early, as head does.
process.stdout.on('error', () => process.exit(0));

const cli: Command = new Command('nbctop')
  .description('Shows live what the ranks of a running job do, and what they wait for.')
  .version(version)
  .argument('[process]', 'a process of the job: nbcrun, or a rank', parseNumber)
  .option('--json', 'one line of JSON for each sample')
  .option('--interval <seconds>', 'time between two samples', parseInterval, 1)
  .option('--count <samples>', 'end after so many', parseNumber, Infinity)
  .option('--dir <folder>', "where the ranks' sockets are: what NBC_MONITOR named")
  .addHelpText('after', HELP)
  .showHelpAfterError('(nbctop --help explains)')
  .exitOverride();

try {
  cli.parse();
  const [wanted] = cli.processedArgs as [number | undefined];
  await run(wanted, cli.opts<Options>());
} catch (error) {
  if (!(error instanceof CommanderError)) process.stderr.write(`nbctop: ${(error as Error).message}\n`);
  process.exitCode = error instanceof CommanderError && error.exitCode === 0 ? 0 : 1;
}
