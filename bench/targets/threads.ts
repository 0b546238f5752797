/** What ranks cost that are threads of one process, beside bare workers: threads-process.ts measures it. */
import { median } from '#library/bench/nbcbench/statistics.js';
import { at, jsonOf, type Measurement } from './rows.js';

/** Milliseconds from the call on, a figure for each turn. */
export interface Starts {
  /** To the first message of the last worker. */
  bare: number[];
  /** To where the last rank gives its result, and to where the caller has all. */
  given: number[];
  ranks: number[];
}
/** Bytes that are resident for each thread. */
export interface Resident {
  perThread: number;
}
/** Arguments of threads-process.ts. */
export type What = 'start' | 'bare' | 'ranks';

const RANKS = 8;
const MB = 1e6;

function found(what: What, ...numbers: number[]): unknown {
  const program = at('out/bench/targets/threads-process.js');
  return jsonOf(process.execPath, [program, what, ...numbers.map(String)]);
}

export const threads = (repetitions: number, rounds: number): Measurement => ({
  rows: [
    {
      what: `runRanks() of ${RANKS} ranks: start to results, of ${RANKS} bare workers to messages`,
      must: 1.5,
      aim: 1.2,
    },
    { what: 'the same, until the last rank has given its result' },
    {
      what: `${RANKS} ranks of runRanks(): resident above a bare worker, each, MB`,
      must: 8,
      aim: 3,
      digits: 1,
    },
  ],
  measure() {
    const { bare, given, ranks } = found('start', RANKS, repetitions) as Starts;
    const started = (ours: readonly number[]) => ({
      figure: median(ours.map((ms, turn) => ms / bare[turn])),
      note: `${median(ours).toFixed(0)} and ${median(bare).toFixed(0)} ms`,
    });
    const residentOf = (what: What): number =>
      median(Array.from({ length: rounds }, () => (found(what, RANKS) as Resident).perThread)) / MB;
    const [rank, worker] = [residentOf('ranks'), residentOf('bare')];
    const note = `${rank.toFixed(1)} and ${worker.toFixed(1)} MB`;
    return [started(ranks), started(given), { figure: rank - worker, note }];
  },
});
