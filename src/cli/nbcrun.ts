#!/usr/bin/env node
/**
 * nbcrun: starts the ranks of a job on this machine, or serves the store of one that is started elsewhere. What the
 * command line says; the work is in nbcrun/.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { availableParallelism, hostname, networkInterfaces } from 'node:os';
import { join, resolve } from 'node:path';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { version } from './version.js';
import { NbcError } from '../errors.js';
import type { Native } from '../native.js';
import { removeSockets } from '../monitor.js';
import { missingPermissions } from '../permissions.js';
import { FILE_IN_FOLDER, isTraceOfRank } from '../trace/names.js';
import { candidatesOf, isWildcard } from '../transport/address.js';
import { parseStore, readBootstrap } from '../transport/bootstrap.js';
import { exposedBytes } from '../transport/options.js';
import { type LocalStore, openLocalStore } from '../transport/store/local.js';
import { checkJob, checkSecret } from '../transport/store/proof.js';
import { StoreServer } from '../transport/store/server.js';
import { commandOf, threadsCommandOf } from './nbcrun/command.js';
import { ExitCode, Job } from './nbcrun/job.js';
import { runRankThreads } from './nbcrun/rank-threads.js';

/** Ranks of one machine start together; this is for programs that do something else before init(). */
const JOIN_TIMEOUT_MS = 600_000;

/** More processes than this on one machine is a typing error. */
const MAX_RANKS = 1024;

const HELP = `
The program's own options follow its name; nbcrun does not look at them. Rank 0 reads standard input, the others
have none. Each rank finds NBC_RANK, NBC_SIZE, NBC_JOB_FD, NBC_REPORT_FD, NBC_STORE and NBC_SECRET in its environment,
which is what init() needs.

SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGWINCH are passed on to all ranks; a second SIGINT (Ctrl-C) kills them.
SIGUSR2 and SIGQUIT (Ctrl-\\) make nbcrun say what every rank waits for, and so does the first SIGINT of a job that is
stuck. NBC_WATCHDOG=30s in the environment has it say so by itself when an operation makes no step for that long.
nbctop shows live what they do, unless NBC_MONITOR=off. When a rank fails, the others are ended: SIGTERM, and SIGKILL
after --grace. With --on-failure=continue they are not: programs that can do without a rank go on (communicator.shrink).
What a rank leaves in its process group ends with it. If nbcrun itself is killed, so are the ranks.

With --threads the ranks are threads: worker_threads that each run the whole program, all in one process, or, with
--threads=4, four in each. Each has NBC_RANK in its own process.env. A thread gets no signals, and Node.js ends it
where process.exit() is called or an exception is uncaught; the other ranks of its process live on, unless that ends
the job. What a rank prints goes through the main thread of its process.

With --join it starts no job, but is one process of a job that mpirun, srun or the like starts: with --threads=4 rank 2
of the launcher, of 8, is ranks 8 to 11 of 32. These find each other by NBC_STORE and NBC_SECRET.

With --store it starts no ranks, but serves the store by which -n ranks that something else starts find each other, until all
have joined. It prints the variables that they need beside NBC_RANK; NBC_SECRET only if it is not set already.
With --threads=4 the -n ranks are those of processes with --join, which NBC_SIZE counts.

Exit codes:
  0         every rank exited with 0
  1 to 255  the exit code of the rank that failed first; 128 + n if signal n ended it; with --store 1 if not all joined.
            With --on-failure=continue a rank that a signal ended does not count if another one exited with 0
  124       --timeout has passed
  125       nbcrun could not do its part: wrong arguments, no such program, no addon, a rank that could not start

Examples:
  $ nbcrun -n 4 program.js --size 512      4 ranks; --size 512 is the program's
  $ nbcrun -n 8 --label program.js         "[3] " in front of every line that rank 3 prints
  $ nbcrun -n 2 --bind core bench.js       one processor for each rank
  $ nbcrun -n 8 --threads program.js       one process, whose 8 threads are the ranks
  $ nbcrun -n 16 --threads=4 program.js    4 processes of 4 ranks each
  $ nbcrun -n 4 --node-arg=--max-old-space-size=512 --node-arg=--enable-source-maps program.js`;

interface Options {
  /** Default: {@link processorCount}. */
  ranks?: number;
  threads?: number;
  label?: boolean;
  bind: 'core' | 'none';
  timeout?: number;
  grace: number;
  onFailure: 'end' | 'continue';
  nodeArg?: string[];
  store?: string;
  join?: boolean;
  trace?: string;
}

/** Of `--threads` without a number. */
const ALL_THREADS = 'all';

/** A problem that the user can solve; printed without a stack. */
class LaunchError extends Error {}

function parseRanks(text: string): number {
  const ranks = Number(text);
  if (!/^\d+$/.test(text) || ranks < 1) throw new InvalidArgumentError('Give the number of ranks, 1 or more.');
  if (ranks > MAX_RANKS) throw new InvalidArgumentError(`At most ${MAX_RANKS} ranks run on one machine.`);
  return ranks;
}

/** In one word with its value, since what follows `--threads` is the program. */
function parseThreads(text: string): number {
  if (text === ALL_THREADS) return Infinity;
  const threads = Number(text);
  if (!/^\d+$/.test(text) || threads < 1)
    throw new InvalidArgumentError('Give the number of threads in each process, 1 or more, or none for all ranks.');
  return threads;
}

/** commander would take the word after a bare `--threads` for its value. */
function withAllThreads(args: readonly string[]): string[] {
  const words = [...args];
  for (let i = 0; i < words.length && words[i].startsWith('-') && words[i] !== '--'; i++) {
    if (words[i] === '--threads') words[i] = `--threads=${ALL_THREADS}`;
    else if (cli.options.some((option) => option.required && [option.short, option.long].includes(words[i]))) i++;
  }
  return words;
}

/** Ranks of each process, or undefined: the processes are the ranks. @throws {LaunchError} */
function threadsOf(ranks: number, given: number | undefined): number | undefined {
  if (given === undefined) return undefined;
  const threads = given === Infinity ? ranks : given;
  if (ranks % threads !== 0)
    throw new LaunchError(`--threads=${threads}: ${ranks} ranks (-n) cannot be processes of ${threads} threads each`);
  return threads;
}

/** @throws {LaunchError} */
async function loadNative(): Promise<Native> {
  try {
    return (await import('../native.js')).native;
  } catch (error) {
    throw new LaunchError((error as Error).message);
  }
}

/** Those that ranks are bound to, in turn. */
const processorsOf = async ({ bind }: Options): Promise<number[]> =>
  bind === 'core' ? (await loadNative()).allowedProcessors() : [];

/** How many this process may use. */
const processorCount = (native: Native): number => Math.min(availableParallelism(), native.processorQuota());

function parseSeconds(text: string): number {
  const seconds = Number(text);
  if (text.trim() === '' || !(seconds >= 0 && seconds <= 2e6)) {
    throw new InvalidArgumentError('Give a number of seconds, for example 2.5.');
  }
  return seconds;
}

/** Node.js itself would end nbcrun in the middle. */
function checkPermissions(...scopes: Parameters<typeof missingPermissions>): void {
  const missing = missingPermissions(...scopes);
  if (missing === undefined) return;
  throw new LaunchError(`the permission model of Node.js forbids what nbcrun does: allow it with ${missing}`);
}

/** The program as an absolute path, so that a rank that changes directory early still means the same file. */
function findProgram(program: string): string {
  const path = resolve(program);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new LaunchError(`there is no program ${program} (looked for ${path})`);
  if (found.isDirectory()) throw new LaunchError(`${program} is a folder; name the file in it that is to run`);
  return path;
}

/** The shared file of the job; undefined: the system forbids it, and the ranks do without. */
function createJob(native: Native, size: number): number | undefined {
  const bytes = exposedBytes();
  try {
    return native.createJob(size, bytes);
  } catch (error) {
    if (['tcp', 'verbs', 'ucx'].includes(process.env.NBC_TRANSPORT ?? '')) return undefined;
    if (error instanceof NbcError) throw error;
    throw new LaunchError(`no shared memory for a job of ${size} ranks: ${(error as Error).message}`);
  }
}

/** Where ranks find each other if they are to use TCP. */
async function openStore(size: number): Promise<LocalStore> {
  try {
    return await openLocalStore(size, JOIN_TIMEOUT_MS);
  } catch (error) {
    throw new LaunchError(`no store for the job: ${(error as Error).message}`);
  }
}

/** What ranks on other machines find in NBC_STORE: where the store listens everywhere, an address of this machine. */
function reachedAt(host: string, port: number): string {
  const found = isWildcard(host) ? candidatesOf(networkInterfaces()) : [host];
  const [address = hostname()] = host === '0.0.0.0' ? found.filter((one) => !one.includes(':')) : found;
  if (found.length > 1) say(`the store listens at all addresses of this machine (${found.join(', ')})`);
  return hostAndPort(address, port);
}

const hostAndPort = (host: string, port: number): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;

/** Returns when all ranks have joined, or cannot any more. */
async function serve(place: string, size: number, options: Options): Promise<number> {
  const { timeout: seconds } = options;
  const threads = threadsOf(size, options.threads) ?? 1;
  checkPermissions('net');
  const { host, port } = parseStore('--store', place);
  const given = process.env.NBC_SECRET ?? '';
  const secret = given === '' ? randomBytes(32).toString('hex') : checkSecret(given);
  const job = checkJob(process.env.NBC_JOB ?? '');
  let store: StoreServer;
  try {
    store = await StoreServer.open({ host, port, secret, size, job, timeout: JOIN_TIMEOUT_MS });
  } catch (error) {
    throw new LaunchError(`the store cannot be opened at ${place}: ${(error as Error).message}`);
  }
  const variables = [
    `NBC_STORE=${reachedAt(host, port)}`,
    `NBC_SIZE=${size / threads}`,
    ...(given === '' ? [`NBC_SECRET=${secret}`] : []),
  ];
  process.stdout.write(`${variables.join('\n')}\n`);
  let limit: NodeJS.Timeout | undefined;
  const timeUp = new Promise<boolean>((resolve) => {
    if (seconds !== undefined) limit = setTimeout(resolve, seconds * 1000, true);
  });
  const late = await Promise.race([store.finished().then(() => false), timeUp]);
  clearTimeout(limit);
  store.close();
  if (late) say(`not all of ${size} ranks have joined within ${seconds} s (--timeout)`);
  else if (store.failure !== undefined) say(`the job could not start: ${store.failure}`);
  return late ? ExitCode.TIMEOUT : store.failure === undefined ? 0 : 1;
}

/** What makes ranks write their traces into a folder, which is made if there is none. */
function tracing(folder: string): Record<string, string> {
  const path = resolve(folder);
  try {
    mkdirSync(path, { recursive: true });
    const old = readdirSync(path).find(isTraceOfRank);
    if (old !== undefined) throw new LaunchError(`--trace ${folder} has traces of another run (${old})`);
  } catch (error) {
    if (error instanceof LaunchError) throw error;
    throw new LaunchError(`--trace: ${(error as Error).message}`);
  }
  return { NBC_TRACE: join(path, FILE_IN_FOLDER) };
}

function sayTraces(folder: string): void {
  const some = readdirSync(folder).some(isTraceOfRank);
  say(some ? `traces are in ${folder}; join them with: nbctrace ${folder}` : `no rank wrote a trace into ${folder}`);
}

async function launch(program: string, args: string[], options: Options): Promise<number> {
  checkPermissions('child', 'net', ...(options.threads === undefined ? [] : (['worker'] as const)));
  const path = findProgram(program);
  const native = await loadNative();
  const ranks = options.ranks ?? processorCount(native);
  const threads = threadsOf(ranks, options.threads);
  const traced = options.trace === undefined ? {} : tracing(options.trace);
  const nodeArgs = options.nodeArg ?? [];
  const monitor = process.env.NBC_MONITOR ?? 'on';
  const jobFd = createJob(native, ranks);
  const store = await openStore(ranks);
  const job = new Job({
    size: ranks,
    threads,
    jobFd,
    environment: { ...store.environment, ...traced, NBC_MONITOR: monitor },
    commandOf: (place) =>
      threads === undefined ? commandOf(path, args, nodeArgs) : threadsCommandOf(place, path, args, nodeArgs),
    processors: await processorsOf(options),
    label: options.label ?? false,
    graceMs: options.grace * 1000,
    onFailure: options.onFailure,
    timeoutMs: options.timeout === undefined ? undefined : options.timeout * 1000,
    // The other ranks may need it: by the file, or by the store while they join.
    rankEnded(rank) {
      if (jobFd !== undefined) native.rankEnded(jobFd, rank);
      store.rankEnded(rank);
    },
    processEnded(pid) {
      // One that was killed has left it.
      if (monitor !== '') removeSockets(monitor, pid);
    },
    say,
  });
  try {
    const code = await job.run();
    if (options.trace !== undefined) sayTraces(options.trace);
    return code;
  } finally {
    store.close();
    if (jobFd !== undefined) native.closeDescriptor(jobFd);
  }
}

/** This process's part of a job whose processes something else starts. Returns when its ranks have ended. */
async function joinJob(program: string, args: string[], options: Options): Promise<number> {
  const { threads, label, onFailure } = options;
  if (threads === undefined || threads === Infinity)
    throw new LaunchError('--join needs the number of ranks in this process: --threads=<count>');
  checkPermissions('worker', 'net');
  const { rank, size, store } = readBootstrap();
  if (store === undefined)
    throw new LaunchError('--join: ranks that something else starts find each other by NBC_STORE (docs/jobs.md)');
  const { host, port, secret, job } = store;
  let outcome = 0;
  delete process.env.NBC_JOB_FD;
  await runRankThreads({
    program: findProgram(program),
    args,
    first: rank * threads,
    count: threads,
    size: size * threads,
    processors: await processorsOf(options),
    label: label ?? false,
    environment: { NBC_STORE: hostAndPort(host, port), NBC_SECRET: secret, NBC_JOB: job },
    ended(_rank, code) {
      outcome ||= code;
      if (code !== 0 && onFailure === 'end') process.exit(code);
    },
  });
  return outcome;
}

function say(text: string): void {
  process.stderr.write(`nbcrun: ${text}\n`);
}

// The reader of the output may close it early, as head does: a job goes on without what nbcrun has to say. (Job has its
// own answer for the output of ranks.)
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

const cli: Command = new Command('nbcrun')
  .description('Starts a program as the ranks of a job on this machine.')
  .usage('[options] <program> [arguments...]\n       nbcrun --store <host:port> -n <count>')
  .version(version)
  .argument('[program]', 'JavaScript file that every rank runs')
  .argument('[arguments...]', "the program's arguments")
  .addOption(
    new Option('-n, --ranks <count>', 'number of ranks (default: as many as there are processors)').argParser(
      parseRanks,
    ),
  )
  .addOption(
    new Option(
      '--threads [count]',
      'ranks are threads, so many in each process; without a number all in one',
    ).argParser(parseThreads),
  )
  .option('-l, --label', 'put the rank in front of every line of output')
  .addOption(
    new Option('--bind <policy>', 'core: rank i stays on the i-th processor, in turn; none: the system decides')
      .choices(['core', 'none'])
      .default('none'),
  )
  .option('--timeout <seconds>', 'end the job when it takes longer', parseSeconds)
  .option('--grace <seconds>', 'time between SIGTERM and SIGKILL when the job is ended', parseSeconds, 5)
  .addOption(
    new Option('--on-failure <action>', 'end: a rank that fails ends the job; continue: the others go on')
      .choices(['end', 'continue'])
      .default('end'),
  )
  .option('--node-arg <option>', 'option of node itself; may be repeated', (arg, all?: string[]) => [
    ...(all ?? []),
    arg,
  ])
  .option('--trace <folder>', 'every rank writes a trace of what it does into this folder')
  .option('--store <host:port>', 'start no ranks, but serve the store of a job that something else starts')
  .option('--join', 'start no job: the ranks of this process, by --threads, in a job that something else starts')
  .addHelpText('after', HELP)
  .showHelpAfterError('(nbcrun --help explains)')
  .enablePositionalOptions()
  .passThroughOptions()
  .exitOverride();

try {
  await cli.parseAsync(withAllThreads(process.argv.slice(2)), { from: 'user' });
  const options = cli.opts<Options>();
  const [program, ...rest] = cli.args as [string | undefined, ...string[]];
  if (options.store !== undefined) {
    if (program !== undefined) cli.error('error: --store starts no program');
    if (options.trace !== undefined) cli.error('error: --store starts no ranks that could be traced');
    if (options.ranks === undefined) cli.error('error: --store needs the number of ranks, -n');
    process.exitCode = await serve(options.store, options.ranks, options);
  } else {
    if (program === undefined) cli.error("error: missing required argument 'program'");
    if (options.join) process.exit(await joinJob(program, rest, options));
    process.exitCode = await launch(program, rest, options);
  }
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : ExitCode.LAUNCHER;
  } else if (error instanceof LaunchError || error instanceof NbcError) {
    say(error.message);
    process.exitCode = ExitCode.LAUNCHER;
  } else {
    throw error;
  }
}
