/** Which processor each rank gets: one policy, the same for node-nbc and its peers. */
import { spawnSync } from 'node:child_process';
import { native } from '#library/native.js';

export interface Placement {
  /** The processor of each rank, or undefined: the kernel decides. */
  cpus: number[] | undefined;
  /** Whether every rank has a processor of its own. */
  dedicated: boolean;
  /** The policy in words, for the report. */
  text: string;
}

/** Which ranks are bound to a processor: none, those that have one of their own, or all. */
export const BINDINGS = ['none', 'own', 'shared'] as const;
export type Binding = (typeof BINDINGS)[number];

/**
 * Rank i is bound to the i-th allowed processor where there is one for each. Where there are fewer no rank of any
 * implementation is bound, or with 'shared' each to one of them, in turn.
 */
export function place(ranks: number, bind: Binding = 'own'): Placement {
  const allowed = native.allowedProcessors();
  const dedicated = ranks <= allowed.length;
  if (bind === 'none' || (bind === 'own' && !dedicated)) {
    return { cpus: undefined, dedicated, text: `${ranks} ranks on ${allowed.length} processors, none bound` };
  }
  if (spawnSync('taskset', ['--version'], { stdio: 'ignore' }).status !== 0) {
    return { cpus: undefined, dedicated, text: 'not bound: taskset (package util-linux) is missing' };
  }
  const used = allowed.slice(0, ranks).join(', ');
  const cpus = Array.from({ length: ranks }, (_, rank) => allowed[rank % allowed.length]);
  return { cpus, dedicated, text: `rank i bound to the i-th of processors ${used}${dedicated ? '' : ', in turn'}` };
}
