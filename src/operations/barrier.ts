import { barrierDissemination, barrierLinear } from '../schedules/barrier.js';
import { barrierHierarchical } from '../schedules/hierarchical.js';
import { spansHosts } from '../schedules/hosts.js';
import { isCentral, WHEN_CROWDED } from './central.js';
import { HAN } from './hierarchy.js';
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
      when: 'otherwise on one host, or with one rank on each',
      source: 'Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988',
      build: barrierDissemination,
    },
    {
      name: 'linear',
      steps: '2',
      bytes: 'p − 1, at rank 0',
      when: WHEN_CROWDED,
      source: 'Open MPI (basic linear)',
      build: barrierLinear,
    },
    {
      name: 'hierarchical',
      steps: '2 inside a host, and ⌈log₂ h⌉ between h hosts',
      bytes: '⌈log₂ h⌉ between hosts',
      when: 'several hosts, one of them with several ranks',
      source: HAN,
      build: barrierHierarchical,
    },
  ],
  shape: (call) => call.shape(0),
  choose(shape) {
    if (spansHosts(shape)) return 'hierarchical';
    return isCentral(shape, 0) ? 'linear' : 'dissemination';
  },
});
