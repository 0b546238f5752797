/**
 * A collective that MPI does not have: minimum, maximum and sum at once. MPI has one operator for a reduction, so these
 * are three of them, or an operator of the user's. Here each message carries all three.
 */
import { ElementType, Operator, Role, Schedule } from 'node-nbc/schedules';

/** Parts of the result, in this order, each as long as what a rank contributes. */
export const PARTS = ['minimum', 'maximum', 'sum'] as const;
const OPERATORS = [Operator.MIN, Operator.MAX, Operator.SUM] as const;

/**
 * What `rank` of `size` ranks does, for `count` float64 values of each. The send buffer holds the values, the receive
 * buffer the three parts. A binomial tree combines them at rank 0, and its mirror image spreads them: 2 ⌈log₂ size⌉
 * messages on the longest path.
 */
export function statistics(rank: number, size: number, count: number): Schedule {
  const part = count * Float64Array.BYTES_PER_ELEMENT;
  const all = PARTS.length * part;
  const schedule = new Schedule();
  for (const index of PARTS.keys()) schedule.copy(Role.SEND, 0, Role.RECEIVE, index * part, part);
  schedule.round();

  // Rank r takes in ranks r + 1, r + 2, r + 4, … and then sends to the rank that lacks its lowest bit.
  const children: number[] = [];
  let bit = 1;
  for (; bit < size && (rank & bit) === 0; bit <<= 1) {
    const child = rank + bit;
    if (child >= size) continue;
    children.push(child);
    schedule.recv(child, Role.TEMP, 0, all).round();
    for (const [index, operator] of OPERATORS.entries()) {
      schedule.reduce(operator, ElementType.FLOAT64, Role.TEMP, index * part, Role.RECEIVE, index * part, part);
    }
    schedule.round();
  }
  if (rank > 0) {
    const parent = rank - bit;
    schedule.send(parent, Role.RECEIVE, 0, all).round();
    schedule.recv(parent, Role.RECEIVE, 0, all).round();
  }
  for (const child of children.reverse()) schedule.send(child, Role.RECEIVE, 0, all);
  return schedule.round();
}
