import { ALLTOALLV_SLOT_BYTES, alltoallvBruck, alltoallvLinear, alltoallvPairwise } from '../schedules/alltoallv.js';
import { alltoallvHierarchical, HIERARCHICAL_SLOT_BYTES } from '../schedules/hierarchical.js';
import { blocksOf, textOf } from './counts.js';
import { HAN } from './hierarchy.js';
import { NO_SIZES, operation } from './operation.js';

/** From this many ranks on, one partner at a time: it bounds what is in flight. The sizes differ from rank to rank. */
const PAIRWISE_MIN_RANKS = 32;

export const ialltoallv = operation({
  name: 'ialltoallv',
  mpi: 'MPI_Ialltoallv',
  summary: 'Exchanges blocks between all ranks, each of its own size, from its own place and to its own place.',
  parameters: ['send', 'sendCounts', 'sendDispls', 'recv', 'recvCounts', 'recvDispls'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: 'all blocks but its own',
      when: `fewer than ${PAIRWISE_MIN_RANKS} ranks`,
      source: 'LibNBC',
      build: alltoallvLinear,
    },
    {
      name: 'pairwise',
      steps: 'p − 1',
      bytes: 'all blocks but its own, one at a time',
      when: `${PAIRWISE_MIN_RANKS} ranks and more`,
      source: 'Open MPI (pairwise)',
      build: alltoallvPairwise,
    },
    {
      name: 'bruck',
      steps: '⌈log₂ p⌉',
      bytes: `⌈log₂ p⌉ p ${ALLTOALLV_SLOT_BYTES} / 2; what blocks have beyond ${ALLTOALLV_SLOT_BYTES} bytes goes straight`,
      when: 'only by name: no rank knows whether all blocks are small',
      source:
        'Bruck et al., 1997; Fan et al., "Optimizing the Bruck Algorithm for Non-uniform All-to-all", 2022 (padded)',
      build: alltoallvBruck,
    },
    {
      name: 'hierarchical',
      steps: '3',
      bytes: `as in ialltoall with blocks of ${HIERARCHICAL_SLOT_BYTES} bytes; what blocks have beyond that goes straight`,
      when: 'only by name: no rank knows whether all blocks are small',
      source: HAN,
      build: alltoallvHierarchical,
    },
  ],
  shape(call) {
    const [sendCounts, sendDispls, recvCounts, recvDispls] = call.lists;
    const recv = call.view('recv');
    const send = call.sendInPlace ? null : call.view('send');
    const recvBlocks = blocksOf(call, ['recvCounts', 'recvDispls'], recvCounts, recvDispls, 'recv', recv);
    if (send === null) {
      return { ...call.shape(0, true), sendBlocks: recvBlocks, recvBlocks, detail: textOf(recvBlocks) };
    }
    const sendBlocks = blocksOf(call, ['sendCounts', 'sendDispls'], sendCounts, sendDispls, 'send', send);
    const [out, into] = [sendBlocks[call.rank].bytes, recvBlocks[call.rank].bytes];
    if (out !== into) {
      call.refuse('recvCounts', `the rank's own block has ${out} bytes in send, and ${into} in recv`);
    }
    call.checkPair(send, recv);
    return { ...call.shape(0), sendBlocks, recvBlocks, detail: `${textOf(sendBlocks)} / ${textOf(recvBlocks)}` };
  },
  sizes: NO_SIZES,
  choose: ({ size }) => (size < PAIRWISE_MIN_RANKS ? 'linear' : 'pairwise'),
});
