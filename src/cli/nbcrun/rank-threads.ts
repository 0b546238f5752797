/** Ranks that are threads of this process: each is a worker that runs the whole program. */
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import { labelLines } from './label.js';

export interface RankThreadsSettings {
  /** The program, as an absolute path, and its arguments. */
  program: string;
  args: readonly string[];
  /** The first rank of this process; the others follow. */
  first: number;
  count: number;
  /** Ranks of the job. */
  size: number;
  /** Those that ranks are bound to, in turn; none: the system decides. */
  processors: readonly number[];
  /** Prefix every line of output with the rank. */
  label: boolean;
  /** Variables that every rank finds, beside those of this process and its place in the job. */
  environment: Record<string, string>;
  /** A rank has ended, with this exit code. */
  ended: (rank: number, code: number) => void;
}

export const labelOf = (rank: number, size: number): string => `[${`${rank}`.padStart(`${size - 1}`.length)}] `;

/** Returns when all ranks have ended, and what they printed is written. */
export async function runRankThreads(settings: RankThreadsSettings): Promise<void> {
  const ranks = Array.from({ length: settings.count }, (_, index) => settings.first + index);
  await Promise.all(ranks.map((rank) => runRank(rank, settings)));
}

async function runRank(rank: number, settings: RankThreadsSettings): Promise<void> {
  const { program, args, count, size, processors, label, environment, ended } = settings;
  const reads = rank === 0;
  const worker = new Worker(program, {
    argv: [...args],
    env: {
      ...(process.env as Record<string, string>),
      ...environment,
      NBC_RANK: `${rank}`,
      NBC_SIZE: `${size}`,
      NBC_THREADS: `${count}`,
      NBC_PROCESSOR: processors.length > 0 ? `${processors[rank % processors.length]}` : '',
    },
    name: `rank ${rank}`,
    stdin: reads,
    stdout: label,
    stderr: label,
  });
  const prefix = label ? labelOf(rank, size) : '';
  if (reads) process.stdin.pipe(worker.stdin!).on('error', () => undefined);
  const outputs = label
    ? [labelLines(worker.stdout, process.stdout, prefix), labelLines(worker.stderr, process.stderr, prefix)]
    : [];
  const end = new Promise<number>((resolve) => worker.once('exit', resolve));
  // Node.js ends a process in which an exception is uncaught, and prints it; of a thread it leaves both to this one.
  worker.on('error', (error) => process.stderr.write(`Uncaught ${inspect(error)}\n`.replace(/^(?=.)/gm, prefix)));
  ended(rank, await end);
  if (reads) process.stdin.unpipe().pause();
  await Promise.all(outputs);
}
