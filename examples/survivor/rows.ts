/**
 * The system of equations: a plate of `side` by `side` points, each joined to its four neighbours (the five-point
 * Laplace operator), and the edge at 0. Ranks have consecutive rows of points.
 */

/** The first row of a rank, of `side` rows in all. The one behind the last rank is `side`. */
export const firstRow = (rank: number, size: number, side: number): number => Math.floor((rank * side) / size);

/** Heat that comes in at a point: the right-hand side. */
export const source = (row: number, column: number): number => Math.sin(row * 0.3) + Math.cos(column * 0.2) + 1;

/**
 * result = A · vector, for some rows. `vector` has one row more on each side; `result` has not.
 */
export function multiply(vector: Float64Array, result: Float64Array, side: number): void {
  for (let at = 0; at < result.length; at++) {
    const column = at % side;
    const here = at + side;
    const left = column > 0 ? vector[here - 1] : 0;
    const right = column < side - 1 ? vector[here + 1] : 0;
    result[at] = 4 * vector[here] - left - right - vector[here - side] - vector[here + side];
  }
}

export function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** y += factor · x */
export function add(y: Float64Array, factor: number, x: Float64Array): void {
  for (let i = 0; i < y.length; i++) y[i] += factor * x[i];
}

/** How far `solution`, of all rows, is from solving the system: the largest residual. Serial. */
export function largestResidual(solution: Float64Array, side: number): number {
  const vector = new Float64Array((side + 2) * side);
  vector.set(solution, side);
  const product = new Float64Array(side * side);
  multiply(vector, product, side);
  return product.reduce(
    (most, value, at) => Math.max(most, Math.abs(source(Math.floor(at / side), at % side) - value)),
    0,
  );
}
