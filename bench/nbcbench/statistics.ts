/** From the samples of all ranks to the figures of one row. */
import type { Measured } from './against-node/mechanisms.js';

/**
 * What one batch gave: for each rank `[start, init, test, wait, total]` of each repetition, in µs; NaN: a rank came
 * late.
 */
export type Batch = readonly Float64Array[];

const FIELDS = 5;

/** Figures of one repetition, in µs. */
export interface Repetition {
  /** Of the rank with the largest sum of the three. */
  init: number;
  test: number;
  wait: number;
  /** From the first start to the last end, what the slowest rank makes of it; or the mean of the ranks' own times. */
  total: number;
}

/** The middle value; of an even number of values the mean of the two in the middle. Not a number for none. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return NaN;
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * The maximum over ranks, repetition by repetition, from number `first`. Those that a rank started late are left out.
 * @param meanOfRanks The total is the mean over ranks, as in the OSU benchmarks
 */
export function repetitions(batch: Batch, first = 0, meanOfRanks = false): Repetition[] {
  const result: Repetition[] = [];
  const count = (batch[0]?.length ?? 0) / FIELDS;
  for (let i = first; i < count; i++) {
    const slowest: Repetition = { init: 0, test: 0, wait: 0, total: 0 };
    let overhead = -Infinity;
    let firstStart = Infinity;
    let lastEnd = -Infinity;
    let sum = 0;
    for (const samples of batch) {
      const [start, init, test, wait, total] = samples.subarray(i * FIELDS, (i + 1) * FIELDS);
      if (init + test + wait > overhead) {
        overhead = init + test + wait;
        slowest.init = init;
        slowest.test = test;
        slowest.wait = wait;
      }
      firstStart = Math.min(firstStart, start);
      lastEnd = Math.max(lastEnd, start + total);
      sum += total;
    }
    slowest.total = meanOfRanks ? sum / batch.length : lastEnd - firstStart;
    if (!Number.isNaN(slowest.total)) result.push(slowest); // NaN anywhere comes through min, max and minus
  }
  return result;
}

/** NBCBench's number of tests: none for interval 0, else floor(size / interval) + 1. */
export function testsFor(bytes: number, interval: number): number {
  return interval === 0 ? 0 : Math.floor(bytes / interval) + 1;
}

/** The overlap percentage of the OSU benchmarks. `compute` is the time of the computation without communication. */
export function overlapPercentage(total: number, compute: number, blocking: number): number {
  return 100 - ((total - compute) / blocking) * 100;
}

/** Of one process of `nbcbench against-node`. @param samples in milliseconds */
export function measuredOf(samples: readonly number[]): Measured {
  const sorted = [...samples].sort((a, b) => a - b);
  const us = (milliseconds: number): number => Math.round(milliseconds * 1e6) / 1000;
  return {
    repetitions: sorted.length,
    median_us: us(median(sorted)),
    p99_us: us(sorted[Math.floor(sorted.length * 0.99)]),
  };
}
