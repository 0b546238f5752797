/**
 * What a trace costs: jobs of two ranks with and without one take turns, as nbcbench measures them. Each operation has
 * jobs of its own, so that the trace has room for all that happens.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Listener, measure, type Settings } from '#library/bench/nbcbench/measure.js';
import { type Op, sizesOf } from '#library/bench/nbcbench/operations.js';
import { nodeNbc } from '#library/bench/nbcbench/ours.js';
import { median } from '#library/bench/nbcbench/statistics.js';
import { type Form, FORMS } from '#library/bench/nbcbench/wire.js';
import { readTrace } from '#library/trace/merge.js';
import { FILE_IN_FOLDER, traceFile } from '#library/trace/names.js';
import type { Measurement } from './rows.js';

const TRACED: readonly Op[] = ['ibarrier', 'ibcast', 'iscatter', 'igather', 'ialltoall', 'ireduce', 'iallreduce'];
const RANKS = 2;
const BYTES = 8;
const EVENTS = 400_000;

/** Medians of the rounds: µs without a trace, and what of that it takes with one. */
interface Cost {
  op: Op;
  form: Form;
  without: number;
  ratio: number;
}

export const trace = (settings: Settings, rounds: number, listener: Listener): Measurement => ({
  rows: [
    { what: 'a trace: start + wait of 8 B, 2 ranks, against none, the median of operations', must: 1.05, aim: 1 },
    { what: 'the same, the operation that it slows down most' },
  ],
  async measure() {
    const costs: Cost[] = [];
    for (const op of TRACED) {
      for (const form of FORMS) costs.push(await costOf(op, form, settings, rounds, listener));
    }
    const worst = costs.reduce((a, b) => (b.ratio > a.ratio ? b : a));
    const note = `of ${median(costs.map(({ without }) => without)).toFixed(2)} µs`;
    return [
      { figure: median(costs.map(({ ratio }) => ratio)), note },
      { figure: worst.ratio, note: `${worst.op}, ${worst.form}` },
    ];
  },
});

async function costOf(op: Op, form: Form, settings: Settings, rounds: number, listener: Listener): Promise<Cost> {
  const times: number[] = [];
  const ratios: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const folder = mkdtempSync(join(tmpdir(), 'nbc-traces-'));
    try {
      const file = join(folder, FILE_IN_FOLDER);
      const environment = { NBC_TRACE: file, NBC_TRACE_EVENTS: String(EVENTS) };
      const sides = [{}, environment].map((more) =>
        nodeNbc('auto', 'thread', ['plain'], { forms: [form], environment: more }),
      );
      const what = { ranks: [RANKS], ops: [op], sizes: sizesOf(op, [BYTES]) };
      const results = await measure(sides, { ...settings, ...what }, listener);
      const [without, traced] = sides.map((side) => results.find(({ implementation }) => implementation === side)!);
      times.push(without.blocking);
      ratios.push(traced.blocking / without.blocking);
      for (let rank = 0; rank < RANKS; rank++) checkRoom(traceFile(file, rank, RANKS));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return { op, form, without: median(times), ratio: median(ratios) };
}

/** @throws {Error} if there was no room for some of the events, which therefore cost nothing */
function checkRoom(file: string): void {
  const { leftOut } = readTrace(file).metadata;
  if (leftOut > 0) throw new Error(`the trace has no room for ${leftOut} events`);
}
