import FFT from 'fft.js';
import type { Floats } from './precision.js';

/**
 * Lines transformed together: 8 complex columns of a row are two cache lines, so that a strided read wastes nothing.
 */
const BATCH = 8;
/** Doubles between lines beyond their length: without them, lines of 2ⁿ numbers compete for the same cache sets. */
const SKEW = 8;

/**
 * 1D transforms of one length for data that lies across them: a batch of neighbouring columns is gathered into
 * contiguous lines, transformed, and scattered. Lines shorter than the transform are padded with zeros on the way in;
 * on the way out, whatever no row asks for is dropped. So padding is never stored, and never sent.
 *
 * Complex numbers are pairs (real, imaginary), of doubles where they are transformed. Forward transforms are not
 * scaled, inverse ones by 1/length.
 */
export class Lines {
  readonly batch = BATCH;
  readonly #fft: FFT;
  readonly #input: Float64Array[];
  readonly #output: Float64Array[];

  constructor(
    readonly length: number,
    readonly direction: 'forward' | 'inverse',
  ) {
    this.#fft = new FFT(length);
    const stride = 2 * length + SKEW;
    const [input, output] = [new Float64Array(BATCH * stride), new Float64Array(BATCH * stride)];
    const lines = (memory: Float64Array) =>
      Array.from({ length: BATCH }, (_, line) => memory.subarray(line * stride, line * stride + 2 * length));
    this.#input = lines(input);
    this.#output = lines(output);
  }

  /** Transforms a contiguous complex line into another place. */
  transform(target: Float64Array, source: Float64Array): void {
    if (this.direction === 'forward') this.#fft.transform(target, source);
    else this.#fft.inverseTransform(target, source);
  }

  /**
   * Reads columns `column` to `column + count - 1` of `source`: row i begins at `rows[i]`. Always with the same number
   * of rows, because what is beyond them must still be zero.
   */
  gather(source: Floats, rows: number[], column: number, count: number): void {
    const input = this.#input;
    for (let row = 0; row < rows.length; row++) {
      let at = rows[row] + 2 * column;
      for (let line = 0; line < count; line++) {
        input[line][2 * row] = source[at++];
        input[line][2 * row + 1] = source[at++];
      }
    }
  }

  /** Transforms what was gathered, for `scatter`. */
  transformColumns(count: number): void {
    for (let line = 0; line < count; line++) this.transform(this.#output[line], this.#input[line]);
  }

  /** Transforms what was gathered into contiguous lines, one after the other from `target[offset]` on. */
  transformColumnsInto(target: Float64Array, offset: number, count: number): void {
    for (let line = 0; line < count; line++) this.transform(this.#slice(target, offset, line), this.#input[line]);
  }

  /** Transforms contiguous lines, one after the other from `source[offset]` on, for `scatter`. */
  transformColumnsFrom(source: Float64Array, offset: number, count: number): void {
    for (let line = 0; line < count; line++) this.transform(this.#output[line], this.#slice(source, offset, line));
  }

  /** Writes columns `column` to `column + count - 1` of `target`, as many rows as `rows` has. */
  scatter(target: Floats, rows: number[], column: number, count: number): void {
    const output = this.#output;
    for (let row = 0; row < rows.length; row++) {
      let at = rows[row] + 2 * column;
      for (let line = 0; line < count; line++) {
        target[at++] = output[line][2 * row];
        target[at++] = output[line][2 * row + 1];
      }
    }
  }

  #slice(memory: Float64Array, offset: number, line: number): Float64Array {
    const begin = offset + line * 2 * this.length;
    return memory.subarray(begin, begin + 2 * this.length);
  }
}
