import { allreduceRabenseifner } from '../schedules/halving.js';
import { allreduceLinear } from '../schedules/central.js';
import { allreduceDoubling, allreduceRing } from '../schedules/reduce.js';
import { allreduceHierarchical } from '../schedules/hierarchical.js';
import { spansHosts } from '../schedules/hosts.js';
import { isCentral, WHEN_CENTRAL } from './central.js';
import { HAN } from './hierarchy.js';
import { operation } from './operation.js';
import { reduceToAll, THAKUR } from './reducing.js';

/** Up to this many bytes few steps count; above, that every rank combines and sends each byte few times. */
const DOUBLING_MAX_BYTES = 16 * 1024;

export const iallreduce = operation({
  name: 'iallreduce',
  mpi: 'MPI_Iallreduce',
  summary: 'Combines a contribution of every rank, element by element; every rank gets the result.',
  parameters: ['send', 'recv', 'op'],
  algorithms: [
    {
      name: 'recursive-doubling',
      steps: '⌈log₂ p⌉, and two more where p is no power of two',
      bytes: '⌈log₂ p⌉ n',
      when: 'otherwise up to 16 KiB, and operators that do not commute',
      source: THAKUR,
      build: allreduceDoubling,
    },
    {
      name: 'linear',
      steps: '2',
      bytes: '2 (p − 1) n, at rank 0, which combines all',
      when: WHEN_CENTRAL,
      source: 'Open MPI (basic linear)',
      build: allreduceLinear,
    },
    {
      name: 'ring',
      steps: '2 (p − 1)',
      bytes: '2 n',
      when: 'only by name',
      source: 'Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009',
      reorders: true,
      build: allreduceRing,
    },
    {
      name: 'rabenseifner',
      steps: '2 log₂ p, and two more where p is no power of two',
      bytes: '2 n',
      when: 'above 16 KiB',
      source: THAKUR,
      reorders: true,
      build: allreduceRabenseifner,
    },
    {
      name: 'hierarchical',
      steps: 'of a reduction and a broadcast inside a host, and those of an allreduce between h hosts',
      bytes: 'about 2 n between hosts',
      when: 'several hosts, one of them with several ranks',
      source: HAN,
      reorders: true,
      build: allreduceHierarchical,
    },
  ],
  shape: reduceToAll,
  choose(shape) {
    const { bytes, commutes } = shape;
    if (spansHosts(shape) && commutes) return 'hierarchical';
    if (isCentral(shape, bytes)) return 'linear';
    return bytes <= DOUBLING_MAX_BYTES || !commutes ? 'recursive-doubling' : 'rabenseifner';
  },
});
