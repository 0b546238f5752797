/**
 * Compressing and gathering, block by block. The sizes of a block are gathered first, since only then the root knows where its data go:
 *
 *     compress 0 | compress 1 | compress 2 | …
 *                | sizes 0    | sizes 1    |
 *                             | data 0     | data 1
 *
 * Non-blocking, what is below a block is on its way while the block is compressed; blocking, everything waits for everything.
 */
import { performance } from 'node:perf_hooks';
import { deflateSync, type DeflateOptions } from 'fflate';
import type { Communicator, Request } from 'node-nbc';
import type { ArchiveWriter } from './archive.js';

export interface Times {
  /** Milliseconds. */
  whole: number;
  compressing: number;
  /** In calls of this library. */
  communicating: number;
}

/** A block on its way. */
interface Step {
  block: number;
  mine: Uint8Array;
  sizes: Uint32Array;
  sizesDone: Request;
  packed: Uint8Array;
  dataDone: Request | undefined;
}

export interface Job {
  world: Communicator;
  blocks: readonly Uint8Array[];
  /** Of the rank that has most. */
  rounds: number;
  level: number;
  /** Blocks on their way at a time; 0: blocking. */
  depth: number;
  /** At rank 0. */
  archive: ArchiveWriter | undefined;
}

export function compressAll(job: Job): Times {
  const { world, blocks, rounds, level, depth, archive } = job;
  const times: Times = { whole: 0, compressing: 0, communicating: 0 };
  const under = <T>(which: 'compressing' | 'communicating', run: () => T): T => {
    const begin = performance.now();
    const result = run();
    times[which] += performance.now() - begin;
    return result;
  };
  const begin = performance.now();
  const pending: Step[] = [];
  for (let block = 0; block < rounds; block++) {
    const mine = under('compressing', () => compress(blocks[block], level));
    under('communicating', () => {
      pending.push(startSizes(world, block, mine));
      // The data of the blocks before, whose sizes have had time to arrive.
      for (const step of depth > 0 ? pending.slice(0, -1) : pending) startData(world, step);
    });
    while (pending.length > depth) finish(pending.shift()!);
  }
  for (const step of pending) {
    under('communicating', () => startData(world, step));
    finish(step);
  }
  times.whole = performance.now() - begin;
  return times;

  function finish(step: Step): void {
    under('communicating', () => step.dataDone!.wait());
    archive?.add(step.block, step.sizes, step.packed);
  }
}

/** Ranks that have no more blocks take part with nothing. */
function compress(block: Uint8Array | undefined, level: number): Uint8Array {
  return block === undefined
    ? new Uint8Array(0)
    : deflateSync(block, { level: level as NonNullable<DeflateOptions['level']> });
}

function startSizes(world: Communicator, block: number, mine: Uint8Array): Step {
  const sizes = new Uint32Array(world.rank === 0 ? world.size : 0);
  const sizesDone = world.igather(Uint32Array.of(mine.length), world.rank === 0 ? sizes : null, 0);
  return { block, mine, sizes, sizesDone, packed: new Uint8Array(0), dataDone: undefined };
}

function startData(world: Communicator, step: Step): void {
  if (step.dataDone !== undefined) return;
  step.sizesDone.wait();
  if (world.rank === 0) step.packed = new Uint8Array(step.sizes.reduce((sum, bytes) => sum + bytes, 0));
  step.dataDone = world.igatherv(step.mine, step.packed, step.sizes, null, 0);
}
