/**
 * Runs the three operations through all their shapes, and checks every byte on every rank. Arguments: the progress
 * mode, and 'brief' for the short form.
 *
 * For each number of ranks, all of these, with every root:
 *
 * - sizes 0, 1, 254, 255, 256 (around the eager limit of the paper): every algorithm and the default, plain, alloc()
 *   and mixed buffers, in place and not;
 * - sizes around the default eager limit, and 64 Ki ± 1: every algorithm and the default, plain and alloc(), in place
 *   and not (igather: in turns);
 * - sizes 512 Ki ± 1 and 3 MiB: every combination of algorithm, plain or alloc() and in place, and every root, but
 *   not every combination with every root: they take turns.
 *
 * What would only cost memory is left out: with more than 8 ranks, gathers of 3 MiB go to the first and the last rank
 * only, and ialltoalls exchange blocks of 512 Ki ± 1 in one combination for each algorithm; with more than 4 ranks the
 * 3 MiB of an ialltoall are the whole buffer, not one block.
 *
 * In the short form combinations and roots take turns for every size up to 64 Ki + 1, and for whole buffers of 512 Ki ±
 * 1.
 *
 * Nothing separates the operations, so ranks run ahead of each other by as much as the operations allow.
 */
import assert from 'node:assert/strict';
import { alloc, type Communicator, IN_PLACE, init, type Request } from 'node-nbc';
import { assertBytes, type Guarded, GuardedPool, piece } from './noise.js';
import { report } from './scenario.js';

const SMALL = [0, 1, 254, 255, 256];
/** Around the default eager limit of the transport. */
const DEFAULT_EAGER = [-1, 0, 1].map((more) => (process.env['NBC_TRANSPORT'] === 'tcp' ? 8192 : 4096) + more);
const MEDIUM = [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1];
const LARGE = [512 * 1024 - 1, 512 * 1024, 512 * 1024 + 1];
const HUGE = 3 * 1024 * 1024;

const ALGORITHMS = {
  ibcast: ['linear', 'binomial', 'chain'],
  igather: ['linear', 'binomial'],
  ialltoall: ['linear', 'pairwise', 'bruck'],
} as const;
type Operation = keyof typeof ALGORITHMS;

/** Mixed: a rank has one kind or the other. */
type Memory = 'plain' | 'alloc' | 'mixed';

interface Variant {
  operation: Operation;
  algorithm: string | undefined;
  memory: Memory;
  inPlace: boolean;
}

interface Case extends Variant {
  /** Of the message of an ibcast, of a block of the others. */
  bytes: number;
  root: number;
}

function variants(operation: Operation, withDefault: boolean, memories: readonly Memory[]): Variant[] {
  const algorithms = [...ALGORITHMS[operation], ...(withDefault ? [undefined] : [])];
  const places = operation === 'ibcast' ? [false] : [false, true];
  return algorithms.flatMap((algorithm) =>
    memories.flatMap((memory) => places.map((inPlace) => ({ operation, algorithm, memory, inPlace }))),
  );
}

function allCases(ranks: number): Case[] {
  const everyRoot = Array.from({ length: ranks }, (_, rank) => rank);
  const rootsOf = (operation: Operation): number[] => (operation === 'ialltoall' ? [0] : everyRoot);
  const cases: Case[] = [];
  for (const operation of ['ibcast', 'igather', 'ialltoall'] as const) {
    const roots = rootsOf(operation);
    for (const bytes of SMALL) {
      for (const variant of variants(operation, true, ['plain', 'alloc', 'mixed'])) {
        for (const root of roots) cases.push({ ...variant, bytes, root });
      }
    }
    for (const bytes of [...DEFAULT_EAGER, ...MEDIUM]) {
      for (const [index, variant] of variants(operation, true, ['plain', 'alloc']).entries()) {
        for (const root of roots) {
          if (operation === 'igather' && (index + root) % 2 === 1) continue;
          cases.push({ ...variant, bytes, root });
        }
      }
    }
    const large = variants(operation, false, ['plain', 'alloc']);
    if (operation === 'ialltoall' && ranks > 8) {
      for (const [index, algorithm] of ALGORITHMS.ialltoall.entries()) {
        const memory = (ranks + index) % 2 === 0 ? 'plain' : 'alloc';
        cases.push({ operation, algorithm, memory, inPlace: false, bytes: LARGE[index], root: 0 });
      }
    } else {
      for (const bytes of LARGE) cases.push(...inTurns(large, roots, bytes));
    }
    const hugeRoots = operation === 'igather' && ranks > 8 ? [0, ranks - 1] : roots;
    const huge = operation === 'ialltoall' && ranks > 4 ? Math.floor(HUGE / ranks) : HUGE;
    cases.push(...inTurns(large, hugeRoots, huge));
  }
  return cases;
}

function briefCases(ranks: number): Case[] {
  const cases: Case[] = [];
  for (const operation of ['ibcast', 'igather', 'ialltoall'] as const) {
    const roots = operation === 'ialltoall' ? [0] : Array.from({ length: ranks }, (_, rank) => rank);
    for (const bytes of SMALL)
      cases.push(...inTurns(variants(operation, true, ['plain', 'alloc', 'mixed']), roots, bytes));
    for (const bytes of [...DEFAULT_EAGER, ...MEDIUM]) {
      cases.push(...inTurns(variants(operation, true, ['plain', 'alloc']), roots, bytes));
    }
    for (const bytes of LARGE) {
      const block = operation === 'ibcast' ? bytes : Math.floor(bytes / ranks);
      cases.push(...inTurns(variants(operation, false, ['plain', 'alloc']), roots, block));
    }
  }
  return cases;
}

/** Every variant and every root. */
function inTurns(list: readonly Variant[], roots: readonly number[], bytes: number): Case[] {
  const length = Math.max(list.length, roots.length);
  return Array.from({ length }, (_, i) => ({ ...list[i % list.length], root: roots[i % roots.length], bytes }));
}

const mode = process.argv[2] as 'thread' | 'manual';
const brief = process.argv[3] === 'brief';
const world = await init({ progress: mode });
const { rank, size } = world;
const cases = brief ? briefCases(size) : allCases(size);

const longestBlock = Math.max(...cases.map(({ bytes }) => bytes));
const longestAlltoall = Math.max(...cases.map((c) => (c.operation === 'ialltoall' ? c.bytes : 0)));
const longestSend = GuardedPool.roomFor(Math.max(longestBlock, longestAlltoall * size));
const longestReceive = GuardedPool.roomFor(longestBlock * size);
const pools = {
  plain: {
    send: new GuardedPool(new Uint8Array(longestSend)),
    receive: new GuardedPool(new Uint8Array(longestReceive)),
  },
  alloc: {
    send: new GuardedPool(alloc(Uint8Array, longestSend)),
    receive: new GuardedPool(alloc(Uint8Array, longestReceive)),
  },
};

for (const [number, which] of cases.entries()) {
  const run = { ibcast, igather, ialltoall }[which.operation];
  await run(world, number, which);
}
const stats = world.stats();
await world.close();
report({ cases: cases.length, stats });

function poolsFor(memory: Memory): { send: GuardedPool; receive: GuardedPool } {
  if (memory !== 'mixed') return pools[memory];
  return rank % 2 === 0 ? pools.plain : pools.alloc;
}

/** Different on each rank and for each operation: buffers need not be aligned. */
function shiftOf(number: number): number {
  return (number * 5 + rank * 3) % 64;
}

async function ibcast(communicator: Communicator, number: number, which: Case): Promise<void> {
  const { bytes, root, algorithm } = which;
  const what = describe(number, which);
  const buffer = poolsFor(which.memory).receive.region(bytes, shiftOf(number));
  const expected = piece(number, root, 0, bytes);
  if (rank === root) buffer.bytes.set(expected);
  else poison(buffer);
  await complete(communicator.ibcast(buffer.bytes, root, optionsOf(algorithm)), number);
  assertBytes(buffer.bytes, expected, what);
  buffer.assertGuards(what);
}

async function igather(communicator: Communicator, number: number, which: Case): Promise<void> {
  const { bytes, root, algorithm } = which;
  const what = describe(number, which);
  const memory = poolsFor(which.memory);
  const inPlace = which.inPlace && rank === root;
  const send = memory.send.region(bytes, shiftOf(number));
  send.bytes.set(piece(number, rank, 0, bytes));
  let receive: Guarded | null = null;
  if (rank === root) {
    receive = memory.receive.region(size * bytes, shiftOf(number + 1));
    poison(receive);
    if (inPlace) receive.bytes.set(send.bytes, rank * bytes);
  }
  const request = communicator.igather(
    inPlace ? IN_PLACE : send.bytes,
    receive === null ? null : receive.bytes,
    root,
    optionsOf(algorithm),
  );
  await complete(request, number);
  if (receive !== null) {
    for (let from = 0; from < size; from++) {
      const block = receive.bytes.subarray(from * bytes, (from + 1) * bytes);
      assertBytes(block, piece(number, from, 0, bytes), `${what}, block of rank ${from}`);
    }
    receive.assertGuards(what);
  }
  assertBytes(send.bytes, piece(number, rank, 0, bytes), `${what}, the send buffer afterwards`);
}

async function ialltoall(communicator: Communicator, number: number, which: Case): Promise<void> {
  const { bytes, algorithm, inPlace } = which;
  const what = describe(number, which);
  const memory = poolsFor(which.memory);
  const receive = memory.receive.region(size * bytes, shiftOf(number + 1));
  const send = inPlace ? receive : memory.send.region(size * bytes, shiftOf(number));
  if (!inPlace) poison(receive);
  for (let to = 0; to < size; to++) send.bytes.set(piece(number, rank, to, bytes), to * bytes);
  const source = inPlace ? IN_PLACE : send.bytes;
  await complete(communicator.ialltoall(source, receive.bytes, optionsOf(algorithm)), number);
  for (let other = 0; other < size; other++) {
    const [start, end] = [other * bytes, (other + 1) * bytes];
    assertBytes(receive.bytes.subarray(start, end), piece(number, other, rank, bytes), `${what}, from rank ${other}`);
    if (inPlace) continue;
    assertBytes(send.bytes.subarray(start, end), piece(number, rank, other, bytes), `${what}, send buffer afterwards`);
  }
  receive.assertGuards(what);
  if (!inPlace) send.assertGuards(what);
}

function poison(region: Guarded): void {
  region.bytes.fill(0xee);
}

/** The operation of the case has the algorithm. */
function optionsOf(algorithm: string | undefined): { algorithm: never } | undefined {
  return algorithm === undefined ? undefined : { algorithm: algorithm as never };
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

function describe(number: number, which: Case): string {
  const { operation, algorithm, memory, inPlace, bytes, root } = which;
  const place = inPlace ? ', in place' : '';
  return `case ${number}: ${operation} ${algorithm ?? 'default'} of ${bytes} bytes, root ${root}, ${memory}${place}, rank ${rank} of ${size}`;
}
