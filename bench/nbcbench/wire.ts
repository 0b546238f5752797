/** The words, beside those of operations.ts, of the commands that nbcbench gives to ranks (see duties.ts). */

export const MODES = ['blocking', 'overlap', 'compute'] as const;
/** blocking: start and wait. overlap: start, computation with tests, wait. compute: the computation alone. */
export type Mode = (typeof MODES)[number];

export const STARTS = ['instant', 'gate', 'barrier', 'osu'] as const;
/**
 * How ranks start a repetition together: at an agreed instant, released by a pipe, out of a barrier of messages, or, as
 * in the OSU benchmarks, out of their library's barrier; with that one each rank's own time counts.
 */
export type Start = (typeof STARTS)[number];

export const FORMS = ['nonblocking', 'persistent'] as const;
/** How an operation is started: by its method, or as a persistent request, which is made beforehand. */
export type Form = (typeof FORMS)[number];

export const WRITES = ['fresh', 'same'] as const;
/** Whether all ranks write their buffers before each repetition, or only before the first of a batch. */
export type Writes = (typeof WRITES)[number];

export const BUFFER_KINDS = ['plain', 'alloc'] as const;
export type BufferKind = (typeof BUFFER_KINDS)[number];
