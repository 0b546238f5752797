/** Grids that tests arrange ranks in. */
import { dimsCreate } from 'node-nbc';

/** Of one, two and three dimensions, with one of length 1, and one in which the last rank has no place. */
export function gridShapes(ranks: number): number[][] {
  return [[ranks], dimsCreate(ranks, 2), dimsCreate(ranks, 3), [1, ranks], [Math.max(1, ranks - 1)]];
}
