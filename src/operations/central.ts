/** What ranks that share processors do otherwise: rank 0 does small operations for all (schedules/central.ts). */
import { Operator } from '../schedules/encoding.js';
import type { Shape } from '../schedules/shape.js';

/** Up to so many ranks, other algorithms have hardly more messages, or less to wait for. */
const FEW_RANKS = 4;
/** Up to so many ranks it has been measured. Rank 0's work, and its temporary memory, grow with them. */
const MAX_RANKS = 32;
/** Of a contribution. Above, rank 0 has too much to do. */
const MAX_BYTES = 128 * 1024;
/** Of a contribution to a reduce-scatter, which is one to the results of all ranks. */
export const SCATTER_MAX_BYTES = 256 * 1024;
/** Of a block that every rank gets. */
export const GATHER_MAX_BYTES = 64 * 1024;
/** Of a block for each rank, which rank 0 copies three times. */
const EXCHANGE_MAX_BYTES = 256;
/** From so many ranks on, the messages that it saves make good for more of that. */
const EXCHANGE_MANY_RANKS = 16;
const EXCHANGE_MANY_MAX_BYTES = 1024;
/** When that is, for the tables, which say at their top what it is to share processors. */
export const WHEN_CROWDED = `${FEW_RANKS + 1} to ${MAX_RANKS} ranks that share processors`;
export const WHEN_CENTRAL = `${WHEN_CROWDED}: up to ${MAX_BYTES / 1024} KiB`;
export const WHEN_CENTRAL_EXCHANGE = `${WHEN_CROWDED}: blocks of up to ${EXCHANGE_MAX_BYTES} bytes, from ${EXCHANGE_MANY_RANKS} ranks on up to ${EXCHANGE_MANY_MAX_BYTES}`;

type Call = Shape & { readonly operator?: Operator | undefined };

/**
 * Whether ranks wait for processors more than for data, so that few steps count, and few waits. Functions of the
 * program's own run where each algorithm wants them, not all of them on one event loop.
 */
export function isCrowded({ size, crowded, operator }: Call): boolean {
  return crowded === true && size > FEW_RANKS && size <= MAX_RANKS && operator !== Operator.USER;
}

/**
 * Whether rank 0 (the root, of a reduction to one) should do it all. Measured with 8, 16 and 32 ranks on two
 * processors, as processes and as threads, it takes 0.3 to 1.3 of the time of the algorithms that are chosen otherwise.
 * @param bytes of a contribution
 */
export function isCentral(shape: Call, bytes: number, limit = MAX_BYTES): boolean {
  return isCrowded(shape) && bytes <= limit;
}

/** The same for an exchange of blocks between all ranks. @param shape with the bytes of a block */
export function isCentralExchange(shape: Shape): boolean {
  const limit = shape.size < EXCHANGE_MANY_RANKS ? EXCHANGE_MAX_BYTES : EXCHANGE_MANY_MAX_BYTES;
  return isCentral(shape, shape.bytes, limit);
}
