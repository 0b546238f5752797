/**
 * `npm run bench:targets`: the project's own performance targets in one run, which is the table of BENCHMARKS.md:
 * ratios to the MPIs that are installed, processor time of waiting ranks, memory.
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Implementation } from '#library/bench/nbcbench/implementations.js';
import { measure, type Result } from '#library/bench/nbcbench/measure.js';
import { measureMemory, type Memory } from '#library/bench/nbcbench/memory.js';
import { formatBytes } from '#library/bench/nbcbench/options.js';
import { nodeNbc } from '#library/bench/nbcbench/ours.js';
import { findPeers, peerNames } from '#library/bench/nbcbench/peers.js';
import { line, listenerOf, runProgram } from '#library/bench/nbcbench/program.js';
import { formatRatio, formatTime, table } from '#library/bench/nbcbench/report.js';
import { measureWaiting, type Waiting } from '#library/bench/nbcbench/waiting.js';
import { groups, judge, LARGE_BYTES, memoryTarget, verdictOf, waitingTarget, type Verdict } from './targets.js';

const HELP = `npm run bench:targets -- [options]

  --rounds <n>       how often all ratios are measured (3); the table has the medians of the rounds
  --repetitions <n>  measured repetitions of each combination in a round (200)
  --no-bind          leave it to the kernel on which processors ranks run
  --json <file>      write the figures as JSON`;

const MB = 1e6;
const listener = listenerOf('targets');

/** One round: each operation and size of each target, ours and the peers'. */
async function measureRatios(peers: readonly Implementation[], repetitions: number, bind: boolean): Promise<Result[]> {
  const results: Result[] = [];
  for (const { ranks, sizes, ops, buffers, forms, against } of groups()) {
    // Only the peers that these targets are about: others may be slow with more ranks than processors.
    const needed = peers.filter(({ name }) => against.includes('better') || against.some((other) => other === name));
    const implementations = [nodeNbc('auto', 'thread', buffers, undefined, forms), ...needed];
    const settings = {
      ranks: [ranks],
      ops,
      sizes,
      intervals: [],
      maxSeconds: 2,
      start: 'auto',
      repetitions,
      bind,
    } as const;
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
    String(target.ranks),
    formatBytes(bytes),
    formatTime(ours),
    formatTime(theirs),
    target.against,
    formatRatio(ratio),
    range.map((end) => end.toFixed(2)).join('–'),
    `≤ ${formatRatio(target.must)}`,
    `≤ ${formatRatio(target.aim)}`,
    verdictOf(ratio, target),
    formatRatio(sameBuffers),
  ]);
  const figures = ['µs', 'peer µs', 'peer', 'ratio', 'rounds', 'must', 'aim', 'reached', 'same buffers'];
  return table(['op', 'buffers', 'form', 'ranks', 'size', ...figures], body, 3);
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
      'no-bind': { type: 'boolean', default: false },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const repetitions = wholeNumber('--repetitions', values.repetitions);
  const rounds = wholeNumber('--rounds', values.rounds);
  const peers = findPeers(peerNames, 'shm', (text) => line.log(`targets: ${text}`));
  if (peers.length === 0) throw new Error('the targets are ratios: install libopenmpi-dev, libmpich-dev, or both');
  const results: Result[][] = [];
  for (let round = 1; round <= rounds; round++) {
    line.log(`round ${round} of ${rounds}`);
    results.push(await measureRatios(peers, repetitions, !values['no-bind']));
  }
  const verdicts = judge(results);
  const { waits, footprint } = await measureRest();
  line.clear();
  const what = `Start + wait, medians of ${rounds} rounds; same buffers: the ratio where nobody writes them in between`;
  console.log(`\n${what}\n\n${ratioTable(verdicts)}\n\n${restTable(waits, footprint)}`);
  const points = verdicts.map(({ target, ...verdict }) => ({ ...target, ...verdict }));
  if (values.json !== undefined)
    writeFileSync(values.json, `${JSON.stringify({ points, waiting: waits, memory: footprint }, null, 2)}\n`);
}

await runProgram('targets', main);
