#!/usr/bin/env node
/** nbcbench: NBCBench for node-nbc, and for MPI beside it. The command line; the work is in the files beside it. */
import { writeFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { againstNodeTable, type AgainstNodeSettings, measureAgainstNode } from './against-node.js';
import { startBusy } from './busy.js';
import { drawOverhead } from './chart.js';
import { Delays } from './delay.js';
import { isPeer, type Implementation } from './implementations.js';
import { measureJoined } from './joined.js';
import { measure, type Result, type Settings } from './measure.js';
import { measureMemory } from './memory.js';
import { measureNbov, type Nbov } from './nbov.js';
import { OPS, PAPER_OPS, REDUCED_BYTES, reduces, type Op } from './operations.js';
import * as parse from './options.js';
import { nodeNbc, THREADS } from './ours.js';
import { loadCharts } from './panels.js';
import { findPeers, peerNames } from './peers.js';
import { type Binding, BINDINGS } from './placement.js';
import { measurePingPong, type PingPongSettings } from './pingpong.js';
import { line, listenerOf, runProgram } from './program.js';
import { blockingTable, formatRatio, formatTime, overheadTable, table, toRows } from './report.js';
import { native } from '#library/native.js';
import { version } from '#library/cli/version.js';
import { IDLE_SECONDS, measureWaiting, type Waiting } from './waiting.js';
import { WAYS, type Way } from './ways.js';
import { BUFFER_KINDS, FORMS, STARTS, type BufferKind, type Form, type Start } from './wire.js';

interface MeasureOptions {
  join?: boolean;
  threads?: boolean;
  ranks: number[];
  ops: Op[];
  sizes: number[];
  intervals: number[];
  transport: string[];
  progress: string[];
  ways?: Way[];
  buffers: BufferKind[];
  forms: Form[];
  sameBuffers: boolean;
  repetitions: number;
  maxSeconds: number;
  start: Start | 'auto';
  bind: Binding;
  busy?: number;
  warmUp: boolean;
  delays?: number[];
  links: string[];
  peers: Peers;
  ours: boolean;
  json?: string;
  svg?: string;
}

/** Of --peers: not given, given, given with names. */
type Peers = boolean | readonly string[];

const MB = 1e6;
const listener = listenerOf('nbcbench');

/** Standard output is for tables, unless it is for JSON. */
function print(text: string, json?: string): void {
  line.clear();
  (json === '-' ? process.stderr : process.stdout).write(`${text}\n`);
}

function writeJson(file: string | undefined, value: unknown): void {
  if (file === undefined) return;
  const text = `${JSON.stringify(value, null, 2)}\n`;
  if (file === '-') process.stdout.write(text);
  else writeFileSync(file, text);
}

/** Over TCP, if that is all that is measured of ours. */
function peersIf(wanted: Peers, transports: readonly string[] = []): Implementation[] {
  if (wanted === false) return [];
  const transport = transports.join() === 'tcp' ? 'tcp' : 'shm';
  return findPeers(wanted === true ? peerNames : wanted, transport, (text) => line.log(`nbcbench: ${text}`));
}

const transportsOf = ({ threads, transport }: { threads?: boolean; transport: string[] }): string[] =>
  threads ? [THREADS] : transport;

/** As `--transport threads`. */
function threadsOption(): Option {
  return new Option(
    '--threads',
    "node-nbc's ranks are threads of one process, not processes; as --transport threads",
  ).conflicts('transport');
}

/** The ranks of a job that they have joined have their processors already, and no clock that all of them share. */
const JOINED = {
  start: 'barrier',
  placement: { cpus: undefined, dedicated: true, text: 'ranks that have joined, each on its own clock' },
} as const;

/** As `--join`. */
function joinOption(...others: string[]): Option {
  return new Option(
    '--join',
    'measure the job in which this process is a rank: all its ranks run this command',
  ).conflicts(['transport', 'threads', 'progress', 'peers', 'bind', ...others]);
}

async function measureAll(implementations: Implementation[], options: MeasureOptions & Settings): Promise<void> {
  const charts = options.svg === undefined ? undefined : await loadCharts();
  sayWhat(implementations);
  const others = options.busy === undefined ? undefined : startBusy(options.busy);
  const results = await measure(implementations, options, listener).finally(() => others?.stop());
  report(results, options);
  const rows = toRows(results);
  writeJson(options.json, rows);
  if (charts && options.svg !== undefined) writeFileSync(options.svg, drawOverhead(charts, rows));
}

function sayWhat(implementations: readonly Implementation[]): void {
  line.log(`nbcbench ${version}: ${[...new Set(implementations.map(({ title }) => title))].join(', ')}`);
}

async function benchmark(options: MeasureOptions, command: Command): Promise<void> {
  const transports = transportsOf(options);
  if (!options.ours && options.peers === false)
    command.error('error: --no-ours leaves nothing to measure without --peers');
  if ((options.delays === undefined) !== (options.links.length === 0))
    command.error('error: --delays needs --links, the interfaces to delay, and the other way round');
  const uneven = options.sizes.find((bytes) => bytes % REDUCED_BYTES !== 0);
  if (uneven !== undefined && options.ops.some(reduces))
    command.error(`error: reductions are of float64: blocks of ${uneven} bytes have no whole number of them`);
  if (options.join)
    return measureJoined(options, (ours, size) => measureAll([ours], { ...options, ...JOINED, ranks: [size] }));
  const ours = options.ours
    ? transports.flatMap((transport) =>
        options.progress.flatMap((progress) =>
          // With a progress thread none of them is needed.
          (progress === 'manual' && options.ways ? options.ways : [undefined]).map((way) =>
            nodeNbc(transport, progress, options.buffers, { way, forms: options.forms }),
          ),
        ),
      )
    : [];
  const implementations = [...ours, ...peersIf(options.peers, transports)];
  if (implementations.length === 0) throw new Error('nothing to measure');
  const network = new Delays(options.links);
  await measureAll(implementations, { ...options, setDelay: (ms) => network.set(ms) });
}

function report(results: readonly Result[], { intervals, json, peers, ours, sameBuffers }: MeasureOptions): void {
  if (results.length === 0) return;
  const buffers = sameBuffers ? ', the same unchanged buffers' : '';
  const compared = peers !== false && ours ? '; /name: node-nbc divided by it, below 1 node-nbc is faster' : '';
  const ratios = `${buffers}${compared}`;
  print(`\nBlocking: start + wait, µs${ratios}\n`, json);
  print(blockingTable(results), json);
  for (const interval of intervals) {
    print(
      `\nOverhead: init + test + wait around a computation of that length, ${parse.formatInterval(interval)}, µs${ratios}\n`,
      json,
    );
    print(overheadTable(results, interval), json);
  }
}

async function crowd(options: {
  ranks: number;
  sizes: number[];
  transport: string[];
  repetitions: number;
  maxSeconds: number;
  warmUp: boolean;
  peers: Peers;
  json?: string;
}): Promise<void> {
  const ours = options.transport.map((transport) => nodeNbc(transport, 'thread', ['plain']));
  const implementations = [...ours, ...peersIf(options.peers, options.transport)];
  const settings = { ops: ['ialltoall'], intervals: [], start: 'auto', bind: 'none' } as const;
  const results = await measure(implementations, { ...options, ...settings, ranks: [options.ranks] }, listener);
  const processors = native.allowedProcessors().length;
  const network = options.transport.join() === 'tcp' ? 'TCP over loopback' : options.transport.join(', ');
  const label = `${options.ranks} ranks on ${processors} processors of one machine, ${network}: how the software scales, not what a network would give`;
  print(`${label}\n\nBlocking ialltoall: start + wait, µs\n`, options.json);
  print(blockingTable(results), options.json);
  const rows = results.map(({ implementation, op, ranks, bytes, blocking, repetitions }) => ({
    implementation: implementation.name,
    op,
    ranks,
    bytes,
    transport: implementation.transport,
    blocking_us: blocking,
    repetitions,
  }));
  writeJson(options.json, { label, rows });
}

interface WaitingOptions {
  ranks: number;
  seconds: number;
  idle: number;
  peers: Peers;
  json?: string;
}

async function waiting(options: WaitingOptions): Promise<void> {
  const found: Waiting[] = [];
  for (const implementation of [nodeNbc('auto', 'thread', ['plain']), ...peersIf(options.peers)]) {
    line.update(0, `${implementation.title}: ${options.ranks} ranks wait for ${options.seconds} s`);
    const ways = isPeer(implementation) ? (['wait'] as const) : (['wait', 'await'] as const);
    try {
      found.push(...(await measureWaiting(implementation, options.ranks, options.seconds, ways, options.idle)));
    } catch (error) {
      listener.failure(error as Error);
    }
  }
  print(
    `Processor time of ${options.ranks} ranks together in an igather whose root joins ${options.seconds} s later\n`,
    options.json,
  );
  const body = found.map((one) => [
    one.implementation,
    one.how,
    String(one.waited),
    one.cpu_ms.toFixed(1),
    one.cpu_pct.toFixed(3),
  ]);
  print(table(['implementation', 'how', 'ranks that waited', 'ms', '% of one core'], body, 2), options.json);
  writeJson(options.json, found);
}

async function nbov(options: {
  sizes: number[];
  repetitions: number;
  transport: string[];
  progress: string[];
  ways: Way[];
  json?: string;
}): Promise<void> {
  const found: Nbov[] = [];
  for (const transport of options.transport) {
    for (const progress of options.progress) {
      for (const way of options.ways) {
        line.update(0, `${transport}, progress '${progress}': ${way}`);
        found.push(...(await measureNbov(transport, progress, way, options.sizes, options.repetitions)));
      }
    }
  }
  print('Ping-pong of two ranks, medians, µs\n', options.json);
  const body = found.map((row) => [
    row.transport,
    row.progress,
    row.way,
    parse.formatBytes(row.bytes),
    ...[row.isend_us, row.irecv_us, row.test_us].map(formatTime),
    row.tests.toFixed(1),
    formatTime(row.round_trip_us),
  ]);
  const header = ['transport', 'progress', 'mode', 'size', 'isend', 'irecv', 'each test', 'tests', 'round trip'];
  print(table(header, body, 3), options.json);
  writeJson(options.json, found);
}

interface PingPongOptions extends PingPongSettings {
  join?: boolean;
  threads?: boolean;
  transport: string[];
  progress: string[];
  peers: Peers;
  json?: string;
}

async function pingPong(options: PingPongOptions): Promise<void> {
  if (options.join) return measureJoined({}, (ours) => playPingPong([ours], { ...options, ...JOINED }));
  const transports = transportsOf(options);
  const ours = transports.flatMap((transport) =>
    options.progress.map((progress) => nodeNbc(transport, progress, ['plain'])),
  );
  await playPingPong([...ours, ...peersIf(options.peers, transports)], options);
}

async function playPingPong(implementations: Implementation[], options: PingPongOptions): Promise<void> {
  sayWhat(implementations);
  const found = await measurePingPong(implementations, options, listener);
  const peers = [...new Set(implementations.filter(isPeer).map(({ name }) => name))];
  const ofPeers = (bytes: number): number[] =>
    peers.map((name) => found.find((row) => row.implementation === name && row.bytes === bytes)?.round_trip_us ?? NaN);
  const body = found
    .filter(({ implementation }) => !peers.includes(implementation))
    .map(({ transport, progress, bytes, round_trip_us }) => [
      transport,
      progress,
      parse.formatBytes(bytes),
      ...[round_trip_us, ...ofPeers(bytes)].map(formatTime),
      ...ofPeers(bytes).map((theirs) => formatRatio(round_trip_us / theirs)),
    ]);
  const header = ['transport', 'progress', 'size', 'node-nbc', ...peers, ...peers.map((name) => `/${name}`)];
  print(
    'Round trips of two ranks, medians, µs; /name: node-nbc divided by it, below 1 node-nbc is faster\n',
    options.json,
  );
  print(table(header, body, 2), options.json);
  writeJson(options.json, found);
}

async function againstNode(options: AgainstNodeSettings & { markdown: boolean; json?: string }): Promise<void> {
  const rows = await measureAgainstNode(options, listener);
  print(againstNodeTable(rows, options.markdown), options.json);
  writeJson(options.json, rows);
}

async function memory(options: { ranks: number; bytes: number; json?: string }): Promise<void> {
  line.update(0, `${options.ranks} bare Node processes, then ${options.ranks} ranks`);
  const found = await measureMemory(nodeNbc('auto', 'thread', ['plain']), options.ranks, options.bytes);
  const { ranks, bytes, bare, rank } = found;
  print(
    `Memory of a rank, MB: mean of ${ranks} ranks after an ialltoall of ${parse.formatBytes(bytes)}\n`,
    options.json,
  );
  const mb = (value: number) => (value / MB).toFixed(1);
  const rows = [
    ['resident (RSS)', mb(bare.rss), mb(rank.rss), mb(rank.rss - bare.rss)],
    ['its share (PSS)', mb(bare.pss), mb(rank.pss), mb(rank.pss - bare.pss)],
  ];
  print(table(['', 'bare Node', 'rank', 'above'], rows, 1), options.json);
  writeJson(options.json, found);
}

/** A list in lines. */
function wrapped(words: readonly string[]): string {
  return words.join(', ').replace(/(.{90,105}?,) /g, '$1\n');
}

function sameBuffersOption(): Option {
  return new Option('--same-buffers', 'do not write the buffers anew before each repetition').default(false);
}

function bindOption(): Option {
  const what = 'none: the kernel decides where they run; own: if there is one for each; shared: if not, too, in turn';
  return new Option('--bind <policy>', `bind each rank to a processor: ${what}`).choices(BINDINGS).default('own');
}

function warmUpOption(): Option {
  return new Option('--no-warm-up', 'measure at once, to see that all works: figures are larger');
}

function peersOption(text: string): Option {
  return new Option('--peers [list]', `${text}: ${peerNames.join(', ')} (default: both)`)
    .argParser(parse.parsePeers)
    .default(false, 'none');
}

// The reader of the output may close it early, as head does: that is no error.
process.stdout.on('error', () => undefined);

const program = new Command('nbcbench')
  .description(
    'Measures what non-blocking collectives cost: the blocking time of start + wait, and the overhead that is left of it\n' +
      'when a computation of the same length runs between the two. With --peers, on MPI libraries beside node-nbc.',
  )
  .version(version)
  .option('--ranks <list>', 'numbers of ranks', parse.parseRanks, [2])
  .option('--ops <list>', 'operations (see below), or all', parse.parseOps, [...PAPER_OPS])
  .option(
    '--sizes <list>',
    'bytes of a block, e.g. 8,16K,1M or 1K..64K (doubling)',
    parse.parseSizes,
    [8, 1024, 16384, 131072, 1048576],
  )
  .option('--intervals <list>', 'a test every so many bytes of the block; 0: no tests', parse.parseIntervals, [0])
  .option(
    '--transport <list>',
    "node-nbc's transport: auto, shm, tcp, verbs, ucx, or threads; peers use TCP if it is tcp",
    parse.parseTransports,
    ['auto'],
  )
  .addOption(threadsOption())
  .addOption(joinOption('ranks', 'ways', 'start', 'delays', 'links', 'ours'))
  .option('--progress <list>', "node-nbc's progress: thread, manual", parse.parseProgress, ['thread'])
  .option('--ways <list>', `with progress 'manual', the paper's modes: ${WAYS.join(', ')}`, parse.parseWays)
  .option('--buffers <kind>', "node-nbc's buffers: plain, alloc or both", parse.parseBuffers, [...BUFFER_KINDS])
  .option('--forms <list>', `node-nbc's requests: ${FORMS.join(', ')}; peers' are nonblocking`, parse.parseForms, [
    'nonblocking',
  ])
  .addOption(sameBuffersOption())
  .option('--repetitions <n>', 'measured repetitions of each combination and pass', parse.parsePositive, 500)
  .option('--max-seconds <s>', 'for each combination and pass: stop before all repetitions', parse.parseSeconds, 10)
  .addOption(
    new Option('--start <how>', `how ranks start together: auto, ${STARTS.join(', ')} (see below)`)
      .argParser(parse.parseStart)
      .default('auto'),
  )
  .addOption(bindOption())
  .option('--busy <n>', 'so many programs that compute run beside the ranks, on any processor', parse.parsePositive)
  .addOption(warmUpOption())
  .option('--delays <list>', 'measure with each of these delays of the network, in ms', parse.parseDelays)
  .option('--links <list>', 'the network interfaces to delay, by tc, as root', parse.parseInterfaces, [])
  .addOption(peersOption('also build and measure these peers, where installed, and print ratios'))
  .option('--no-ours', 'measure the peers alone')
  .option('--json <file>', 'write the rows as JSON; "-" is standard output (tables then go to standard error)')
  .option('--svg <file>', 'draw overhead against size, a panel for each operation and number of ranks')
  .addHelpText(
    'after',
    `
Operations: ${wrapped(OPS)}.
A block is the buffer of ibcast, of ireduce and iallreduce and of the scans, what each rank contributes to igather and
iallgather, and what each rank sends to each in ialltoall; of ireduceScatter, what each rank gets. Blocks of operations
with counts are all equal. Reductions are sums of float64. Neighbours are those on a ring. Rank 0 is the root.

Before each repetition, outside the time that is measured, all ranks write all their buffers, as a program does that has
something new to send; --same-buffers leaves that out, and shows what caches do then. Every combination is first checked
for correct data, then warmed up, then measured in small batches in which all implementations take turns, bound to the
same processors. Times are medians over the repetitions of the slowest rank's time, in microseconds.

  blocking   from the common start to the end of the slowest rank, start and wait with nothing in between
  overhead   init + test + wait, with a computation as long as the blocking time in between
  overlap    100 − (total − computation alone) / blocking · 100: also charges a computation that was slowed down

Common start: with a processor for each rank they are bound one to one and start at an instant that rank 0 names
(instant). With more ranks than processors none is bound and the kernel wakes all of them at once (gate); spinning would
only keep ranks from the processor. barrier is a dissemination barrier of each library's messages, with its own skew.
osu is what the OSU benchmarks do: ranks come out of their library's barrier, and the blocking time and the totals of
the overlap are the mean over ranks of the time from a rank's own start to its own end.

Exit codes: 0 all measured; 1 something failed (the rest is still reported); 2 wrong usage.

With --join the ranks are those of a job that a launcher has started, on one machine or several, with their settings in
variables (NBC_TRANSPORT, NBC_PROGRESS). Each rank then runs nbcbench; rank 0 measures and reports. They start out of a
barrier, and times are the longest of any rank on its own clock.

Examples:
  $ nbcbench                                           ibcast, igather and ialltoall between 2 ranks
  $ nbcbench --ops all --sizes 8 --peers openmpi       every operation, against Open MPI
  $ nbcbench --ops all --sizes 8 --forms nonblocking,persistent
  $ nbcbench --peers --buffers both                    against Open MPI and MPICH
  $ nbcbench --ops ialltoall --sizes 1K..256K --intervals 0,1K,8K --progress thread,manual --svg overhead.svg
  $ nbcbench --ranks 16 --sizes 8,1K --peers --json rows.json
  $ nbcbench --ranks 16 --sizes 8 --threads --peers    ranks as threads against MPI's processes
  $ nbcbench --ranks 8 --sizes 8 --busy 2 --peers      beside two other programs that compute
  $ nbcbench waiting --peers                           processor time of ranks that wait
  $ nbcbench crowd --peers                             64 ranks over TCP on this machine, all-to-all
  $ nbcbench pingpong --transport tcp --peers openmpi  round trips of 8 bytes
  $ mpirun -n 2 --host a,b npx nbcbench pingpong --join   the same between two hosts
  $ nbcbench against-node --markdown                   round trips beside what Node.js itself offers, as in README.md
  $ nbcbench memory --ranks 64                         memory of a rank above bare Node`,
  )
  .action(benchmark);

program
  .command('waiting')
  .description('processor time of ranks that wait in an igather for a root that joins late')
  .option('--ranks <n>', 'number of ranks', parse.parsePositive, 16)
  .option('--seconds <s>', 'how late the root joins', parse.parseSeconds, 5)
  .option('--idle <s>', 'how long event loops are idle before ranks wait in them', parse.parseSeconds, IDLE_SECONDS)
  .addOption(peersOption('also of these peers, where installed'))
  .option('--json <file>', 'write the figures as JSON; "-" is standard output')
  .action(waiting);

program
  .command('crowd')
  .description('all-to-all of many ranks on this machine: scaling of the software, not of a network')
  .option('--ranks <n>', 'number of ranks', parse.parsePositive, 64)
  .option('--sizes <list>', 'bytes of a block', parse.parseSizes, [64, 4096])
  .option('--transport <list>', 'auto, shm, tcp; peers use TCP if it is tcp', parse.parseTransports, ['tcp'])
  .option('--repetitions <n>', 'measured repetitions of each size', parse.parsePositive, 100)
  .option('--max-seconds <s>', 'for each size: stop before all repetitions', parse.parseSeconds, 10)
  .addOption(warmUpOption())
  .addOption(peersOption('also these peers, where installed'))
  .option('--json <file>', 'write the rows as JSON; "-" is standard output')
  .action(crowd);

program
  .command('nbov')
  .description("what isend, irecv and each test of a ping-pong cost, in the paper's three modes (Netgauge's nbov)")
  .option('--sizes <list>', 'bytes of a message', parse.parseSizes, [8, 1024, 16384, 131072, 1048576])
  .option('--repetitions <n>', 'measured round trips of each size', parse.parsePositive, 1000)
  .option('--transport <list>', 'auto, shm, tcp, verbs, ucx', parse.parseTransports, ['auto'])
  .option('--progress <list>', 'thread, manual', parse.parseProgress, ['manual'])
  .option('--ways <list>', `the paper's modes: ${WAYS.join(', ')}`, parse.parseWays, [...WAYS])
  .option('--json <file>', 'write the figures as JSON; "-" is standard output')
  .action(nbov);

program
  .command('pingpong')
  .description('how long a message and its answer take between two ranks, in turns with peers')
  .option('--sizes <list>', 'bytes of a message', parse.parseSizes, [8])
  .option('--repetitions <n>', 'measured round trips of each size', parse.parsePositive, 10_000)
  .option('--max-seconds <s>', 'for each size: stop before all repetitions', parse.parseSeconds, 10)
  .option('--transport <list>', 'auto, shm, tcp, verbs, ucx; peers use TCP if it is tcp', parse.parseTransports, [
    'auto',
  ])
  .addOption(threadsOption())
  .addOption(joinOption())
  .option('--progress <list>', 'thread, manual', parse.parseProgress, ['thread'])
  .addOption(sameBuffersOption())
  .addOption(bindOption())
  .addOption(warmUpOption())
  .addOption(peersOption('also these peers, where installed'))
  .option('--json <file>', 'write the figures as JSON; "-" is standard output')
  .action(pingPong);

program
  .command('against-node')
  .description(
    'round trips and all-to-alls beside postMessage, SharedArrayBuffer, Unix sockets, child_process and zeromq',
  )
  .option('--sizes <list>', 'bytes of a message, or of a block of an all-to-all', parse.parseSizes, [8, 1048576])
  .option('--repetitions <n>', 'measured round trips of each case', parse.parsePositive, 2000)
  .option('--max-seconds <s>', 'for each case: stop before all repetitions', parse.parseSeconds, 2)
  .option('--busy <n>', 'processes that compute beside the busy cases', parse.parsePositive, 2)
  .option('--markdown', 'print the table as in README.md', false)
  .option('--json <file>', 'write the figures as JSON; "-" is standard output')
  .action(againstNode);

program
  .command('memory')
  .description('memory of a rank after an ialltoall, above that of a bare Node process')
  .option('--ranks <n>', 'number of ranks', parse.parsePositive, 64)
  .option('--bytes <size>', 'what each rank sends to each', parse.parseBytes, 1024)
  .option('--json <file>', 'write the figures as JSON; "-" is standard output')
  .action(memory);

for (const command of [program, ...program.commands]) command.exitOverride().enablePositionalOptions();

await runProgram('nbcbench', async () => {
  try {
    await program.parseAsync();
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    line.clear();
    process.exit(error.exitCode === 0 ? 0 : 2); // commander has said what it is
  }
});
