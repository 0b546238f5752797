/**
 * Runs all operations in all their variants, and checks every byte on every rank.
 *
 * A variant is an algorithm or the default, plain or alloc() memory or both, in place or not, places with gaps or not.
 * In the form 'full' each has every small and medium length and a large one; in 'short' one of each kind; in 'once' one
 * of all. Lengths, roots and operators take turns.
 *
 * Nothing separates the operations, so ranks run ahead of each other by as much as the operations allow.
 */
import assert from 'node:assert/strict';
import { alloc, type Communicator, type Request } from 'node-nbc';
import { OPERATIONS, type OperationName } from 'node-nbc/schedules';
import { arrange, type Case, contribution, ORACLES, ranksOf, withOperator } from '../oracle.js';
import { assertBytes, type Guarded, GuardedPool, piece } from './noise.js';

/** Elements of a block: around the eager limit of the paper and that of the transport, and around 64 Ki. */
const SMALL = [0, 1, 254, 255, 256];
const MEDIUM = [
  ...[-1, 0, 1].map((more) => (process.env['NBC_TRANSPORT'] === 'tcp' ? 32 * 1024 : 4096) + more),
  ...[-1, 0, 1].map((more) => 64 * 1024 + more),
];
/** Of a message, or of all blocks together. */
const LARGE = [512 * 1024 - 1, 512 * 1024, 512 * 1024 + 1, 3 * 1024 * 1024 - 64];

/** Mixed: a rank has one kind or the other. */
const MEMORIES = ['plain', 'alloc', 'mixed'] as const;

interface Variant {
  name: OperationName;
  algorithm: string | undefined;
  memory: (typeof MEMORIES)[number];
  inPlace: boolean;
  gaps: boolean;
}
type Run = Variant & Case;

function variantsOf({ name, algorithms }: (typeof OPERATIONS)[number]): Variant[] {
  const { inPlace, listed } = ORACLES[name];
  const both = (possible: boolean): boolean[] => (possible ? [false, true] : [false]);
  const variants: Variant[] = [];
  for (const algorithm of [undefined, ...algorithms.map((row) => row.name)]) {
    for (const memory of MEMORIES) {
      for (const place of both(inPlace)) {
        for (const gaps of both(listed)) variants.push({ name, algorithm, memory, inPlace: place, gaps });
      }
    }
  }
  return variants;
}

/** How many times the length of a block the longest buffer of any rank has. */
function blocksOf(name: OperationName, size: number): number {
  const one = withOperator({ size, root: 0, count: 1, inPlace: false, gaps: false }, 0);
  const oracle = ORACLES[name];
  return Math.max(1, ...ranksOf(one).flatMap((rank) => [oracle.send(one, rank) ?? 0, oracle.recv(one, rank) ?? 0]));
}

/** Lists of lengths: a variant has one of each list. */
function listsOf(form: string, blocks: number): number[][] {
  const medium = MEDIUM.filter((count) => count * blocks <= Math.max(...LARGE));
  const large = LARGE.map((bytes) => Math.floor(bytes / blocks));
  if (form === 'full') return [...[...SMALL, ...medium].map((count) => [count]), large];
  // The oracle of a reduction takes its time for the larger ones.
  return form === 'short' ? [SMALL, medium, large] : [[...SMALL, ...medium, large[0]]];
}

function runsOf(size: number, form: string): Run[] {
  const runs: Run[] = [];
  for (const [index, operation] of OPERATIONS.entries()) {
    const variants = variantsOf(operation);
    const roots = ORACLES[operation.name].rooted ? ranksOf({ size }) : [0];
    const lists = listsOf(form, blocksOf(operation.name, size));
    for (let turn = 0; turn < Math.max(variants.length, roots.length); turn++) {
      for (const [number, list] of lists.entries()) {
        const root = roots[(turn + number) % roots.length];
        const count = list[(turn + index) % list.length];
        runs.push(withOperator({ ...variants[turn % variants.length], size, root, count }, runs.length));
      }
    }
  }
  return runs;
}

/** What there is to run, on all ranks of a world. */
export interface Cases {
  mode: 'thread' | 'manual';
  form: string;
  /** Where several jobs share the cases: which of how many this one is. */
  turn?: number;
  jobs?: number;
}

export interface Ran {
  cases: number;
  stats: Record<string, number>;
}

/** Does not close the world. */
export async function runCollectives(world: Communicator, { mode, form, turn = 0, jobs = 1 }: Cases): Promise<Ran> {
  const { rank, size } = world;
  const runs = runsOf(size, form).filter((_, number) => number % jobs === turn);

  /** Gaps come between blocks. */
  const longest = GuardedPool.roomFor(Math.max(...LARGE) + 2 * size);
  const pools = {
    plain: { send: new GuardedPool(new Uint8Array(longest)), recv: new GuardedPool(new Uint8Array(longest)) },
    alloc: { send: new GuardedPool(alloc(Uint8Array, longest)), recv: new GuardedPool(alloc(Uint8Array, longest)) },
  };

  for (const [number, run] of runs.entries()) await perform(number, run);
  const stats = { ...world.stats() };
  return { cases: runs.length, stats };

  async function perform(number: number, run: Run): Promise<void> {
    const what = `run ${number}: ${JSON.stringify({ ...run, op: run.op.name })}, rank ${rank} of ${size}`;
    const oracle = ORACLES[run.name];
    const pool = run.memory === 'mixed' ? [pools.plain, pools.alloc][rank % 2] : pools[run.memory];
    const regions: Guarded[] = [];
    const part = arrange(oracle, run, rank, (length, role) => {
      // Different on each rank and for each operation: buffers need not be aligned.
      const region = pool[role].region(length, (number * 5 + rank * 3 + (role === 'send' ? 0 : 5)) % 64);
      regions.push(region);
      return region.bytes.fill(0xee);
    });
    const own = contribution(oracle, run, rank, part);
    own?.set(piece(number, rank, 0, own.length));
    const expected = part.recv?.slice();
    if (expected !== undefined) {
      oracle.result(run, rank, (from) => piece(number, from, 0, lengthOf(from)), expected);
    }
    const start = world[run.name].bind(world) as (...args: unknown[]) => Request;
    const options = run.algorithm === undefined ? [] : [{ algorithm: run.algorithm }];
    await complete(start(...part.args, ...options), number);
    if (expected !== undefined) assertBytes(part.recv!, expected, what);
    if (part.send !== null) {
      assertBytes(part.send, piece(number, rank, 0, part.send.length), `${what}, the send buffer`);
    }
    for (const region of regions) region.assertGuards(what);

    function lengthOf(from: number): number {
      return oracle.send(run, from) ?? oracle.recv(run, from)!;
    }
  }

  /**
   * Waits in all the ways there are, in turns. Polling is for few ranks only: more would take the processors from each
   * other.
   */
  async function complete(request: Request, number: number): Promise<void> {
    const few = size <= 3;
    switch (number % 4) {
      case 0:
        if (few) while (!request.test());
        else request.wait();
        return;
      case 1:
        if (few || (mode === 'thread' && number % 16 === 1)) return request;
        request.wait();
        return;
      default:
        request.wait();
        assert.equal(request.done, true);
        assert.equal(request.test(), true);
    }
  }
}
