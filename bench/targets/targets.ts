/** The figures that this project has set itself, and whether they are reached: the table of BENCHMARKS.md. */
import type { Result } from '#library/bench/nbcbench/measure.js';
import { OPS, PAPER_OPS, sizesOf, type Op } from '#library/bench/nbcbench/operations.js';
import { peersOf } from '#library/bench/nbcbench/report.js';
import { median } from '#library/bench/nbcbench/statistics.js';
import type { BufferKind, Form } from '#library/bench/nbcbench/wire.js';

/** What our ranks are; the peers' are always processes. */
export type Start = 'processes' | 'threads';

export interface Target {
  ops: readonly Op[];
  start: Start;
  ranks: number;
  sizes: readonly number[];
  buffers: BufferKind;
  /** Of our requests; the peers' are always nonblocking. */
  form: Form;
  /** Whose time ours is divided by. */
  against: 'openmpi' | 'better';
  must: number;
  aim: number;
}

const K = 1024;
const processes = { start: 'processes' } as const;
const threads = { start: 'threads', form: 'nonblocking' } as const;
const small = { ...processes, ranks: 2, sizes: [8], buffers: 'plain', against: 'openmpi' } as const;
const medium = { ...processes, ranks: 2, sizes: [16 * K, 128 * K], buffers: 'plain', against: 'better' } as const;
const large = { ...processes, ranks: 2, sizes: [K * K], against: 'better' } as const;
const crowded = { ranks: 16, sizes: [8, K], buffers: 'plain', against: 'openmpi' } as const;
const plain = { form: 'nonblocking', buffers: 'plain' } as const;
const exposed = { form: 'nonblocking', buffers: 'alloc' } as const;

const reductions: readonly Op[] = ['iallreduce', 'ireduce', 'ireduceScatterBlock'];
const moves: readonly Op[] = ['iallgather', 'iscatter', 'ialltoallv'];

export const targets: readonly Target[] = [
  { ...small, ops: OPS, form: 'nonblocking', must: 1.3, aim: 1 },
  { ...small, ops: OPS, form: 'persistent', must: 1, aim: 0.8 },
  { ...medium, ops: PAPER_OPS, form: 'nonblocking', must: 1.3, aim: 1 },
  { ...large, ops: [...PAPER_OPS, ...moves], ...plain, must: 1.1, aim: 0.9 },
  { ...large, ops: [...PAPER_OPS, ...moves], ...exposed, must: 0.5, aim: 0.25 },
  { ...large, ops: reductions, ...plain, must: 0.7, aim: 0.5 },
  { ...large, ops: reductions, ...exposed, must: 0.25, aim: 0.15 },
  { ...processes, ...crowded, ops: OPS, form: 'nonblocking', must: 1, aim: 0.8 },
  { ...threads, ...crowded, ops: OPS, must: 0.8, aim: 0.4 },
  { ...large, ...threads, ops: [...PAPER_OPS, ...moves], buffers: 'plain', must: 0.4, aim: 0.15 },
];

/** From here on it is also shown what the same buffers give when nobody writes them between repetitions. */
export const LARGE_BYTES = K * K;

/** Processor time of 16 waiting ranks in percent of one core; resident bytes of a rank of 64 above bare Node. */
export const waitingTarget = { ranks: 16, seconds: 5, must: 2, aim: 0 };
export const memoryTarget = { ranks: 64, bytes: K, must: 40e6, aim: 15e6 };

/** What is measured by the same ranks. */
export interface Group {
  ranks: number;
  sizes: readonly number[];
  ops: Op[];
  buffers: BufferKind[];
  forms: Form[];
  against: Target['against'][];
}

const targetsOf = (start: Start): Target[] => targets.filter((target) => target.start === start);

/** The targets that have ranks and sizes in common, together. */
export function groups(start: Start): Group[] {
  const keyOf = ({ ranks, sizes }: Target): string => `${ranks} ${sizes.join()}`;
  const all = targetsOf(start);
  return [...new Set(all.map(keyOf))].map((key) => {
    const own = all.filter((target) => keyOf(target) === key);
    const { ranks, sizes } = own[0];
    return {
      ranks,
      sizes,
      ops: [...new Set(own.flatMap(({ ops }) => ops))],
      buffers: [...new Set(own.map(({ buffers }) => buffers))],
      forms: [...new Set(own.map(({ form }) => form))],
      against: [...new Set(own.map(({ against }) => against))],
    };
  });
}

export interface Verdict {
  target: Target;
  op: Op;
  bytes: number;
  /** Medians over the rounds: µs, and the ratio of each round. */
  ours: number;
  theirs: number;
  ratio: number;
  /** The ratios of the best and the worst round. */
  range: [number, number];
  /** The median ratio with buffers that nobody writes between repetitions; not a number where it is not measured. */
  sameBuffers: number;
}

/** One verdict for each operation and size of each target: not a number where it was not measured with its peers. */
export function verdictsOf(start: Start, rounds: readonly (readonly Result[])[]): Verdict[] {
  return targetsOf(start).flatMap((target) =>
    target.ops.flatMap((op) =>
      sizesOf(op, target.sizes).map((bytes) => {
        const pairs = (same: boolean) => rounds.flatMap((results) => pairOf(target, op, bytes, same, results));
        const fresh = pairs(false);
        const ratios = fresh.map(({ ours, theirs }) => ours / theirs);
        const range: [number, number] = ratios.length === 0 ? [NaN, NaN] : [Math.min(...ratios), Math.max(...ratios)];
        return {
          target,
          op,
          bytes,
          ours: median(fresh.map(({ ours }) => ours)),
          theirs: median(fresh.map(({ theirs }) => theirs)),
          ratio: median(ratios),
          range,
          sameBuffers: median(pairs(true).map(({ ours, theirs }) => ours / theirs)),
        };
      }),
    ),
  );
}

/** Our time and the peer's in one round. */
function pairOf(
  target: Target,
  op: Op,
  bytes: number,
  sameBuffers: boolean,
  results: readonly Result[],
): { ours: number; theirs: number }[] {
  const { ranks, buffers, form, against } = target;
  return results
    .filter(({ implementation }) => implementation.name === 'node-nbc')
    .filter((r) => r.ranks === ranks && r.op === op && r.bytes === bytes && r.sameBuffers === sameBuffers)
    .filter((r) => r.buffers === buffers && r.form === form)
    .flatMap((result) => {
      const peers = peersOf(result, results).filter(
        ({ implementation }) => against === 'better' || implementation.name === against,
      );
      if (peers.length === 0) return [];
      return { ours: result.blocking, theirs: Math.min(...peers.map(({ blocking }) => blocking)) };
    });
}
