#!/usr/bin/env node
/** nbctrace: makes one trace of those of all ranks, and says what they overlap. */
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { writeChrome } from '../trace/file.js';
import { mergeTraces, onOneClock, type RankTrace, readTrace } from '../trace/merge.js';
import { isTraceOfRank } from '../trace/names.js';
import { drawTraces, type Window } from '../trace/picture.js';
import { type Summary, summarize } from '../trace/summary.js';
import { version } from './version.js';

const HELP = `
NBC_TRACE=dir/rank-{rank}.json makes each rank of a job write its trace; nbcrun --trace dir does all of this. Open the
file that is made in https://ui.perfetto.dev or in chrome://tracing.

Columns: operations that have ended, messages, time in which at least one operation was pending, how much of that the
program spent outside of calls of the library, and time in which the progress thread worked.

Examples:
  $ nbctrace traces                        traces/trace.json, from traces/rank-*.json
  $ nbctrace a/rank-0.json b/rank-1.json -o job.json
  $ nbctrace traces --svg overlap.svg --window 10:60`;

interface Options {
  output?: string;
  svg?: string;
  window?: Window;
}

/** The files that ranks have written; of a folder, those that nbcrun --trace makes ranks write. */
function filesOf(names: readonly string[]): string[] {
  return names.flatMap((name) => {
    if (!statSync(name).isDirectory()) return [name];
    const found = readdirSync(name).filter(isTraceOfRank);
    if (found.length === 0) throw new Error(`${name} has no rank-0.json, rank-1.json, …`);
    return found.map((file) => join(name, file));
  });
}

function outputOf(names: readonly string[], { output }: Options): string {
  if (output !== undefined) return output;
  return names.length === 1 && statSync(names[0]).isDirectory() ? join(names[0], 'trace.json') : 'trace.json';
}

function milliseconds(us: number): string {
  return `${(us / 1000).toFixed(2)} ms`;
}

function row({ rank, operations, messages, pending, overlapped, progress }: Summary): string[] {
  const part = pending > 0 ? `${Math.round((overlapped / pending) * 100)} %` : '-';
  return [`${rank}`, `${operations}`, `${messages}`, milliseconds(pending), part, milliseconds(progress)];
}

function print(traces: readonly RankTrace[]): void {
  const summaries = traces.map(summarize);
  const rows = [['rank', 'operations', 'messages', 'pending', 'outside calls', 'progress'], ...summaries.map(row)];
  const widths = rows[0].map((_, column) => Math.max(...rows.map((cells) => cells[column].length)));
  for (const cells of rows) {
    process.stdout.write(`${cells.map((cell, column) => cell.padStart(widths[column])).join('  ')}\n`);
  }
  for (const { rank, leftOut } of summaries.filter((summary) => summary.leftOut > 0)) {
    process.stdout.write(`rank ${rank}: no room for ${leftOut} events more (option traceEvents, NBC_TRACE_EVENTS)\n`);
  }
}

function parseWindow(text: string): Window {
  const [from, to] = text.split(':').map(Number);
  if (!(from >= 0 && to > from)) throw new InvalidArgumentError('Give two times in milliseconds, for example 0:50.');
  return [from, to];
}

function run(names: readonly string[], options: Options): void {
  const traces = filesOf(names).map(readTrace);
  traces.sort((a, b) => a.metadata.rank - b.metadata.rank);
  const output = outputOf(names, options);
  const metadata = traces.map((trace) => trace.metadata);
  writeChrome(output, mergeTraces(traces), metadata);
  print(traces);
  if (options.svg !== undefined) {
    writeFileSync(options.svg, drawTraces(onOneClock(traces), options.window));
    process.stdout.write(`${options.svg}: the picture\n`);
  }
  const { size } = metadata[0];
  if (traces.length !== size) process.stdout.write(`${traces.length} traces of ${size} ranks\n`);
  process.stdout.write(`${output}: open it in https://ui.perfetto.dev\n`);
}

process.stdout.on('error', () => undefined);

const cli: Command = new Command('nbctrace')
  .description('Makes one trace of those of all ranks, on one clock, and says what they overlap.')
  .version(version)
  .argument('<files...>', 'traces of ranks, or a folder with rank-0.json, rank-1.json, …')
  .option('-o, --output <file>', 'the trace to be written (default: trace.json, in the folder)')
  .option('--svg <file>', 'also draw a picture: what each rank computes, calls and has pending')
  .option('--window <from:to>', 'what the picture shows, in milliseconds since the first event', parseWindow)
  .addHelpText('after', HELP)
  .showHelpAfterError('(nbctrace --help explains)')
  .exitOverride();

try {
  cli.parse();
  run(cli.args, cli.opts<Options>());
} catch (error) {
  if (!(error instanceof CommanderError)) process.stderr.write(`nbctrace: ${(error as Error).message}\n`);
  process.exitCode = error instanceof CommanderError && error.exitCode === 0 ? 0 : 1;
}
