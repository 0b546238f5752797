import { allreduceDoubling, allreduceRabenseifner, allreduceRing } from '../schedules/reduce.js';
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
      when: 'up to 16 KiB',
      source: THAKUR,
      build: allreduceDoubling,
    },
    {
      name: 'ring',
      steps: '2 (p − 1)',
      bytes: '2 n',
      when: 'only by name',
      source: 'Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009',
      build: allreduceRing,
    },
    {
      name: 'rabenseifner',
      steps: '2 log₂ p, and two more where p is no power of two',
      bytes: '2 n',
      when: 'above 16 KiB',
      source: THAKUR,
      build: allreduceRabenseifner,
    },
  ],
  shape: reduceToAll,
  choose: ({ bytes }) => (bytes <= DOUBLING_MAX_BYTES ? 'recursive-doubling' : 'rabenseifner'),
});
