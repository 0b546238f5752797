/** The words of the commands that nbcbench gives to the ranks it measures (see rank.ts). */

export const OPS = ['ibcast', 'igather', 'ialltoall'] as const;
export type Op = (typeof OPS)[number];

export const MODES = ['blocking', 'overlap', 'compute'] as const;
/** blocking: start and wait. overlap: start, computation with tests, wait. compute: the computation alone. */
export type Mode = (typeof MODES)[number];

export const STARTS = ['instant', 'gate', 'barrier'] as const;
/** How ranks start a repetition together: at an agreed instant, released by a pipe, or out of their own barrier. */
export type Start = (typeof STARTS)[number];

export const BUFFER_KINDS = ['plain', 'alloc'] as const;
export type BufferKind = (typeof BUFFER_KINDS)[number];
