/**
 * Schedules, for those who want to read the library's own or write theirs. Importing this loads no native code.
 *
 * ```ts
 * import { ialltoallBruck } from 'node-nbc/schedules';
 * console.log(ialltoallBruck(0, 4, 8).describe()); // rank 0 of 4, blocks of 8 bytes
 * ```
 */
export { Schedule, Role, ElementKind, SCHEDULE_MAGIC } from './schedule.js';
export { decodeSchedule, describeSchedule, describeElement } from './schedule.js';
export type { DecodedSchedule, ScheduleElement, SendElement, RecvElement, CopyElement } from './schedule.js';
export { ScheduleError } from '../errors.js';
export * from './ibcast.js';
export * from './igather.js';
export * from './ialltoall.js';
export * from './igatherv.js';
