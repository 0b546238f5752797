import { type Box, bytesOfBox } from '../schedules/box.js';
import { type Edge, exchangeParts } from '../schedules/parts.js';
import type { Schedule } from '../schedules/schedule.js';
import type { Shape } from '../schedules/shape.js';
import type { Role } from '../schedules/encoding.js';
import { NO_SIZES, operation } from './operation.js';
import { checkDisjoint, type Placement } from './parts.js';

/** Where the part for each rank is, and where the part of each rank goes. */
export interface AlltoallwShape extends Shape {
  readonly from: Role;
  readonly sends: readonly Box[];
  readonly recvs: readonly Box[];
}

/** Everything at once. Each rank begins with its next neighbour, so that not all of them write to the same one. */
function alltoallwLinear({ rank, size, inPlace, from, sends, recvs }: AlltoallwShape): Schedule {
  const edges = (boxes: readonly Box[], direction: 1 | -1): Edge[] => {
    const list: Edge[] = [];
    for (let distance = 0; distance < size; distance++) {
      const peer = (rank + direction * distance + size) % size;
      list.push({ peer, box: boxes[peer] });
    }
    return list;
  };
  return exchangeParts(rank, edges(sends, 1), edges(recvs, -1), from, inPlace);
}

export const ialltoallw = operation({
  name: 'ialltoallw',
  mpi: 'MPI_Ialltoallw',
  summary: 'Exchanges parts between all ranks, each with a buffer or a layout of its own.',
  parameters: ['sends', 'recvs'],
  algorithms: [
    {
      name: 'linear',
      steps: '1, and packing before and unpacking after it',
      bytes: 'all parts but its own',
      when: 'always',
      source: 'LibNBC',
      build: alltoallwLinear,
    },
  ],
  shape(call): AlltoallwShape {
    const placement = call.send as Placement;
    const { inPlace, from, sends, recvs, detail } = placement;
    const [out, into] = [bytesOfBox(sends[call.rank]), bytesOfBox(recvs[call.rank])];
    if (out !== into) call.refuse('recvs', `the rank's own part has ${out} bytes in sends, and ${into} in recvs`);
    return { ...call.shape(0, inPlace), from, sends, recvs, detail };
  },
  check(call) {
    checkDisjoint(call.send as Placement, call.context);
  },
  sizes: NO_SIZES,
  choose: () => 'linear',
});
