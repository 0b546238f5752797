import { reduceBinomial, reduceLinear } from '../schedules/reduce.js';
import { operation } from './operation.js';
import { checkEqual, reduceShape, THAKUR } from './reducing.js';

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
      when: `up to ${LINEAR_MAX_RANKS} ranks`,
      source: 'LibNBC',
      build: reduceLinear,
    },
    {
      name: 'binomial',
      steps: '⌈log₂ p⌉',
      bytes: '⌈log₂ p⌉ n, at the root',
      when: `more than ${LINEAR_MAX_RANKS} ranks`,
      source: THAKUR,
      build: reduceBinomial,
    },
  ],
  shape(call) {
    call.checkRoot();
    if (!call.isRoot) {
      if (call.sendInPlace) call.refuse('send', 'IN_PLACE is for the root only');
      const send = call.view('send');
      return reduceShape(call, send, send.bytes, false);
    }
    const recv = call.view('recv');
    if (call.sendInPlace) return reduceShape(call, recv, recv.bytes, true);
    const send = call.view('send');
    checkEqual(call, send, recv);
    return reduceShape(call, send, send.bytes, false);
  },
  choose: ({ size }) => (size <= LINEAR_MAX_RANKS ? 'linear' : 'binomial'),
});
