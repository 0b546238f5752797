import { gathervLinear } from '../schedules/gatherv.js';
import { blocksOf, textOf } from './counts.js';
import { operation } from './operation.js';

export const igatherv = operation({
  name: 'igatherv',
  mpi: 'MPI_Igatherv',
  summary: 'Collects a block of every rank at the root, each of its own size and to its own place.',
  parameters: ['send', 'recv', 'counts', 'displs', 'root'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: 'all blocks but its own, at the root',
      when: 'always: only the root knows all sizes',
      source: 'LibNBC',
      build: gathervLinear,
    },
  ],
  shape(call) {
    call.checkRoot();
    const [counts, displs] = call.lists;
    if (!call.isRoot) {
      if (call.sendInPlace) call.refuse('send', 'IN_PLACE is for the root only');
      return { ...call.shape(call.view('send').bytes), blocks: [] };
    }
    const recv = call.view('recv');
    const blocks = blocksOf(call, ['counts', 'displs'], counts, displs, 'recv', recv);
    if (!call.sendInPlace) {
      const send = call.view('send');
      const { bytes } = blocks[call.root];
      if (send.bytes !== bytes) {
        call.refuse('send', `must have the bytes that counts gives its rank: ${bytes}, not ${send.bytes}`);
      }
      call.checkPair(send, recv);
    }
    return { ...call.shape(0, call.sendInPlace), blocks, detail: textOf(blocks) };
  },
  choose: () => 'linear',
});
