import { scatterBinomial, scatterLinear } from '../schedules/scatter.js';
import { operation } from './operation.js';
import { chooseEqual, equalRows, equalShape } from './rooted.js';

export const iscatter = operation({
  name: 'iscatter',
  mpi: 'MPI_Iscatter',
  summary: "Gives every rank a block of the root's buffer, in the order of the ranks.",
  parameters: ['send', 'recv', 'root'],
  algorithms: equalRows(scatterLinear, scatterBinomial, 'MPICH (binomial)'),
  shape: (call) => equalShape(call, 'send', 'recv'),
  choose: chooseEqual,
});
