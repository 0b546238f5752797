/** The table of operations: one line each. What goes over all operations goes over this. */
import { iallgather } from './allgather.js';
import { iallgatherv } from './allgatherv.js';
import { ialltoall } from './alltoall.js';
import { ialltoallv } from './alltoallv.js';
import { ialltoallw } from './alltoallw.js';
import { ibarrier } from './barrier.js';
import { ibcast } from './bcast.js';
import { igather } from './gather.js';
import { igatherv } from './gatherv.js';
import { iallreduce } from './allreduce.js';
import { ireduce } from './reduce.js';
import { ireduceScatter, ireduceScatterBlock } from './reduce-scatter.js';
import { iexscan, iscan } from './scan.js';
import { iscatter } from './scatter.js';
import { iscatterv } from './scatterv.js';

export const OPERATIONS = [
  ibarrier,
  ibcast,
  iscatter,
  iscatterv,
  igather,
  igatherv,
  iallgather,
  iallgatherv,
  ialltoall,
  ialltoallv,
  ialltoallw,
  ireduce,
  iallreduce,
  ireduceScatterBlock,
  ireduceScatter,
  iscan,
  iexscan,
] as const;

type Entry = (typeof OPERATIONS)[number];
/** The names of all collectives: of the methods that start them. */
export type OperationName = Entry['name'];
/** What `options.algorithm` of a collective may be: `AlgorithmOf<'ibcast'>`. */
export type AlgorithmOf<Name extends OperationName> = Extract<Entry, { name: Name }>['algorithms'][number]['name'];
