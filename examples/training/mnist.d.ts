/** The part of the package `mnist` that is used here; it comes without types. */
declare module 'mnist' {
  interface Digit {
    /** How many pictures of this digit there are. */
    length: number;
    /** Their pixels, 28 x 28 for each picture, from 0 to 1. */
    raw: readonly number[];
  }
  /** The digits 0 to 9. */
  const digits: readonly Digit[];
  export default digits;
}
