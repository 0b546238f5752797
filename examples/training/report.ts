import { IN_PLACE, SUM, type Communicator } from 'node-nbc';
import type { Times, Variant } from './replica.js';

export const TITLES: Record<Variant, string> = { blocking: 'blocking', nonblocking: 'non-blocking' };

/** Of each time the median of the steps, and of these the mean of the ranks, in milliseconds. Collective. */
export function summarise(world: Communicator, times: readonly Times[]): Times {
  const summary = Float64Array.of(
    median(times.map(({ total }) => total)),
    median(times.map(({ communication }) => communication)),
  );
  world.iallreduce(IN_PLACE, summary, SUM).wait();
  const [total, communication] = summary.map((sum) => sum / world.size);
  return { total, communication };
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}

const columns = (title: string, ...cells: string[]): string =>
  title.padEnd(13) + cells.map((cell) => cell.padStart(15)).join('');

/** A table of the variants; with both of them, what the overlap hides. */
export function timingLines(times: ReadonlyMap<Variant, Times>): string[] {
  const lines = [columns('ms of a step', 'total', 'computation', 'communication')];
  for (const [variant, { total, communication }] of times) {
    const cells = [total, total - communication, communication].map((value) => value.toFixed(2));
    lines.push(columns(TITLES[variant], ...cells));
  }
  const [blocking, nonblocking] = [times.get('blocking'), times.get('nonblocking')];
  if (blocking && nonblocking) {
    const hidden = blocking.communication - nonblocking.communication;
    const more = nonblocking.total - blocking.total + hidden;
    lines.push(
      `hidden: ${hidden.toFixed(2)} ms of ${blocking.communication.toFixed(2)} ms of communication ` +
        `(${((100 * hidden) / blocking.communication).toFixed(0)} %), while the computation takes ` +
        `${Math.abs(more).toFixed(2)} ms ${more < 0 ? 'less' : 'more'}`,
      `non-blocking / blocking: a step takes ${(nonblocking.total / blocking.total).toFixed(2)} times as long`,
    );
  }
  lines.push(
    '(communication: time in start and wait, also for ranks that still compute; medians of the steps, means of the ranks)',
  );
  return lines;
}
