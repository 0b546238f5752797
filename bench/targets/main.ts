/**
 * `npm run bench:targets`: the project's own performance targets in one run, which is the table of BENCHMARKS.md:
 * ratios to the MPIs that are installed, processor time of waiting ranks, memory.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Implementation } from '#library/bench/nbcbench/implementations.js';
import { measure, type Result, type Settings } from '#library/bench/nbcbench/measure.js';
import { measureMemory } from '#library/bench/nbcbench/memory.js';
import { formatBytes } from '#library/bench/nbcbench/options.js';
import { nodeNbc, THREADS } from '#library/bench/nbcbench/ours.js';
import { findPeers, peerNames } from '#library/bench/nbcbench/peers.js';
import { type Binding, BINDINGS } from '#library/bench/nbcbench/placement.js';
import { line, listenerOf, runProgram } from '#library/bench/nbcbench/program.js';
import { formatRatio, formatTime, table } from '#library/bench/nbcbench/report.js';
import { IDLE_SECONDS, measureWaiting } from '#library/bench/nbcbench/waiting.js';
import { link } from './link.js';
import { type Measurement, rowsOf, rowTable, verdictOf } from './rows.js';
import { schedules } from './schedules.js';
import { sums } from './sums.js';
import { groups, LARGE_BYTES, memoryTarget, type Start, type Verdict, verdictsOf, waitingTarget } from './targets.js';
import { threads } from './threads.js';
import { floor } from './floor.js';
import { trace } from './trace.js';
import { transposes } from './transposes.js';

const PARTS = [
  'ratios',
  'waiting',
  'memory',
  'sums',
  'schedules',
  'link',
  'transposes',
  'trace',
  'threads',
  'floor',
] as const;
type Part = (typeof PARTS)[number];

const HELP = `npm run bench:targets -- [options]

  --rounds <n>       how often all ratios are measured (3); the table has the medians of the rounds
  --repetitions <n>  measured repetitions of each combination in a round (200)
  --only <parts>     some of: ${PARTS.join(', ')}
  --quick            few repetitions: shows that all can be measured, and measures nothing well
  --bind <policy>    as that of nbcbench: none, own or shared (default own)
  --json <file>      write the figures as JSON`;

const MB = 1e6;
const listener = listenerOf('targets');

/** How all is measured; what is not said yet: which operations, sizes and numbers of ranks. */
const settingsFor = (repetitions: number, bind: Binding): Settings => ({
  ranks: [],
  ops: [],
  sizes: [],
  intervals: [],
  maxSeconds: 2,
  start: 'auto',
  repetitions,
  bind,
  warmUp: true,
});

/** One round: each operation and size of each target, ours and the peers'. */
async function measureRatios(
  start: Start,
  peers: readonly Implementation[],
  repetitions: number,
  bind: Binding,
): Promise<Result[]> {
  const results: Result[] = [];
  const transport = start === 'threads' ? THREADS : 'auto';
  for (const { ranks, sizes, ops, buffers, forms, against } of groups(start)) {
    // Only the peers that these targets are about: others may be slow with more ranks than processors.
    const needed = peers.filter(({ name }) => against.includes('better') || against.some((other) => other === name));
    const implementations = [nodeNbc(transport, 'thread', buffers, { forms }), ...needed];
    const settings = { ...settingsFor(repetitions, bind), ranks: [ranks], ops, sizes };
    results.push(...(await measure(implementations, settings, listener)));
    const large = sizes.filter((bytes) => bytes >= LARGE_BYTES);
    if (large.length === 0) continue;
    results.push(...(await measure(implementations, { ...settings, sizes: large, sameBuffers: true }, listener)));
  }
  return results;
}

function ratioTable(verdicts: readonly Verdict[]): string {
  const body = verdicts.map(({ target, op, bytes, ours, theirs, ratio, range, sameBuffers }) => [
    op,
    target.buffers,
    target.form,
    `${target.ranks} ${target.start}`,
    formatBytes(bytes),
    formatTime(ours),
    formatTime(theirs),
    target.against,
    formatRatio(ratio),
    Number.isNaN(ratio) ? '–' : range.map((end) => end.toFixed(2)).join('–'),
    `≤ ${formatRatio(target.must)}`,
    `≤ ${formatRatio(target.aim)}`,
    verdictOf(ratio, target),
    formatRatio(sameBuffers),
  ]);
  const figures = ['µs', 'peer µs', 'peer', 'ratio', 'rounds', 'must', 'aim', 'reached', 'same buffers'];
  return table(['op', 'buffers', 'form', 'ranks', 'size', ...figures], body, 3);
}

/** What is not a ratio, by part. */
function measurements(
  quick: boolean,
  rounds: number,
  repetitions: number,
  bind: Binding,
): Record<Exclude<Part, 'ratios'>, Measurement> {
  const ours = nodeNbc('auto', 'thread', ['plain']);
  const { ranks, bytes } = memoryTarget;
  const [waiting, used] = [`${waitingTarget.ranks} ranks waiting`, `${ranks} ranks, resident above bare Node`];
  const limits = (of: { must: number; aim: number }, unit = 1) => ({ must: of.must / unit, aim: of.aim / unit });
  return {
    waiting: {
      rows: ['wait', 'await'].map((how) => ({ what: `${waiting} (${how}), % of one core`, ...limits(waitingTarget) })),
      async measure() {
        const [seconds, idle] = quick ? [1, 0] : [waitingTarget.seconds, IDLE_SECONDS];
        const found = await measureWaiting(ours, waitingTarget.ranks, seconds, ['wait', 'await'], idle);
        // To a tenth of a percent: starting and waking up cannot be had for nothing.
        return found.map(({ cpu_pct, ranks: all, waited }) => ({
          figure: Number(cpu_pct.toFixed(1)),
          ...(waited < all ? { reached: 'ranks did not wait' } : {}),
        }));
      },
    },
    memory: {
      rows: [{ what: `${used}, MB`, ...limits(memoryTarget, MB), digits: 1 }, { what: 'the same as proportional set' }],
      async measure() {
        const { bare, rank } = await measureMemory(ours, quick ? 4 : ranks, bytes);
        return [rank.rss - bare.rss, rank.pss - bare.pss].map((above) => ({ figure: above / MB }));
      },
    },
    sums: sums(quick ? 20 : 1000),
    schedules: schedules(quick ? 5 : 60),
    link: link(quick ? 5 : 60),
    transposes: transposes(quick ? 32 : 128, quick ? 2 : 20),
    trace: trace(settingsFor(repetitions, bind), rounds, listener),
    threads: threads(quick ? 1 : 9, rounds),
    floor: floor(quick ? 10 : 500),
  };
}

async function ratios(start: Start, rounds: number, repetitions: number, bind: Binding): Promise<Verdict[]> {
  const peers = findPeers(peerNames, 'shm', (text) => line.log(`targets: ${text}`));
  const results: Result[][] = [];
  for (let round = 1; round <= rounds && peers.length > 0; round++) {
    line.log(`round ${round} of ${rounds}`);
    results.push(await measureRatios(start, peers, repetitions, bind));
  }
  return verdictsOf(start, results);
}

function partsOf(text: string | undefined): readonly Part[] {
  if (text === undefined) return PARTS;
  return text.split(',').map((name) => {
    const part = PARTS.find((known) => known === name);
    if (part === undefined) throw new Error(`--only: ${PARTS.join(', ')}, but not ${name}`);
    return part;
  });
}

function wholeNumber(option: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new Error(`${option}: a whole number above 0, not ${text}`);
  return number;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '3' },
      repetitions: { type: 'string', default: '200' },
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      bind: { type: 'string', default: 'own' },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const { quick } = values;
  const repetitions = quick ? 5 : wholeNumber('--repetitions', values.repetitions);
  const rounds = quick ? 1 : wholeNumber('--rounds', values.rounds);
  const parts = partsOf(values.only);
  const bind = BINDINGS.find((policy) => policy === values.bind);
  if (bind === undefined) throw new Error(`--bind: give one of ${BINDINGS.join(', ')}`);
  const verdicts: Verdict[] = [];
  if (parts.includes('ratios')) verdicts.push(...(await ratios('processes', rounds, repetitions, bind)));
  if (parts.includes('threads')) verdicts.push(...(await ratios('threads', rounds, repetitions, bind)));
  const rows = [];
  for (const [part, measurement] of Object.entries(measurements(quick, rounds, repetitions, bind))) {
    if (!parts.includes(part as Part)) continue;
    line.update(1, part);
    rows.push(...(await rowsOf(measurement)));
  }
  line.clear();
  if (verdicts.length > 0) {
    const what = `Start + wait, medians of ${rounds} rounds; same buffers: the ratio where nobody writes them in between`;
    console.log(`\n${what}\n\n${ratioTable(verdicts)}`);
  }
  if (rows.length > 0) console.log(`\n${rowTable(rows)}`);
  const points = verdicts.map(({ target, ...verdict }) => ({ ...target, ...verdict }));
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ points, rows }, null, 2)}\n`);
}

await runProgram('targets', main);
