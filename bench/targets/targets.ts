/** The figures that this project has set itself, and whether they are reached: the table of BENCHMARKS.md. */
import type { Result } from '#library/bench/nbcbench/measure.js';
import { peersOf } from '#library/bench/nbcbench/report.js';
import type { BufferKind, Op } from '#library/bench/nbcbench/wire.js';

export interface Target {
  ranks: number;
  sizes: number[];
  buffers: BufferKind;
  /** Whose time ours is divided by. */
  against: 'openmpi' | 'better';
  must: number;
  aim: number;
}

const K = 1024;

export const targets: readonly Target[] = [
  { ranks: 2, sizes: [8], buffers: 'plain', against: 'openmpi', must: 1.5, aim: 1 },
  { ranks: 2, sizes: [16 * K, 128 * K], buffers: 'plain', against: 'better', must: 1.3, aim: 1 },
  { ranks: 2, sizes: [K * K], buffers: 'plain', against: 'better', must: 1.1, aim: 0.9 },
  { ranks: 2, sizes: [K * K], buffers: 'alloc', against: 'better', must: 0.5, aim: 0.25 },
  { ranks: 16, sizes: [8, K], buffers: 'plain', against: 'openmpi', must: 0.8, aim: 0.4 },
];

/** Processor time of 16 waiting ranks in percent of one core; resident bytes of a rank of 64 above bare Node. */
export const waitingTarget = { ranks: 16, seconds: 5, must: 2, aim: 0 };
export const memoryTarget = { ranks: 64, bytes: K, must: 40e6, aim: 15e6 };

export interface Verdict {
  target: Target;
  op: Op;
  bytes: number;
  ours: number;
  theirs: number;
  ratio: number;
}

/** One verdict for each operation and size of each target that has been measured with the peers it needs. */
export function judge(results: readonly Result[]): Verdict[] {
  return targets.flatMap((target) =>
    target.sizes.flatMap((bytes) =>
      results
        .filter(({ implementation }) => implementation.name === 'node-nbc')
        .filter((r) => r.ranks === target.ranks && r.bytes === bytes && r.buffers === target.buffers)
        .flatMap((result) => {
          const peers = peersOf(result, results).filter(
            ({ implementation }) => target.against === 'better' || implementation.name === target.against,
          );
          if (peers.length === 0) return [];
          const theirs = Math.min(...peers.map(({ blocking }) => blocking));
          const { op, blocking: ours } = result;
          return [{ target, op, bytes, ours, theirs, ratio: ours / theirs }];
        }),
    ),
  );
}

/** A figure against its two limits, in a word. */
export function verdictOf(figure: number, { must, aim }: { must: number; aim: number }): string {
  return figure <= aim ? 'aim' : figure <= must ? 'must' : 'short';
}
