import { gathervLinear } from '../schedules/gatherv.js';
import { NO_SIZES, operation } from './operation.js';
import { listedRows, listedShape } from './rooted.js';

export const igatherv = operation({
  name: 'igatherv',
  mpi: 'MPI_Igatherv',
  summary: 'Collects a block of every rank at the root, each of its own size and to its own place.',
  parameters: ['send', 'recv', 'counts', 'displs', 'root'],
  algorithms: listedRows(gathervLinear),
  shape: (call) => listedShape(call, 'recv', 'send'),
  sizes: NO_SIZES,
  choose: () => 'linear',
});
