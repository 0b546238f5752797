/** Context numbers: what tells the messages of one communicator from those of another. */
import { ExhaustedError } from './errors.js';

/** Numbers that a communicator takes: collectives and point-to-point, for users and for its own purposes. */
const PER_COMMUNICATOR = 4;

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
