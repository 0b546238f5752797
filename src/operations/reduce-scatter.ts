import { reduceScatterHalving } from '../schedules/halving.js';
import { reduceScatterLinear } from '../schedules/central.js';
import { type ReduceScatterShape, reduceScatterPairwise } from '../schedules/reduce.js';
import type { ReduceShape } from '../schedules/combine.js';
import { endOf, equalBlocks } from '../schedules/shape.js';
import { blocksOf, textOf } from './counts.js';
import { isCentral, isCrowded, SCATTER_MAX_BYTES, WHEN_CROWDED } from './central.js';
import { type Algorithm, operation } from './operation.js';
import { checkEqual, reduceShape, THAKUR } from './reducing.js';

/** Up to this many ranks, steps are few anyway, and a rank need not copy its whole contribution. */
const PAIRWISE_MAX_RANKS = 4;
/**
 * Bytes of all blocks together. Measured with 8 ranks on two cores, recursive halving takes 0.7 to 0.8 of the pairwise
 * time up to here, and more from 1 MiB on.
 */
const HALVING_MAX_BYTES = 64 * 1024;
/**
 * Where ranks share processors. Measured with 8 to 32 ranks on two processors, recursive halving takes 0.6 to 1.1 of
 * the pairwise time up to here.
 */
const CROWDED_HALVING_MAX_BYTES = 2 * 1024 * 1024;

type Name = 'linear' | 'pairwise' | 'recursive-halving';

/** @param blocked the same shape, with its blocks: they are made where a schedule is built */
function rows<S extends ReduceShape>(blocked: (shape: S) => ReduceScatterShape): Algorithm<Name, S>[] {
  return [
    {
      name: 'linear',
      steps: '2',
      bytes: '(p − 1) (all blocks, and one), at rank 0, which combines all',
      when: `${WHEN_CROWDED}: up to ${SCATTER_MAX_BYTES / 1024} KiB of all blocks together`,
      source: 'Open MPI (basic linear)',
      build: (shape) => reduceScatterLinear(blocked(shape)),
    },
    {
      name: 'pairwise',
      steps: 'p − 1',
      bytes: '(p − 1) blocks',
      when: `up to ${PAIRWISE_MAX_RANKS} ranks; operators that do not commute; otherwise above 64 KiB of all blocks together (2 MiB with ${WHEN_CROWDED})`,
      source: THAKUR,
      build: (shape) => reduceScatterPairwise(blocked(shape)),
    },
    {
      name: 'recursive-halving',
      steps: 'log₂ p, and two more where p is no power of two',
      bytes: '(p − 1) blocks, and a copy of all; all blocks once more where p is no power of two',
      when: `otherwise up to 64 KiB of all blocks together (2 MiB with ${WHEN_CROWDED})`,
      source: THAKUR,
      reorders: true,
      build: (shape) => reduceScatterHalving(blocked(shape)),
    },
  ];
}

/** @param bytes of all blocks together */
function choose(shape: ReduceShape, bytes: number): Name {
  const { size, commutes } = shape;
  if (isCentral(shape, bytes, SCATTER_MAX_BYTES)) return 'linear';
  if (size <= PAIRWISE_MAX_RANKS || !commutes) return 'pairwise';
  return bytes <= (isCrowded(shape) ? CROWDED_HALVING_MAX_BYTES : HALVING_MAX_BYTES) ? 'recursive-halving' : 'pairwise';
}

export const ireduceScatterBlock = operation({
  name: 'ireduceScatterBlock',
  mpi: 'MPI_Ireduce_scatter_block',
  summary: 'Combines a contribution of every rank; each rank gets a block of the result, all of the same size.',
  parameters: ['send', 'recv', 'op'],
  algorithms: rows((shape: ReduceShape) => ({ ...shape, blocks: equalBlocks(shape) })),
  shape(call) {
    const recv = call.view('recv');
    const { size } = call;
    const inPlace = call.sendInPlace;
    const block = inPlace ? call.block('recv', recv) : recv.bytes;
    const data = inPlace ? recv : call.view('send');
    if (!inPlace) checkEqual(call, data, recv, recv.bytes * size);
    return reduceShape(call, data, block, inPlace);
  },
  choose: (shape) => choose(shape, shape.size * shape.bytes),
});

export const ireduceScatter = operation({
  name: 'ireduceScatter',
  mpi: 'MPI_Ireduce_scatter',
  summary: 'Combines a contribution of every rank; each rank gets a block of the result, of its own size.',
  parameters: ['send', 'recv', 'counts', 'op'],
  algorithms: rows((shape: ReduceScatterShape) => shape),
  shape(call) {
    const inPlace = call.sendInPlace;
    const recv = call.view('recv');
    const data = inPlace ? recv : call.view('send');
    const blocks = blocksOf(call, ['counts', 'displs'], call.lists[0], null, inPlace ? 'recv' : 'send', data);
    const { bytes } = blocks[call.rank];
    if (!inPlace && recv.bytes !== bytes) {
      call.refuse('recv', `must have the bytes that counts gives its rank: ${bytes}, not ${recv.bytes}`);
    }
    if (!inPlace) checkEqual(call, data, recv, data.bytes);
    for (const length of new Set(blocks.map((block) => block.bytes))) reduceShape(call, data, length, inPlace);
    const shape = reduceShape(call, data, 0, inPlace);
    return { ...shape, blocks, detail: `${shape.detail!} ${textOf(blocks)}` };
  },
  sizes: ({ blocks }) => blocks.map(({ bytes }) => bytes),
  choose: (shape) => choose(shape, endOf(shape.blocks)),
});
