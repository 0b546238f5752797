import FFT from 'fft.js';

/**
 * 1D transforms between real lines and the half of their spectrum that says it all: frequencies 0 to length/2. The
 * other half is its mirror image, conjugated, so it is neither stored nor sent. Two lines a and b take one complex
 * transform, that of a + ib.
 *
 * Complex numbers are pairs (real, imaginary) of doubles. Forward transforms are not scaled, inverse ones by 1/length.
 */
export class RealLines {
  /** Complex numbers in half a spectrum. */
  readonly columns: number;
  readonly #fft: FFT;
  /** What is transformed; zeros beyond `stored`. */
  readonly #padded: Float64Array;
  readonly #spectrum: Float64Array;
  /** What was transformed back. */
  readonly #lines: Float64Array;

  /**
   * @param length points of the transform: a power of two, at least 2
   * @param stored numbers of a line that are stored; the rest are zeros, or, on the way back, dropped
   */
  constructor(
    readonly length: number,
    readonly stored: number,
  ) {
    this.columns = length / 2 + 1;
    this.#fft = new FFT(length);
    this.#padded = new Float64Array(2 * length);
    this.#spectrum = new Float64Array(2 * length);
    this.#lines = new Float64Array(2 * length);
  }

  /**
   * Transforms the lines at `a` and `b` of `source` into half spectra at `toA` and `toB` of `target`. `b` may be `a`.
   */
  forward(source: Float64Array, a: number, b: number, target: Float64Array, toA: number, toB: number): void {
    const [padded, spectrum] = [this.#padded, this.#spectrum];
    for (let index = 0; index < this.stored; index++) {
      padded[2 * index] = source[a + index];
      padded[2 * index + 1] = source[b + index];
    }
    this.#fft.transform(spectrum, padded);
    for (let k = 0; k < this.columns; k++) {
      const mirror = 2 * ((this.length - k) % this.length);
      const [re, im] = [spectrum[2 * k], spectrum[2 * k + 1]];
      const [mirrorRe, mirrorIm] = [spectrum[mirror], spectrum[mirror + 1]];
      target[toA + 2 * k] = (re + mirrorRe) / 2;
      target[toA + 2 * k + 1] = (im - mirrorIm) / 2;
      target[toB + 2 * k] = (im + mirrorIm) / 2;
      target[toB + 2 * k + 1] = (mirrorRe - re) / 2;
    }
  }

  /**
   * Transforms half spectra at `a` and `b` of `source` back into lines at `toA` and `toB` of `target`. `b` may be `a`.
   */
  inverse(source: Float64Array, a: number, b: number, target: Float64Array, toA: number, toB: number): void {
    const [lines, spectrum] = [this.#lines, this.#spectrum];
    for (let k = 0; k < this.columns; k++) {
      const mirror = 2 * ((this.length - k) % this.length);
      const [re, im] = [source[a + 2 * k], source[a + 2 * k + 1]];
      const [otherRe, otherIm] = [source[b + 2 * k], source[b + 2 * k + 1]];
      spectrum[mirror] = re + otherIm;
      spectrum[mirror + 1] = otherRe - im;
      // Last, because frequencies 0 and length/2 are their own mirror images.
      spectrum[2 * k] = re - otherIm;
      spectrum[2 * k + 1] = im + otherRe;
    }
    this.#fft.inverseTransform(lines, spectrum);
    for (let index = 0; index < this.stored; index++) {
      target[toA + index] = lines[2 * index];
      target[toB + index] = lines[2 * index + 1];
    }
  }
}
