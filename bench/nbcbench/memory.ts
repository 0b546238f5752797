/**
 * `nbcbench memory`: what a rank of node-nbc adds to a Node process. As many bare Node processes as ranks run first, so
 * that both share the pages of the executable equally.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { NodeNbc } from './ours.js';
import { place } from './placement.js';
import { fieldOf } from './proc.js';

/** Means over the processes, in bytes. */
export interface Footprint {
  /** Resident set: all pages that the process has mapped and that are in memory, shared or not. */
  rss: number;
  /** Proportional set: a page that n processes share counts as 1/n of a page for each. What the machine really pays. */
  pss: number;
}

export interface Memory {
  ranks: number;
  bytes: number;
  bare: Footprint;
  rank: Footprint;
}

export async function measureMemory(implementation: NodeNbc, ranks: number, bytes: number): Promise<Memory> {
  const bare = await bareNode(ranks);
  const job = await implementation.launch(ranks, { ...place(ranks), cpus: undefined });
  try {
    await job.command('run', 'blocking', 'ialltoall', bytes, 'plain', 'nonblocking', 'same', 0, 0, 1, 'gate', 0);
    return { ranks, bytes, bare, rank: mean(job.pids) };
  } finally {
    await job.close();
  }
}

/** Node processes that have started and sleep in read(), as the ranks do. */
async function bareNode(count: number): Promise<Footprint> {
  const program = `const fs = require('fs'); fs.writeSync(1, 'x'); fs.readSync(0, Buffer.alloc(1))`;
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] }),
  );
  const endAll = () => children.forEach((child) => child.kill('SIGKILL'));
  process.on('exit', endAll);
  try {
    await Promise.all(children.map((child) => once(child.stdout, 'data')));
    return mean(children.map((child) => child.pid!));
  } finally {
    endAll();
    process.off('exit', endAll);
  }
}

function mean(pids: readonly number[]): Footprint {
  let rss = 0;
  let pss = 0;
  for (const pid of pids) {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
    rss += fieldOf(text, 'Rss');
    pss += fieldOf(text, 'Pss');
  }
  return { rss: rss / pids.length, pss: pss / pids.length };
}
