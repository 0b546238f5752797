import { reduceScatterPairwise } from '../schedules/reduce.js';
import { equalBlocks } from '../schedules/shape.js';
import { blocksOf, textOf } from './counts.js';
import { operation } from './operation.js';
import { checkEqual, reduceShape, THAKUR } from './reducing.js';

const pairwise = {
  name: 'pairwise',
  steps: 'p − 1',
  bytes: '(p − 1) blocks',
  when: 'always',
  source: THAKUR,
  build: reduceScatterPairwise,
} as const;

export const ireduceScatterBlock = operation({
  name: 'ireduceScatterBlock',
  mpi: 'MPI_Ireduce_scatter_block',
  summary: 'Combines a contribution of every rank; each rank gets a block of the result, all of the same size.',
  parameters: ['send', 'recv', 'op'],
  algorithms: [pairwise],
  shape(call) {
    const recv = call.view('recv');
    const { size } = call;
    const inPlace = call.sendInPlace;
    const block = inPlace ? call.block('recv', recv) : recv.bytes;
    const data = inPlace ? recv : call.view('send');
    if (!inPlace) checkEqual(call, data, recv, recv.bytes * size);
    const shape = reduceShape(call, data, block, inPlace);
    return { ...shape, blocks: equalBlocks(shape) };
  },
  choose: () => 'pairwise',
});

export const ireduceScatter = operation({
  name: 'ireduceScatter',
  mpi: 'MPI_Ireduce_scatter',
  summary: 'Combines a contribution of every rank; each rank gets a block of the result, of its own size.',
  parameters: ['send', 'recv', 'counts', 'op'],
  algorithms: [pairwise],
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
    for (const block of blocks) reduceShape(call, data, block.bytes, inPlace);
    const shape = reduceShape(call, data, 0, inPlace);
    return { ...shape, blocks, detail: `${shape.detail!} ${textOf(blocks)}` };
  },
  choose: () => 'pairwise',
});
