import type { Plate } from './plate.js';

/**
 * One step of Jacobi's method for the cells of rows `top` to `bottom` and columns `left` to `right`: each becomes the
 * mean of its four neighbours.
 *
 * @returns the largest change of a cell
 */
export function relax(
  from: Plate,
  to: Plate,
  [top, bottom]: readonly [number, number],
  [left, right]: readonly [number, number],
): number {
  const { cells, stride } = from;
  let residual = 0;
  for (let y = top; y <= bottom; y++) {
    for (let at = y * stride + left; at <= y * stride + right; at++) {
      const value = 0.25 * (cells[at - stride] + cells[at + stride] + cells[at - 1] + cells[at + 1]);
      const change = Math.abs(value - cells[at]);
      if (change > residual) residual = change;
      to.cells[at] = value;
    }
  }
  return residual;
}

/** The cells that need no ghost. */
export function relaxInner(from: Plate, to: Plate): number {
  return relax(from, to, [2, from.height - 1], [2, from.width - 1]);
}

/** The others: first and last row, and what is left of first and last column. */
export function relaxEdges(from: Plate, to: Plate): number {
  const { height, width } = from;
  const across = [1, width] as const;
  const along = [2, height - 1] as const;
  return Math.max(
    relax(from, to, [1, 1], across),
    height > 1 ? relax(from, to, [height, height], across) : 0,
    relax(from, to, along, [1, 1]),
    width > 1 ? relax(from, to, along, [width, width]) : 0,
  );
}
