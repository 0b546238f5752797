import { gatherBinomial, gatherLinear } from '../schedules/gather.js';
import { operation } from './operation.js';
import { chooseEqual, equalRows, equalShape } from './rooted.js';

export const igather = operation({
  name: 'igather',
  mpi: 'MPI_Igather',
  summary: 'Collects a block of every rank at the root, in the order of the ranks.',
  parameters: ['send', 'recv', 'root'],
  algorithms: equalRows(gatherLinear, gatherBinomial, 'LibNBC'),
  shape: (call) => equalShape(call, 'recv', 'send'),
  choose: chooseEqual,
});
