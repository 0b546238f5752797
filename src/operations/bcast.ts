import { bcastBinomial, bcastChain, bcastLinear, bcastScatterAllgather } from '../schedules/bcast.js';
import { bcastCirculant } from '../schedules/circulant.js';
import { bcastHierarchical } from '../schedules/hierarchical.js';
import { spansHosts } from '../schedules/hosts.js';
import { isCrowded, WHEN_CROWDED } from './central.js';
import { HAN } from './hierarchy.js';
import { operation } from './operation.js';

/** Up to this many ranks the root sends small messages itself: a message costs it 0.1 µs, a hop of a tree over 1 µs. */
const LINEAR_MAX_RANKS = 64;

/**
 * From this size on (bytes) the time goes into copying, which the ranks of a tree do for each other: measured with 3 to
 * 8 ranks on two cores, the tree takes 0.6 to 0.9 of the linear time. Below, it takes longer.
 */
const BINOMIAL_MIN_BYTES = 32 * 1024;

/**
 * From this size (bytes) and this many ranks on, the chain: every rank copies once, and all at the same time, where in
 * a tree some copy log₂(ranks) times. With fewer ranks, or less to fill the pipeline with, its many steps cost more.
 */
const CHAIN_MIN_BYTES = 1024 * 1024;
const CHAIN_MIN_RANKS = 8;

/**
 * Up to so many ranks that share processors, linear at every size: measured with 8 and 16 ranks on two processors, it
 * takes 0.4 to 0.7 of the chain's time and 0.7 to 1.2 of the tree's. With 32 the tree is best, and takes 0.5 to 0.7 of
 * the chain's.
 */
const CROWDED_LINEAR_MAX_RANKS = 16;

export const ibcast = operation({
  name: 'ibcast',
  mpi: 'MPI_Ibcast',
  summary: "Copies the root's buffer to every rank.",
  parameters: ['buffer', 'root'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: '(p − 1) n, at the root',
      when: `small messages on up to ${LINEAR_MAX_RANKS} ranks; every message between two; up to ${CROWDED_LINEAR_MAX_RANKS} ranks that share processors`,
      source: 'LibNBC',
      build: bcastLinear,
    },
    {
      name: 'binomial',
      steps: '⌈log₂ p⌉',
      bytes: '⌈log₂ p⌉ n, at the root',
      when: `more than ${LINEAR_MAX_RANKS} ranks, or 32 KiB and more; not those of linear`,
      source: 'LibNBC',
      build: bcastBinomial,
    },
    {
      name: 'chain',
      steps: 'p − 2 + segments',
      bytes: '2 n, at inner ranks',
      when: `${CHAIN_MIN_RANKS} ranks and more, 1 MiB and more; not with ${WHEN_CROWDED}`,
      source: 'Pješivac-Grbović et al., "Performance Analysis of MPI Collective Operations", 2005 (pipeline)',
      build: bcastChain,
    },
    {
      name: 'scatter-allgather',
      steps: '⌈log₂ p⌉ + p − 1',
      bytes: '2 n',
      when: 'only by name',
      source: 'van de Geijn; Thakur, Rabenseifner, Gropp, 2005',
      build: bcastScatterAllgather,
    },
    {
      name: 'circulant',
      steps: '⌈log₂ p⌉ − 1 + blocks',
      bytes: 'n and ⌈log₂ p⌉ − 1 blocks, at the root',
      when: 'only by name',
      source: 'Träff, "Optimal Broadcast Schedules in Logarithmic Time", 2024',
      build: bcastCirculant,
    },
    {
      name: 'hierarchical',
      steps: '⌈log₂ h⌉ − 1 + blocks between h hosts, then ⌈log₂⌉ of the ranks of a host',
      bytes: 'n between hosts',
      when: 'several hosts, one of them with several ranks',
      source: HAN,
      build: bcastHierarchical,
    },
  ],
  shape(call) {
    const { bytes } = call.view('recv', 'buffer');
    call.checkRoot();
    return call.shape(bytes);
  },
  choose(shape) {
    const { bytes, size } = shape;
    if (spansHosts(shape)) return 'hierarchical';
    if (size <= 2) return 'linear';
    const crowded = isCrowded(shape);
    if (crowded && size <= CROWDED_LINEAR_MAX_RANKS) return 'linear';
    if (!crowded && size >= CHAIN_MIN_RANKS && bytes >= CHAIN_MIN_BYTES) return 'chain';
    return size > LINEAR_MAX_RANKS || bytes >= BINOMIAL_MIN_BYTES ? 'binomial' : 'linear';
  },
});
