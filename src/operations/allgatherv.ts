import { allgathervBruck, allgathervLinear, allgathervRing } from '../schedules/allgather.js';
import { allgathervCentral } from '../schedules/central.js';
import { chooseAllgather, WHEN } from './allgather.js';
import { blocksOf, checkOwnBlock, textOf } from './counts.js';
import { operation } from './operation.js';

const average = (when: string): string => when.replaceAll(/blocks (?:of up to|above) \d+ \w+/g, '$& on average');

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
      when: average(WHEN.linear),
      source: 'LibNBC',
      build: allgathervLinear,
    },
    {
      name: 'central',
      steps: '2',
      bytes: 'all blocks but its own, and all blocks p − 1 times, at rank 0',
      when: average(WHEN.central),
      source: 'Open MPI, coll/base (gatherv and bcast)',
      build: allgathervCentral,
    },
    {
      name: 'ring',
      steps: 'p − 1',
      bytes: 'all blocks but its own, one at a time, to one neighbour',
      when: average(WHEN.ring),
      source: 'Thakur, Rabenseifner, Gropp, 2005',
      build: allgathervRing,
    },
    {
      name: 'bruck',
      steps: '⌈log₂ p⌉',
      bytes: 'all blocks but its own, and a copy of all blocks',
      when: average(WHEN.bruck),
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
  choose(shape) {
    const bytes = shape.blocks.reduce((sum, block) => sum + block.bytes, 0);
    return chooseAllgather(shape, bytes / shape.size);
  },
});
