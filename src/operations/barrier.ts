import { barrierDissemination, barrierLinear } from '../schedules/barrier.js';
import { operation } from './operation.js';

export const ibarrier = operation({
  name: 'ibarrier',
  mpi: 'MPI_Ibarrier',
  summary: 'Ends on no rank before every rank has started it.',
  parameters: [],
  algorithms: [
    {
      name: 'dissemination',
      steps: '⌈log₂ p⌉',
      bytes: '⌈log₂ p⌉',
      when: 'always',
      source: 'Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988',
      build: barrierDissemination,
    },
    {
      name: 'linear',
      steps: '2',
      bytes: 'p − 1, at rank 0',
      when: 'only by name',
      source: 'Open MPI (basic linear)',
      build: barrierLinear,
    },
  ],
  shape: (call) => call.shape(0),
  choose: () => 'dissemination',
});
