import { exscanDoubling, exscanLinear, scanDoubling, scanLinear } from '../schedules/reduce.js';
import { operation } from './operation.js';
import { reduceToAll } from './reducing.js';

/** Up to this many ranks one after another; a rank combines once then, and not log₂ p times. */
const LINEAR_MAX_RANKS = 4;

const costs = {
  linear: { name: 'linear', steps: 'p − 1', bytes: 'n', when: `up to ${LINEAR_MAX_RANKS} ranks`, source: 'LibNBC' },
  doubling: {
    name: 'recursive-doubling',
    steps: '⌈log₂ p⌉',
    bytes: '⌈log₂ p⌉ n',
    when: `more than ${LINEAR_MAX_RANKS} ranks`,
    source: 'Hillis, Steele, "Data parallel algorithms", 1986',
  },
} as const;

export const iscan = operation({
  name: 'iscan',
  mpi: 'MPI_Iscan',
  summary: 'Combines, for each rank, the contributions of the ranks from 0 to itself.',
  parameters: ['send', 'recv', 'op'],
  algorithms: [
    { ...costs.linear, build: scanLinear },
    { ...costs.doubling, build: scanDoubling },
  ],
  shape: reduceToAll,
  choose: ({ size }) => (size <= LINEAR_MAX_RANKS ? 'linear' : 'recursive-doubling'),
});

export const iexscan = operation({
  name: 'iexscan',
  mpi: 'MPI_Iexscan',
  summary: 'Combines, for each rank, the contributions of the ranks before it; rank 0 receives nothing.',
  parameters: ['send', 'recv', 'op'],
  algorithms: [
    { ...costs.linear, build: exscanLinear },
    { ...costs.doubling, build: exscanDoubling },
  ],
  shape: reduceToAll,
  choose: ({ size }) => (size <= LINEAR_MAX_RANKS ? 'linear' : 'recursive-doubling'),
});
