import { scattervLinear } from '../schedules/scatter.js';
import { NO_SIZES, operation } from './operation.js';
import { listedRows, listedShape } from './rooted.js';

export const iscatterv = operation({
  name: 'iscatterv',
  mpi: 'MPI_Iscatterv',
  summary: "Gives every rank a block of the root's buffer, each of its own size and from its own place.",
  parameters: ['send', 'counts', 'displs', 'recv', 'root'],
  algorithms: listedRows(scattervLinear),
  shape: (call) => listedShape(call, 'send', 'recv'),
  sizes: NO_SIZES,
  choose: () => 'linear',
});
