import { allgathervBruck, allgathervLinear, allgathervRing } from '../schedules/allgather.js';
import { blocksOf, checkOwnBlock, textOf } from './counts.js';
import { operation } from './operation.js';

/** As in an allgather: with more ranks, few steps or one neighbour at a time. */
const LINEAR_MAX_RANKS = 8;
/** As in an allgather, of the average block. */
const BRUCK_MAX_BYTES = 8 * 1024;

export const iallgatherv = operation({
  name: 'iallgatherv',
  mpi: 'MPI_Iallgatherv',
  summary: 'Collects a block of every rank at every rank, each of its own size and to its own place.',
  parameters: ['send', 'recv', 'counts', 'displs'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: 'all blocks but its own',
      when: `up to ${LINEAR_MAX_RANKS} ranks`,
      source: 'LibNBC',
      build: allgathervLinear,
    },
    {
      name: 'ring',
      steps: 'p − 1',
      bytes: 'all blocks but its own, one at a time, to one neighbour',
      when: `more than ${LINEAR_MAX_RANKS} ranks, blocks above 8 KiB on average`,
      source: 'Thakur, Rabenseifner, Gropp, 2005',
      build: allgathervRing,
    },
    {
      name: 'bruck',
      steps: '⌈log₂ p⌉',
      bytes: 'all blocks but its own, and a copy of all blocks',
      when: `more than ${LINEAR_MAX_RANKS} ranks, blocks of up to 8 KiB on average`,
      source: 'Bruck et al., 1997',
      build: allgathervBruck,
    },
  ],
  shape(call) {
    const [counts, displs] = call.lists;
    const recv = call.view('recv');
    const blocks = blocksOf(call, ['counts', 'displs'], counts, displs, 'recv', recv);
    if (!call.sendInPlace) checkOwnBlock(call, 'send', blocks[call.rank], recv);
    return { ...call.shape(0, call.sendInPlace), blocks, detail: textOf(blocks) };
  },
  sizes: ({ blocks }) => blocks.map(({ bytes }) => bytes),
  choose({ size, blocks }) {
    if (size <= LINEAR_MAX_RANKS) return 'linear';
    const bytes = blocks.reduce((sum, block) => sum + block.bytes, 0);
    return bytes <= BRUCK_MAX_BYTES * size ? 'bruck' : 'ring';
  },
});
