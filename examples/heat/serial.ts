import { relax } from './jacobi.js';
import { Plate } from './plate.js';

/** The whole plate on one rank, after so many steps; and the largest change in the last one. */
export function solveSerially(height: number, width: number, steps: number): { plate: Plate; residual: number } {
  let [now, next] = [new Plate(height, width, true), new Plate(height, width, true)];
  let residual = Infinity;
  for (let step = 0; step < steps; step++) {
    residual = relax(now, next, [1, height], [1, width]);
    [now, next] = [next, now];
  }
  return { plate: now, residual };
}
