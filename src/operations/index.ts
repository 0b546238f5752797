/** The table of operations: one line each. What goes over all operations goes over this. */
import { ialltoall } from './alltoall.js';
import { ibcast } from './bcast.js';
import { igather } from './gather.js';
import { igatherv } from './gatherv.js';

export const OPERATIONS = [ibcast, igather, igatherv, ialltoall] as const;

type Entry = (typeof OPERATIONS)[number];
/** The names of all collectives: of the methods that start them. */
export type OperationName = Entry['name'];
/** What `options.algorithm` of a collective may be: `AlgorithmOf<'ibcast'>`. */
export type AlgorithmOf<Name extends OperationName> = Extract<Entry, { name: Name }>['algorithms'][number]['name'];
