/** Context numbers: what tells the messages of one communicator from those of another. */
import { ExhaustedError } from './errors.js';

/**
 * A communicator and those that belong to it take numbers, each from such an offset on: one for collectives, then one
 * for messages, then one for persistent collectives.
 */
export const OFFSET = {
  /** What dup and split agree on. */
  control: 4,
  /** `values`. */
  values: 8,
  /** What agree and shrink agree on. */
  survivors: 12,
} as const;

/** Numbers that a communicator takes. */
const PER_COMMUNICATOR = 16;

/** Gives out numbers that no other rank gives out: the upper half is the rank. The world itself is (0, 0). */
export class ContextNumbers {
  private last = 0;

  constructor(private readonly rank: number) {}

  /** The first number of a new communicator, in two halves of 32 bits: see groups.ts. @throws {ExhaustedError} */
  next(): { high: number; low: number } {
    this.last += PER_COMMUNICATOR;
    if (this.last >= 2 ** 32) throw new ExhaustedError('ERR_NBC_TOO_MANY_COMMUNICATORS', 'no context id is left');
    return { high: this.rank + 1, low: this.last };
  }
}
