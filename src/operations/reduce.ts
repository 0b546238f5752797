import { reduceRabenseifner } from '../schedules/halving.js';
import { reduceBinomial, reduceLinear } from '../schedules/reduce.js';
import { reduceHierarchical } from '../schedules/hierarchical.js';
import { spansHosts } from '../schedules/hosts.js';
import { isCentral, WHEN_CENTRAL } from './central.js';
import { HAN } from './hierarchy.js';
import { operation } from './operation.js';
import { checkEqual, reduceShape, THAKUR } from './reducing.js';
import { viewAway } from './rooted.js';

/** Up to this many ranks the root combines everything itself. */
const LINEAR_MAX_RANKS = 4;

export const ireduce = operation({
  name: 'ireduce',
  mpi: 'MPI_Ireduce',
  summary: 'Combines a contribution of every rank, element by element; the root gets the result.',
  parameters: ['send', 'recv', 'op', 'root'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: '(p − 1) n, at the root, which combines all',
      when: `up to ${LINEAR_MAX_RANKS} ranks, operators that do not commute; ${WHEN_CENTRAL}`,
      source: 'LibNBC',
      build: reduceLinear,
    },
    {
      name: 'binomial',
      steps: '⌈log₂ p⌉',
      bytes: '⌈log₂ p⌉ n, at the root',
      when: `otherwise more than ${LINEAR_MAX_RANKS} ranks`,
      source: THAKUR,
      reorders: true,
      build: reduceBinomial,
    },
    {
      name: 'rabenseifner',
      steps: '2 log₂ p, and up to two more where p is no power of two',
      bytes: '2 n, and n more where p is no power of two',
      when: 'only by name, and between four and more hosts (hierarchical) above 16 KiB',
      source: THAKUR,
      reorders: true,
      build: reduceRabenseifner,
    },
    {
      name: 'hierarchical',
      steps: 'those of binomial inside a host, then of binomial or rabenseifner between hosts',
      bytes: 'about 2 n between hosts',
      when: 'several hosts, one of them with several ranks',
      source: HAN,
      reorders: true,
      build: reduceHierarchical,
    },
  ],
  shape(call) {
    call.checkRoot();
    if (!call.isRoot) {
      const send = viewAway(call, 'send');
      return reduceShape(call, send, send.bytes, false);
    }
    const recv = call.view('recv');
    if (call.sendInPlace) return reduceShape(call, recv, recv.bytes, true);
    const send = call.view('send');
    checkEqual(call, send, recv);
    return reduceShape(call, send, send.bytes, false);
  },
  choose(shape) {
    const { size, bytes, commutes } = shape;
    if (spansHosts(shape) && commutes) return 'hierarchical';
    return size <= LINEAR_MAX_RANKS || isCentral(shape, bytes) || !commutes ? 'linear' : 'binomial';
  },
});
