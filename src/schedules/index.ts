/**
 * Schedules, for those who want to read the library's own or write theirs. Importing this loads no native code.
 *
 * ```ts
 * import { alltoallBruck } from 'node-nbc/schedules';
 * const shape = { rank: 0, size: 4, root: 0, bytes: 8, inPlace: false };
 * console.log(alltoallBruck(shape).describe()); // rank 0 of 4, blocks of 8 bytes
 * ```
 *
 * @module node-nbc/schedules
 */
export * from './encoding.js';
export * from './schedule.js';
export { ScheduleError } from '../errors.js';
export type { Block, Shape } from './shape.js';
export { equalBlocks } from './shape.js';
export * from './allgather.js';
export * from './alltoall.js';
export * from './alltoallv.js';
export * from './barrier.js';
export * from './bcast.js';
export * from './box.js';
export * from './central.js';
export * from './circulant.js';
export { type DrawingOptions, svg } from './drawing.js';
export type { ReduceShape } from './combine.js';
export * from './check.js';
export type { AlltoallvShape } from './exchange.js';
export * from './gather.js';
export * from './gatherv.js';
export * from './halving.js';
export * from './hierarchical.js';
export * from './reduce.js';
export * from './scatter.js';
export { withLayouts } from './layout.js';
export * from './parts.js';
export { NEIGHBOR_OPERATIONS } from '../operations/neighbor.js';
export { OPERATIONS } from '../operations/index.js';
export type { AlgorithmOf, OperationName } from '../operations/index.js';
export type { Algorithm, Operation } from '../operations/operation.js';
