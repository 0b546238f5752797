/**
 * `nbcbench nbov`: the pattern of that name of Netgauge, which the paper's figures of isend, irecv and test come from.
 * Two ranks play ping-pong; every call is timed, in each of the paper's three modes.
 */
import { nodeNbc } from './ours.js';
import { place } from './placement.js';
import { median } from './statistics.js';
import type { Way } from './ways.js';

/** Medians of one size in one mode; times in µs. */
export interface Nbov {
  transport: string;
  progress: string;
  way: Way;
  bytes: number;
  repetitions: number;
  isend_us: number;
  irecv_us: number;
  /** One test while something is pending. */
  test_us: number;
  /** How many there were in a repetition. */
  tests: number;
  round_trip_us: number;
}

export async function measureNbov(
  transport: string,
  progress: string,
  way: Way,
  sizes: readonly number[],
  repetitions: number,
): Promise<Nbov[]> {
  const job = await nodeNbc(transport, progress, ['plain'], { way }).launch(2, place(2));
  try {
    await job.command('calibrate');
    const rows: Nbov[] = [];
    for (const bytes of sizes) {
      await job.command('nbov', bytes, Math.min(repetitions, 100)); // compiled and connected
      await job.command('nbov', bytes, repetitions);
      const [zero] = job.results();
      const column = (which: number): number => median([...zero.filter((_, at) => at % 5 === which)]);
      rows.push({
        transport,
        progress,
        way,
        bytes,
        repetitions,
        isend_us: column(0),
        irecv_us: column(1),
        test_us: column(2),
        tests: column(3),
        round_trip_us: column(4),
      });
    }
    return rows;
  } finally {
    await job.close();
  }
}
