/**
 * What gathers and scatters share: one buffer at the root with a block for each rank, and at every rank a buffer with
 * its own block.
 */
import type { GathervShape } from '../schedules/gatherv.js';
import type { Schedule } from '../schedules/schedule.js';
import type { Shape } from '../schedules/shape.js';
import { IN_PLACE } from '../views.js';
import { blocksOf, checkOwnBlock, inOrder, textOf } from './counts.js';
import type { Algorithm, Call, Checked } from './operation.js';

/**
 * From this many ranks on, a tree takes work off the root: a small message costs the root about 0.1 µs, a hop of the
 * tree at least 1 µs, and more where processes share cores.
 */
const BINOMIAL_MIN_RANKS = 64;

/** Largest block, in bytes, for the tree: in it, a block is copied once per level instead of once. */
const BINOMIAL_MAX_BYTES = 1024;

type Build<S extends Shape> = (shape: S) => Schedule;

/** The algorithms for equal blocks. `source`: of the tree. */
export function equalRows(
  linear: Build<Shape>,
  binomial: Build<Shape>,
  source: string,
): Algorithm<'linear' | 'binomial'>[] {
  return [
    {
      name: 'linear',
      steps: '1',
      bytes: '(p − 1) n, at the root',
      when: `fewer than ${BINOMIAL_MIN_RANKS} ranks, or blocks above 1 KiB`,
      source: 'LibNBC',
      build: linear,
    },
    {
      name: 'binomial',
      steps: '⌈log₂ p⌉',
      bytes: '(p − 1) n, at the root, in ⌈log₂ p⌉ messages',
      when: `${BINOMIAL_MIN_RANKS} ranks and more, blocks of up to 1 KiB`,
      source,
      build: binomial,
    },
  ];
}

export function chooseEqual({ bytes, size }: Shape): 'linear' | 'binomial' {
  return size >= BINOMIAL_MIN_RANKS && bytes <= BINOMIAL_MAX_BYTES ? 'binomial' : 'linear';
}

/** The algorithm for blocks with sizes of their own. */
export function listedRows(build: Build<GathervShape>): Algorithm<'linear', GathervShape>[] {
  return [
    {
      name: 'linear',
      steps: '1',
      bytes: 'all blocks but its own, at the root',
      when: 'always: only the root knows all sizes',
      source: 'LibNBC',
      build,
    },
  ];
}

type Argument = 'send' | 'recv';

/** The buffer of a rank that is not the root. */
export function viewAway(call: Call, argument: Argument): Checked {
  if (call[argument] === IN_PLACE) call.refuse(argument, 'IN_PLACE is for the root only');
  return call.view(argument);
}

/** Equal blocks. `all`: the buffer of the root with all of them; `own`: that of every rank. */
export function equalShape(call: Call, all: Argument, own: Argument): Shape {
  call.checkRoot();
  if (!call.isRoot) return call.shape(viewAway(call, own).bytes);
  const blocks = call.view(all);
  if (call[own] === IN_PLACE) return call.shape(call.block(all, blocks), true);
  const block = call.view(own);
  const { size } = call;
  if (blocks.bytes !== block.bytes * size) {
    const has = `must hold ${size} blocks of ${block.bytes} bytes (as ${own} has)`;
    call.refuse(all, `${has}, which ${blocks.bytes} bytes are not`);
  }
  call.checkWhole(all, blocks, block.bytes);
  call.checkPair(...inOrder(own, block, blocks));
  return call.shape(block.bytes);
}

/** As {@link equalShape}, for blocks whose sizes only the root knows: arguments `counts` and `displs`. */
export function listedShape(call: Call, all: Argument, own: Argument): GathervShape {
  call.checkRoot();
  if (!call.isRoot) return { ...call.shape(viewAway(call, own).bytes), blocks: [] };
  const [counts, displs] = call.lists;
  const buffer = call.view(all);
  const blocks = blocksOf(call, ['counts', 'displs'], counts, displs, all, buffer);
  const inPlace = call[own] === IN_PLACE;
  if (!inPlace) checkOwnBlock(call, own, blocks[call.root], buffer);
  return { ...call.shape(0, inPlace), blocks, detail: textOf(blocks) };
}
