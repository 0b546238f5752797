import { scattervLinear } from '../schedules/scatter.js';
import { blocksOf, textOf } from './counts.js';
import { operation } from './operation.js';

export const iscatterv = operation({
  name: 'iscatterv',
  mpi: 'MPI_Iscatterv',
  summary: "Gives every rank a block of the root's buffer, each of its own size and from its own place.",
  parameters: ['send', 'counts', 'displs', 'recv', 'root'],
  algorithms: [
    {
      name: 'linear',
      steps: '1',
      bytes: 'all blocks but its own, at the root',
      when: 'always: only the root knows all sizes',
      source: 'LibNBC',
      build: scattervLinear,
    },
  ],
  shape(call) {
    call.checkRoot();
    if (!call.isRoot) {
      if (call.recvInPlace) call.refuse('recv', 'IN_PLACE is for the root only');
      return { ...call.shape(call.view('recv').bytes), blocks: [] };
    }
    const [counts, displs] = call.lists;
    const send = call.view('send');
    const blocks = blocksOf(call, ['counts', 'displs'], counts, displs, 'send', send);
    if (!call.recvInPlace) {
      const recv = call.view('recv');
      const { bytes } = blocks[call.root];
      if (recv.bytes !== bytes) {
        call.refuse('recv', `must have the bytes that counts gives its rank: ${bytes}, not ${recv.bytes}`);
      }
      call.checkPair(send, recv);
    }
    return { ...call.shape(0, call.recvInPlace), blocks, detail: textOf(blocks) };
  },
  choose: () => 'linear',
});
