/** The part of the package `fourier-transform` that is used here; it comes without types. */
declare module 'fourier-transform' {
  /** Complex transform in place, not scaled. Both arrays have the same length, a power of two from 2 on. */
  export function cfft(re: Float64Array, im: Float64Array): void;
  /** Its inverse, scaled by 1/length. */
  export function cifft(re: Float64Array, im: Float64Array): void;
}
