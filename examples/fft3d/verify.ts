import type { Precision } from './precision.js';

/**
 * Largest relative error that counts as correct. Rounding leaves errors near 1e-15, and 6e-8 where numbers are sent in
 * single precision; one misplaced or missing number in a million leaves one far above these.
 */
export const TOLERANCE: Record<Precision, number> = { double: 1e-10, single: 1e-6 };

/** Compares numbers with their expected values, in any number of portions. */
export class MaxError {
  #error = 0;
  #scale = 0;

  /** Takes in one number. Not-a-number, on either side, is an error that stays. */
  add(actual: number, expected: number): void {
    const error = Math.abs(actual - expected);
    if (error > this.#error || Number.isNaN(error)) this.#error = error;
    const magnitude = Math.abs(expected);
    if (magnitude > this.#scale) this.#scale = magnitude;
  }

  /** Takes in two arrays of equal length. */
  addAll(actual: Float64Array, expected: Float64Array): this {
    if (actual.length !== expected.length) {
      throw new RangeError(`${actual.length} numbers compared with ${expected.length}`);
    }
    for (let index = 0; index < actual.length; index++) this.add(actual[index], expected[index]);
    return this;
  }

  /**
   * The largest difference, as a fraction of the largest expected magnitude (as it is, if all expected numbers are 0).
   */
  get relative(): number {
    return this.#scale > 0 ? this.#error / this.#scale : this.#error;
  }
}

/** A finding: what was compared, how far it was off, and whether that is correct. */
export interface Check {
  name: string;
  error: number;
  ok: boolean;
}

export function check(name: string, error: number, precision: Precision = 'double'): Check {
  return { name, error, ok: error <= TOLERANCE[precision] };
}

/**
 * Parseval's theorem: the energy of a volume is that of its spectrum over the number of grid points.
 *
 * @returns the relative difference of the two
 */
export function parsevalError(spaceEnergy: number, spectrumEnergy: number, points: number): number {
  const difference = Math.abs(spectrumEnergy / points - spaceEnergy);
  return spaceEnergy > 0 ? difference / spaceEnergy : difference;
}

/**
 * Sum of the squared magnitudes: of real numbers, or of complex ones given as pairs. Summed in parts, so that rounding
 * stays small.
 */
export function energy(values: Float64Array): number {
  const part = 4096;
  let sum = 0;
  for (let begin = 0; begin < values.length; begin += part) {
    let partial = 0;
    for (const value of values.subarray(begin, begin + part)) partial += value * value;
    sum += partial;
  }
  return sum;
}
