/** When rank 0 does small barriers, reductions and scans for all (schedules/central.ts): ranks share processors. */
import { Operator } from '../schedules/encoding.js';
import type { Shape } from '../schedules/shape.js';

/** Up to so many ranks, other algorithms have hardly more messages, or less to wait for. */
const FEW_RANKS = 4;
/** Up to so many ranks it has been measured. Rank 0's work, and its temporary memory, grow with them. */
const MAX_RANKS = 32;
/** Of a contribution. Above, rank 0 has too much to do. */
const MAX_BYTES = 1024;
/** Of a contribution to a reduce-scatter, which is one to the results of all ranks. */
export const SCATTER_MAX_BYTES = 16 * 1024;
/** When that is, for the tables. */
export const WHEN_CENTRAL = `${FEW_RANKS + 1} to ${MAX_RANKS} ranks of a job that shares memory, with at least four ranks a processor`;
export const WHEN_CENTRAL_SMALL = `${WHEN_CENTRAL}: up to ${MAX_BYTES / 1024} KiB, and no operators of createOp`;

/**
 * Whether rank 0 (the root, of a reduction to one) should do it all. Measured with 8, 16 and 32 ranks on two
 * processors, as processes and as threads, it takes 0.5 to 1.1 of the time of the algorithms that are chosen otherwise.
 * Functions of the program's own run where each algorithm wants them, not all of them on one event loop.
 * @param bytes of a contribution
 */
export function isCentral(
  { size, crowded, operator }: Shape & { readonly operator?: Operator | undefined },
  bytes: number,
  limit = MAX_BYTES,
): boolean {
  return crowded === true && size > FEW_RANKS && size <= MAX_RANKS && bytes <= limit && operator !== Operator.USER;
}
