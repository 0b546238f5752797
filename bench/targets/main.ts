/**
 * `npm run bench:targets`: the project's own performance targets in one run, which is the table of BENCHMARKS.md:
 * ratios to the MPIs that are installed, processor time of waiting ranks, memory.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { measure, type Listener, type Result } from '#library/bench/nbcbench/measure.js';
import { measureMemory, type Memory } from '#library/bench/nbcbench/memory.js';
import { formatBytes } from '#library/bench/nbcbench/options.js';
import { nodeNbc } from '#library/bench/nbcbench/ours.js';
import { findPeers, peerNames } from '#library/bench/nbcbench/peers.js';
import { ProgressLine } from '#library/bench/nbcbench/progress.js';
import { formatRatio, formatTime, table } from '#library/bench/nbcbench/report.js';
import { measureWaiting, type Waiting } from '#library/bench/nbcbench/waiting.js';
import { BUFFER_KINDS, OPS } from '#library/bench/nbcbench/wire.js';
import { judge, memoryTarget, targets, verdictOf, waitingTarget, type Verdict } from './targets.js';

const HELP = `npm run bench:targets -- [options]

  --repetitions <n>  measured repetitions of each combination (1000)
  --no-bind          leave it to the kernel on which processors ranks run
  --json <file>      write the figures as JSON`;

const MB = 1e6;
const line = new ProgressLine();
const failures: Error[] = [];
const listener: Listener = {
  progress: (fraction, text) => line.update(fraction, text),
  note: (text) => line.log(`  ${text}`),
  failure(error) {
    failures.push(error);
    line.log(`targets: ${error.message}\n  goes on without it`);
  },
};

/** Each operation and size of each target, ours and the peers'. */
async function measureRatios(repetitions: number, bind: boolean): Promise<Verdict[]> {
  const peers = findPeers(peerNames, 'shm', (text) => line.log(`targets: ${text}`));
  if (peers.length === 0) throw new Error('the targets are ratios: install libopenmpi-dev, libmpich-dev, or both');
  const implementations = [nodeNbc('auto', 'thread', [...BUFFER_KINDS]), ...peers];
  const results: Result[] = [];
  for (const ranks of new Set(targets.map((target) => target.ranks))) {
    const own = targets.filter((target) => target.ranks === ranks);
    const sizes = [...new Set(own.flatMap((target) => target.sizes))];
    // Only the implementations that these targets are about: others may be slow with more ranks than processors.
    const needed = implementations.filter(
      ({ name }) => name === 'node-nbc' || own.some(({ against }) => against === 'better' || against === name),
    );
    const settings = { ranks: [ranks], ops: [...OPS], sizes, intervals: [], maxSeconds: 20, start: 'auto' } as const;
    results.push(...(await measure(needed, { ...settings, repetitions, bind }, listener)));
  }
  return judge(results);
}

function ratioTable(verdicts: readonly Verdict[]): string {
  const body = verdicts.map(({ target, op, bytes, ours, theirs, ratio }) => [
    op,
    target.buffers,
    String(target.ranks),
    formatBytes(bytes),
    formatTime(ours),
    formatTime(theirs),
    target.against,
    formatRatio(ratio),
    `≤ ${formatRatio(target.must)}`,
    `≤ ${formatRatio(target.aim)}`,
    verdictOf(ratio, target),
  ]);
  const header = ['op', 'buffers', 'ranks', 'size', 'µs', 'peer µs', 'peer', 'ratio', 'must', 'aim', 'reached'];
  return table(header, body, 2);
}

async function measureRest(): Promise<{ waits: Waiting[]; footprint: Memory | undefined }> {
  const ours = nodeNbc('auto', 'thread', ['plain']);
  const waits: Waiting[] = [];
  let footprint: Memory | undefined;
  try {
    line.update(1, `${waitingTarget.ranks} waiting ranks`);
    waits.push(...(await measureWaiting(ours, waitingTarget.ranks, waitingTarget.seconds, ['wait', 'await'])));
    line.update(1, `memory of ${memoryTarget.ranks} ranks`);
    footprint = await measureMemory(ours, memoryTarget.ranks, memoryTarget.bytes);
  } catch (error) {
    listener.failure(error as Error);
  }
  return { waits, footprint };
}

function restTable(waits: readonly Waiting[], footprint: Memory | undefined): string {
  const rows = waits.map(({ how, cpu_pct, ranks, waited }) => {
    // To a tenth of a percent: starting and waking up cannot be had for nothing.
    const verdict = waited < ranks ? 'ranks did not wait' : verdictOf(Number(cpu_pct.toFixed(1)), waitingTarget);
    const what = `${waitingTarget.ranks} ranks waiting (${how}), % of one core`;
    return [what, cpu_pct.toFixed(3), `≤ ${waitingTarget.must}`, `${waitingTarget.aim}`, verdict];
  });
  if (footprint) {
    const { bare, rank } = footprint;
    const above = rank.rss - bare.rss;
    const limits = [`≤ ${memoryTarget.must / MB}`, `≤ ${memoryTarget.aim / MB}`, verdictOf(above, memoryTarget)];
    rows.push([`${memoryTarget.ranks} ranks, resident above bare Node, MB`, (above / MB).toFixed(1), ...limits]);
    rows.push(['the same as proportional set', ((rank.pss - bare.pss) / MB).toFixed(1), '', '', '']);
  }
  return table(['', 'figure', 'must', 'aim', 'reached'], rows, 1);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      repetitions: { type: 'string', default: '1000' },
      'no-bind': { type: 'boolean', default: false },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const repetitions = Number(values.repetitions);
  if (!Number.isSafeInteger(repetitions) || repetitions < 1) throw new Error('--repetitions: a whole number above 0');
  const verdicts = await measureRatios(repetitions, !values['no-bind']);
  const { waits, footprint } = await measureRest();
  line.clear();
  console.log(`\nStart + wait, medians\n\n${ratioTable(verdicts)}\n\n${restTable(waits, footprint)}`);
  const points = verdicts.map(({ target, ...verdict }) => ({ ...target, ...verdict }));
  if (values.json !== undefined)
    writeFileSync(values.json, `${JSON.stringify({ points, waiting: waits, memory: footprint }, null, 2)}\n`);
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1)); // jobs go with it

try {
  await main();
  process.exitCode = failures.length > 0 ? 1 : 0;
} catch (error) {
  line.clear();
  process.stderr.write(`targets: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
