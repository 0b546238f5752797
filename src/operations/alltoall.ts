import { alltoallBruck, alltoallLinear, alltoallPairwise } from '../schedules/alltoall.js';
import { alltoallHierarchical } from '../schedules/hierarchical.js';
import { alltoallCentral } from '../schedules/central.js';
import { spansHosts } from '../schedules/hosts.js';
import { isCentralExchange, WHEN_CENTRAL_EXCHANGE } from './central.js';
import { HAN } from './hierarchy.js';
import { operation } from './operation.js';

/**
 * Bruck sends log₂(ranks) messages instead of ranks − 1, but every block travels log₂(ranks) / 2 times. From this many
 * ranks on, and up to this many bytes per block, messages are what costs.
 */
const BRUCK_MIN_RANKS = 128;
const BRUCK_MAX_BYTES = 256;

/**
 * From this many bytes per block and this many ranks on, one partner at a time: it bounds what is in flight to one
 * block per rank. Below, waiting for a partner costs more than transfers that compete: on two cores, 8 and 16 ranks
 * take 1.5 to 2 times as long as with everything at once.
 */
const PAIRWISE_MIN_BYTES = 256 * 1024;
const PAIRWISE_MIN_RANKS = 32;

/**
 * Up to this many bytes a block, messages between hosts are what costs. Measured with two hosts of four ranks and a
 * link of 1 Gbit/s: up to here 0.4 to 0.9 of the linear time, 1.2 of it with 32 KiB.
 */
const HIERARCHICAL_MAX_BYTES = 4096;

export const ialltoall = operation({
  name: 'ialltoall',
  mpi: 'MPI_Ialltoall',
  summary: 'Exchanges equal blocks between all ranks: block j of rank i becomes block i of rank j.',
  parameters: ['send', 'recv'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: '(p − 1) n',
      when: 'wherever none of the others is taken',
      source: 'LibNBC',
      build: alltoallLinear,
    },
    {
      name: 'central',
      steps: '2',
      bytes: '2 (p − 1) p n, at rank 0, which orders all blocks',
      when: WHEN_CENTRAL_EXCHANGE,
      source: 'this project',
      build: alltoallCentral,
    },
    {
      name: 'pairwise',
      steps: 'p − 1',
      bytes: '(p − 1) n, one block at a time',
      when: `${PAIRWISE_MIN_RANKS} ranks and more, blocks of 256 KiB and more`,
      source: 'LibNBC',
      build: alltoallPairwise,
    },
    {
      name: 'bruck',
      steps: '⌈log₂ p⌉',
      bytes: '⌈log₂ p⌉ p n / 2',
      when: `${BRUCK_MIN_RANKS} ranks and more, blocks of up to ${BRUCK_MAX_BYTES} bytes`,
      source: 'Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Systems", 1997',
      build: alltoallBruck,
    },
    {
      name: 'hierarchical',
      steps: '3',
      bytes: 'between hosts, (p − l) l n for l ranks of a host, in one message for each other host',
      when: 'several hosts, one of them with several ranks, blocks of up to 4 KiB',
      source: HAN,
      build: alltoallHierarchical,
    },
  ],
  shape(call) {
    const recv = call.view('recv');
    if (call.sendInPlace) return call.shape(call.block('recv', recv), true);
    const send = call.view('send');
    if (send.bytes !== recv.bytes) {
      call.refuse('recv', `must be as large as send: ${send.bytes} bytes, not ${recv.bytes}`);
    }
    call.block('recv', recv);
    const block = call.block('send', send);
    call.checkPair(send, recv);
    return call.shape(block);
  },
  choose(shape) {
    const { bytes, size } = shape;
    if (spansHosts(shape) && bytes <= HIERARCHICAL_MAX_BYTES) return 'hierarchical';
    if (isCentralExchange(shape)) return 'central';
    if (size >= BRUCK_MIN_RANKS && bytes <= BRUCK_MAX_BYTES) return 'bruck';
    if (size >= PAIRWISE_MIN_RANKS && bytes >= PAIRWISE_MIN_BYTES) return 'pairwise';
    return 'linear';
  },
});
