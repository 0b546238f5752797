/**
 * Compressing and gathering, block by block. The sizes of a block are gathered first, since only then the root knows
 * where its data go:
 *
 *     compress 0 | compress 1 | compress 2 | …
 *                | sizes 0    | sizes 1    |
 *                             | data 0     | data 1
 *
 * Non-blocking, what is below a block is on its way while the block is compressed (with some more blocks in between, so
 * that ranks need not keep step); blocking, everything waits for everything.
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

/** A block on its way. Its memory is used again by a later one. */
class Step {
  block = 0;
  mine: Uint8Array = new Uint8Array(0);
  readonly size = new Uint32Array(1);
  readonly sizes: Uint32Array;
  sizesDone: Request | undefined;
  packed: Uint8Array = new Uint8Array(0);
  dataDone: Request | undefined;
  #memory = new Uint8Array(0);

  constructor(readonly world: Communicator) {
    this.sizes = new Uint32Array(world.rank === 0 ? world.size : 0);
  }

  startSizes(block: number, mine: Uint8Array): void {
    this.block = block;
    this.mine = mine;
    this.size[0] = mine.length;
    this.sizesDone = this.world.igather(this.size, this.world.rank === 0 ? this.sizes : null, 0);
    this.dataDone = undefined;
  }

  startData(): void {
    if (this.dataDone !== undefined) return;
    this.sizesDone!.wait();
    const bytes = this.sizes.reduce((sum, each) => sum + each, 0);
    if (bytes > this.#memory.length) this.#memory = new Uint8Array(2 * bytes);
    this.packed = this.#memory.subarray(0, bytes);
    this.dataDone = this.world.igatherv(this.mine, this.packed, this.sizes, null, 0);
  }
}

export interface Workload {
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

export function compressAll(job: Workload): Times {
  const { world, blocks, rounds, level, depth, archive } = job;
  const begin = performance.now();
  let working = 0;
  const work = <T>(run: () => T): T => {
    const began = performance.now();
    const result = run();
    working += performance.now() - began;
    return result;
  };
  const steps = Array.from({ length: depth + 1 }, () => new Step(world));
  const pending: Step[] = [];
  for (let block = 0; block < rounds; block++) {
    const mine = work(() => compress(blocks[block], level));
    const started = steps[block % steps.length];
    started.startSizes(block, mine);
    pending.push(started);
    // So many blocks the sizes have to arrive, and ranks may be apart by as many without one that waits; fewer towards
    // the end, where nothing is left to hide behind. The same on all ranks, since collectives are started in the same
    // order everywhere.
    const lag = Math.min(Math.ceil(depth / 2), Math.floor((rounds - 1 - block) / 2));
    for (const step of pending) if (step.block <= block - lag) step.startData();
    // What has arrived is written at once: at the end it would keep the job waiting.
    while (pending.length > depth || pending[0]?.dataDone?.done) finish(pending.shift()!);
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
