import type { CommunicationTimes } from './transpose.js';
import type { Check } from './verify.js';

/** One repetition on one rank, in milliseconds. */
export interface Timing extends CommunicationTimes {
  total: number;
}

const FIELDS = ['total', 'start', 'test', 'wait'] as const;

/** The communication overhead: what the computing thread spent on communication. */
export const overhead = (timing: CommunicationTimes): number => timing.start + timing.test + timing.wait;

/** Timings as numbers, to be sent. */
export const pack = (timings: Timing[]): Float64Array =>
  Float64Array.from(timings.flatMap((timing) => FIELDS.map((field) => timing[field])));

export function unpack(numbers: Float64Array): Timing[] {
  const timings: Timing[] = [];
  for (let begin = 0; begin < numbers.length; begin += FIELDS.length) {
    const [total, start, test, wait] = numbers.subarray(begin, begin + FIELDS.length);
    timings.push({ total, start, test, wait });
  }
  return timings;
}

/**
 * Of each repetition the rank with the largest overhead, and the largest total; of these the repetition with the median
 * overhead.
 *
 * @param timings all ranks' repetitions, the first rank's first
 */
export function summarise(timings: Timing[], repetitions: number): Timing {
  const worst = Array.from({ length: repetitions }, (_, repetition) => {
    const ranks = timings.filter((_timing, index) => index % repetitions === repetition);
    const slowest = ranks.reduce((a, b) => (overhead(b) > overhead(a) ? b : a));
    return { ...slowest, total: Math.max(...ranks.map(({ total }) => total)) };
  });
  return worst.sort((a, b) => overhead(a) - overhead(b))[Math.floor((repetitions - 1) / 2)];
}

const ms = (value: number): string => `${value.toFixed(1)} ms`.padStart(11);

/**
 * A table of the variants: total, communication overhead and what it consists of; with two of them, the second's part
 * of the first.
 */
export function timingLines(variants: { title: string; timing: Timing }[]): string[] {
  const lines = variants.map(({ title, timing }) => {
    const share = `${((100 * overhead(timing)) / timing.total).toFixed(1)} %`.padStart(8);
    const parts = [timing.start, timing.test, timing.wait].map(ms).join('');
    return `${title.padEnd(13)}${ms(timing.total)}${ms(overhead(timing))}${share}${parts}`;
  });
  lines.unshift('time                total   overhead =   share      start +     test +     wait');
  if (variants.length === 2) {
    const [first, second] = variants;
    const ratio = (of: (timing: Timing) => number) => (of(second.timing) / of(first.timing)).toFixed(2);
    lines.push(
      `${second.title} / ${first.title}: communication overhead ${ratio(overhead)}, total ${ratio(({ total }) => total)}`,
    );
  }
  lines.push('(overhead: time in the calls of the transposes; slowest rank, median repetition)');
  return lines;
}

/** A table of what was checked. */
export function checkLines(checks: Check[]): string[] {
  const lines = checks.map(
    ({ name, error, ok }) => `${name.padEnd(52)}${error.toExponential(1).padStart(8)}  ${ok ? 'ok' : 'WRONG'}`,
  );
  return [`${'check'.padEnd(52)}   error`, ...lines];
}
