import { scatterBinomial, scatterLinear } from '../schedules/scatter.js';
import { operation } from './operation.js';

/** From this many ranks on, and up to this many bytes a block, a tree takes work off the root, as in a gather. */
const BINOMIAL_MIN_RANKS = 64;
const BINOMIAL_MAX_BYTES = 1024;

export const iscatter = operation({
  name: 'iscatter',
  mpi: 'MPI_Iscatter',
  summary: "Gives every rank a block of the root's buffer, in the order of the ranks.",
  parameters: ['send', 'recv', 'root'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: '(p − 1) n, at the root',
      when: `fewer than ${BINOMIAL_MIN_RANKS} ranks, or blocks above 1 KiB`,
      source: 'LibNBC',
      build: scatterLinear,
    },
    {
      name: 'binomial',
      steps: '⌈log₂ p⌉',
      bytes: '(p − 1) n, at the root, in ⌈log₂ p⌉ messages',
      when: `${BINOMIAL_MIN_RANKS} ranks and more, blocks of up to 1 KiB`,
      source: 'MPICH (binomial)',
      build: scatterBinomial,
    },
  ],
  shape(call) {
    call.checkRoot();
    if (!call.isRoot) {
      if (call.recvInPlace) call.refuse('recv', 'IN_PLACE is for the root only');
      return call.shape(call.view('recv').bytes);
    }
    const send = call.view('send');
    if (call.recvInPlace) return call.shape(call.block('send', send), true);
    const recv = call.view('recv');
    const { size } = call;
    if (send.bytes !== recv.bytes * size) {
      const message = `must hold ${size} blocks of ${recv.bytes} bytes (as recv has), which ${send.bytes} bytes are not`;
      call.refuse('send', message);
    }
    call.checkWhole('send', send, recv.bytes);
    call.checkPair(send, recv);
    return call.shape(recv.bytes);
  },
  choose({ bytes, size }) {
    return size >= BINOMIAL_MIN_RANKS && bytes <= BINOMIAL_MAX_BYTES ? 'binomial' : 'linear';
  },
});
