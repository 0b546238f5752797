/** What the schedule of a rank depends on. */

/** All that the plan of a call depends on, and never the buffers themselves. */
export interface Shape {
  /** The rank whose schedule it is, and the number of ranks. */
  readonly rank: number;
  readonly size: number;
  /** 0 where the operation has no root. */
  readonly root: number;
  /** Of the message, or of one block where all blocks are equal. */
  readonly bytes: number;
  readonly inPlace: boolean;
  /** The host of each rank, as a number that ranks of one host have in common; the same on all ranks. Default: one. */
  readonly hosts?: readonly number[] | undefined;
  /**
   * Whether the job's ranks share memory, with at least four of them a processor; the same on all ranks. Default: no.
   */
  readonly crowded?: boolean | undefined;
  /** What else tells two shapes apart, as text. */
  readonly detail?: string;
}

/** A part of a buffer, in bytes. */
export interface Block {
  readonly offset: number;
  readonly bytes: number;
}

/** The blocks of all ranks, equal and one behind the other. */
export function equalBlocks({ size, bytes }: Shape): Block[] {
  return Array.from({ length: size }, (_, rank) => ({ offset: rank * bytes, bytes }));
}

/** The end of the furthest block. */
export function endOf(blocks: readonly Block[]): number {
  return blocks.reduce((end, { offset, bytes }) => Math.max(end, offset + bytes), 0);
}
