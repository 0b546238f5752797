/**
 * What the look-up of a schedule costs rank 0 of 1024 ranks. The program `schedules-rank.ts` measures it: calls of all
 * collectives that end where native code would start the operation.
 */
import { fileURLToPath } from 'node:url';
import { jsonOf, type Measurement } from './rows.js';

/** Medians, in µs. */
export interface LookUp {
  op: string;
  /** Whether it has counts, or a part for each rank: these are looked at in every call. */
  listed: boolean;
  /** The schedule is built, checked and compiled. */
  built: number;
  /** The shape of the call before. */
  same: number;
  /** Another shape than that of the call before, that is there. */
  kept: number;
}

const program = fileURLToPath(new URL('schedules-rank.js', import.meta.url));
const MS = 1000;

export const schedules = (repetitions: number): Measurement => ({
  rows: [
    { what: 'schedule for 1024 ranks, built, the slowest collective, ms', must: 2, aim: 2 },
    { what: 'schedule for 1024 ranks, there already, equal blocks, µs', must: 0.3, aim: 0.3 },
    { what: 'the same, in turns with another shape, µs', must: 0.3, aim: 0.3 },
    { what: 'the same, 1024 counts or parts to look at, µs', reached: '', digits: 1 },
  ],
  measure() {
    const found = jsonOf(process.execPath, [program, String(repetitions)]) as LookUp[];
    const equal = found.filter(({ listed }) => !listed);
    const slowest = (of: readonly LookUp[], field: 'built' | 'same' | 'kept', unit = 1) => {
      const worst = of.reduce((a, b) => (b[field] > a[field] ? b : a));
      return { figure: worst[field] / unit, note: worst.op };
    };
    const listed = found.filter((one) => one.listed);
    return [slowest(found, 'built', MS), slowest(equal, 'same'), slowest(equal, 'kept'), slowest(listed, 'same')];
  },
});
