/** Which processor each rank gets: one policy, the same for node-nbc and its peers. */
import { spawnSync } from 'node:child_process';
import { allowedProcessors } from '#library/processors.js';

export interface Placement {
  /** The processor of each rank, or undefined: the kernel decides. */
  cpus: number[] | undefined;
  /** Whether every rank has a processor of its own. */
  dedicated: boolean;
  /** The policy in words, for the report. */
  text: string;
}

/**
 * Rank i is bound to the i-th allowed processor where there is one for each; else, or if `bind` is false, no rank of
 * any implementation is bound.
 */
export function place(ranks: number, bind = true): Placement {
  const allowed = allowedProcessors();
  const dedicated = ranks <= allowed.length;
  if (!dedicated || !bind) {
    return { cpus: undefined, dedicated, text: `${ranks} ranks on ${allowed.length} processors, none bound` };
  }
  if (spawnSync('taskset', ['--version'], { stdio: 'ignore' }).status !== 0) {
    return { cpus: undefined, dedicated: true, text: 'not bound: taskset (package util-linux) is missing' };
  }
  const cpus = allowed.slice(0, ranks);
  return { cpus, dedicated: true, text: `rank i bound to the i-th of processors ${cpus.join(', ')}` };
}
