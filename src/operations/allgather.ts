import {
  allgatherBruck,
  allgatherDoubling,
  allgatherLinear,
  allgatherNeighbor,
  allgatherRing,
} from '../schedules/allgather.js';
import { allgatherHierarchical } from '../schedules/hierarchical.js';
import { allgatherCentral } from '../schedules/central.js';
import { spansHosts } from '../schedules/hosts.js';
import { GATHER_MAX_BYTES, isCrowded, WHEN_CROWDED } from './central.js';
import { HAN } from './hierarchy.js';
import type { Shape } from '../schedules/shape.js';
import { operation } from './operation.js';

/** Up to this many ranks every rank sends to every rank: the steps of the others cost more than their messages save. */
const LINEAR_MAX_RANKS = 8;
/**
 * And up to this many, with blocks of so many bytes. 16 ranks on two processors took 0.75 to 0.9 of Bruck's time, from
 * 4 KiB on no less; 32 took 0.9 to 1.05.
 */
const SMALL_MAX_RANKS = 16;
const SMALL_MAX_BYTES = 1024;
/** Up to this many bytes a block, few steps count; above, that every rank sends each byte once. */
const BRUCK_MAX_BYTES = 8 * 1024;

/** Where hosts do not count. @param bytes of a block, or of all blocks on average */
export function chooseAllgather(shape: Shape, bytes: number): 'central' | 'linear' | 'bruck' | 'ring' {
  const { size } = shape;
  if (isCrowded(shape)) return bytes <= GATHER_MAX_BYTES ? 'central' : 'linear';
  if (size <= LINEAR_MAX_RANKS || (size <= SMALL_MAX_RANKS && bytes <= SMALL_MAX_BYTES)) return 'linear';
  return bytes <= BRUCK_MAX_BYTES ? 'bruck' : 'ring';
}

/** When that is, for the table. */
export const WHEN = {
  central: `${WHEN_CROWDED}: blocks of up to ${GATHER_MAX_BYTES / 1024} KiB`,
  linear: `up to ${LINEAR_MAX_RANKS} ranks; up to ${SMALL_MAX_RANKS}, blocks of up to 1 KiB; ${WHEN_CROWDED}: blocks above ${GATHER_MAX_BYTES / 1024} KiB`,
  bruck: 'otherwise blocks of up to 8 KiB',
  ring: 'otherwise blocks above 8 KiB',
};

export const iallgather = operation({
  name: 'iallgather',
  mpi: 'MPI_Iallgather',
  summary: 'Collects a block of every rank at every rank, in the order of the ranks.',
  parameters: ['send', 'recv'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: '(p − 1) n',
      when: WHEN.linear,
      source: 'LibNBC',
      build: allgatherLinear,
    },
    {
      name: 'central',
      steps: '2',
      bytes: '(p − 1) (p + 1) n, at rank 0',
      when: WHEN.central,
      source: 'Open MPI, coll/base (gather and bcast)',
      build: allgatherCentral,
    },
    {
      name: 'ring',
      steps: 'p − 1',
      bytes: '(p − 1) n, one block at a time, to one neighbour',
      when: WHEN.ring,
      source: 'Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", 2005',
      build: allgatherRing,
    },
    {
      name: 'recursive-doubling',
      steps: 'log₂ p; where p is no power of two, bruck is run',
      bytes: '(p − 1) n',
      when: 'only by name',
      source: 'Thakur, Rabenseifner, Gropp, 2005',
      build: allgatherDoubling,
    },
    {
      name: 'bruck',
      steps: '⌈log₂ p⌉',
      bytes: '(p − 1) n, and a copy of all blocks',
      when: WHEN.bruck,
      source: 'Bruck et al., 1997',
      build: allgatherBruck,
    },
    {
      name: 'neighbor-exchange',
      steps: 'p / 2; where p is odd, ring is run',
      bytes: '(p − 1) n, to two neighbours',
      when: 'only by name',
      source: 'Chen et al., "Performance Evaluation of Allgather Algorithms on Terascale Linux Cluster", 2005',
      build: allgatherNeighbor,
    },
    {
      name: 'hierarchical',
      steps: '1 inside a host, 1 between hosts (more than 8: one for each other host), ⌈log₂⌉ of the ranks of a host',
      bytes: 'between hosts, the blocks of a host to each other one',
      when: 'several hosts, one of them with several ranks',
      source: HAN,
      build: allgatherHierarchical,
    },
  ],
  shape(call) {
    const recv = call.view('recv');
    const block = call.block('recv', recv);
    if (call.sendInPlace) return call.shape(block, true);
    const send = call.view('send');
    if (send.bytes !== block) {
      const message = `must hold ${call.size} blocks of ${send.bytes} bytes (as send has), which ${recv.bytes} bytes are not`;
      call.refuse('recv', message);
    }
    call.checkPair(send, recv);
    return call.shape(block);
  },
  choose(shape) {
    return spansHosts(shape) ? 'hierarchical' : chooseAllgather(shape, shape.bytes);
  },
});
