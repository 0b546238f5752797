import { exscanCentral, scanCentral } from '../schedules/central.js';
import type { ReduceShape } from '../schedules/combine.js';
import { exscanDoubling, exscanLinear, scanDoubling, scanLinear } from '../schedules/reduce.js';
import { isCentral, isCrowded, WHEN_CENTRAL, WHEN_CROWDED } from './central.js';
import { operation } from './operation.js';
import { reduceToAll } from './reducing.js';

/**
 * Up to this many ranks one after another; a rank combines once then, and not log₂ p times. So do ranks that share
 * processors what is too large for rank 0: measured with 8, 16 and 32 ranks on two processors, a barrier and a scan of
 * 256 KiB take 0.6 to 0.9 of the time of recursive doubling, and of 1 MiB 0.4 to 0.6.
 */
const LINEAR_MAX_RANKS = 4;

const costs = {
  linear: {
    name: 'linear',
    steps: 'p − 1',
    bytes: 'n',
    when: `up to ${LINEAR_MAX_RANKS} ranks; ${WHEN_CROWDED}: what is larger than for central`,
    source: 'LibNBC',
  },
  central: {
    name: 'central',
    steps: '2',
    bytes: '2 (p − 1) n, at rank 0, which combines all',
    when: WHEN_CENTRAL,
    source: 'this project',
  },
  doubling: {
    name: 'recursive-doubling',
    steps: '⌈log₂ p⌉',
    bytes: '⌈log₂ p⌉ n',
    when: 'otherwise',
    source: 'Hillis, Steele, "Data parallel algorithms", 1986',
  },
} as const;

function choose(shape: ReduceShape): 'linear' | 'central' | 'recursive-doubling' {
  if (isCentral(shape, shape.bytes)) return 'central';
  return shape.size <= LINEAR_MAX_RANKS || isCrowded(shape) ? 'linear' : 'recursive-doubling';
}

export const iscan = operation({
  name: 'iscan',
  mpi: 'MPI_Iscan',
  summary: 'Combines, for each rank, the contributions of the ranks from 0 to itself.',
  parameters: ['send', 'recv', 'op'],
  algorithms: [
    { ...costs.linear, build: scanLinear },
    { ...costs.central, build: scanCentral },
    { ...costs.doubling, build: scanDoubling },
  ],
  shape: reduceToAll,
  choose,
});

export const iexscan = operation({
  name: 'iexscan',
  mpi: 'MPI_Iexscan',
  summary: 'Combines, for each rank, the contributions of the ranks before it; rank 0 receives nothing.',
  parameters: ['send', 'recv', 'op'],
  algorithms: [
    { ...costs.linear, build: exscanLinear },
    { ...costs.central, build: exscanCentral },
    { ...costs.doubling, build: exscanDoubling },
  ],
  shape: reduceToAll,
  choose,
});
