/**
 * `nbcbench waiting`: what ranks cost that wait. All of them start an igather, which cannot complete before the root
 * joins, seconds later; reported is the processor time of all ranks together meanwhile.
 */
import type { Implementation } from './implementations.js';
import { place } from './placement.js';

export interface Waiting {
  implementation: string;
  /** How they wait: 'wait' blocks the thread, 'await' leaves it to the event loop. */
  how: 'wait' | 'await';
  ranks: number;
  /**
   * Those that were still in the operation when the root joined: in a tree, leaves are done when their parent has their
   * block.
   */
  waited: number;
  seconds: number;
  /** Processor time of all ranks together, in ms. */
  cpu_ms: number;
  /** The same as a share of one processor, in percent. */
  cpu_pct: number;
}

/**
 * V8 collects garbage twice when a process that has loaded some code has been idle for 8 s: some 20 ms of a processor,
 * once, of a program that imports node-nbc and does nothing, too.
 */
export const IDLE_SECONDS = 10;

/** @param idle seconds that the event loops have had nothing to do before ranks wait in them */
export async function measureWaiting(
  implementation: Implementation,
  ranks: number,
  seconds: number,
  ways: readonly Waiting['how'][],
  idle: number,
): Promise<Waiting[]> {
  const job = await implementation.launch(ranks, place(ranks));
  try {
    const found: Waiting[] = [];
    for (const how of ways) {
      if (how === 'await') await job.command('idle', idle);
      await job.command('wait', seconds, how);
      const results = job.results();
      const cpu = results.reduce((sum, [used]) => sum + used, 0);
      const elapsed = Math.max(...results.map(([, time]) => time));
      found.push({
        implementation: implementation.name,
        how,
        ranks,
        waited: results.filter(([, time]) => time > 0.9e6 * seconds).length,
        seconds,
        cpu_ms: cpu / 1000,
        cpu_pct: (100 * cpu) / elapsed,
      });
    }
    return found;
  } finally {
    await job.close();
  }
}
