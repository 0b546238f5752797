/**
 * Compressing and gathering, block by block. The sizes of a block are gathered first, since only then the root knows where its data go:
 *
 *     compress 0 | compress 1 | compress 2 | …
 *                | sizes 0    | sizes 1    |
 *                             | data 0     | data 1
 *
 * Non-blocking, what is below a block is on its way while the block is compressed (with some more blocks in between, so that ranks need not keep
 * step); blocking, everything waits for everything.
 */
import { performance } from 'node:perf_hooks';
import { deflateSync, type DeflateOptions } from 'fflate';
import type { Communicator, Request } from 'node-nbc';
import type { ArchiveWriter } from './archive.js';

/** Milliseconds. */
export interface Times {
  whole: number;
  /** Compressing, and at rank 0 writing the archive. */
  working: number;
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
  const begin = performance.now();
  let working = 0;
  const work = <T>(run: () => T): T => {
    const began = performance.now();
    const result = run();
    working += performance.now() - began;
    return result;
  };
  const pending: Step[] = [];
  for (let block = 0; block < rounds; block++) {
    const mine = work(() => compress(blocks[block], level));
    pending.push(startSizes(world, block, mine));
    // So many blocks the sizes have to arrive, and ranks may be apart by as many without one that waits; fewer towards the end, where nothing is
    // left to hide behind. The same on all ranks, since collectives are started in the same order everywhere.
    const lag = Math.min(Math.ceil(depth / 2), Math.floor((rounds - 1 - block) / 2));
    for (const step of pending.slice(0, pending.length - lag)) startData(world, step);
    while (pending.length > depth) finish(pending.shift()!);
  }
  for (const step of pending) finish(step);
  return { whole: performance.now() - begin, working };

  function finish(step: Step): void {
    step.dataDone!.wait();
    work(() => archive?.add(step.block, step.sizes, step.packed));
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
