import { gatherBinomial, gatherLinear } from '../schedules/gather.js';
import { operation } from './operation.js';

/**
 * From this many ranks on, a tree takes work off the root: receiving a small message costs the root about 0.1 µs, a hop
 * of the tree at least 1 µs, and more where processes share cores.
 */
const BINOMIAL_MIN_RANKS = 64;

/** Largest block, in bytes, for the tree: in it, a block is copied once per level instead of once. */
const BINOMIAL_MAX_BYTES = 1024;

export const igather = operation({
  name: 'igather',
  mpi: 'MPI_Igather',
  summary: 'Collects a block of every rank at the root, in the order of the ranks.',
  parameters: ['send', 'recv', 'root'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: '(p − 1) n, at the root',
      when: `fewer than ${BINOMIAL_MIN_RANKS} ranks, or blocks above 1 KiB`,
      source: 'LibNBC',
      build: gatherLinear,
    },
    {
      name: 'binomial',
      steps: '⌈log₂ p⌉',
      bytes: '(p − 1) n, at the root, in ⌈log₂ p⌉ messages',
      when: `${BINOMIAL_MIN_RANKS} ranks and more, blocks of up to 1 KiB`,
      source: 'LibNBC',
      build: gatherBinomial,
    },
  ],
  shape(call) {
    call.checkRoot();
    if (call.sendInPlace) {
      if (!call.isRoot) call.refuse('send', 'IN_PLACE is for the root only');
      return call.shape(call.block('recv', call.view('recv')), true);
    }
    if (!call.isRoot) return call.shape(call.view('send').bytes);
    const recv = call.view('recv');
    const send = call.view('send');
    const { size } = call;
    if (recv.bytes !== send.bytes * size) {
      const message = `must hold ${size} blocks of ${send.bytes} bytes (as send has), which ${recv.bytes} bytes are not`;
      call.refuse('recv', message);
    }
    call.checkWhole('recv', recv, send.bytes);
    call.checkPair(send, recv);
    return call.shape(send.bytes);
  },
  choose({ bytes, size }) {
    return size >= BINOMIAL_MIN_RANKS && bytes <= BINOMIAL_MAX_BYTES ? 'binomial' : 'linear';
  },
});
