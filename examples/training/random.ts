/** Numbers that look random and are the same on every rank: Marsaglia's xorshift with 32 bits (2003). */
export class Random {
  #state: number;

  constructor(seed: number) {
    // Multiplied, so that small seeds differ in many bits; never 0, from where there is no way out.
    this.#state = Math.imul(seed, 0x9e3779b1) || 1;
    for (let i = 0; i < 8; i++) this.next();
  }

  /** From 0 to 1, without 1. */
  next(): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) / 2 ** 32;
  }

  /** The numbers 0 to count - 1, in any order. */
  order(count: number): Uint32Array {
    const order = Uint32Array.from({ length: count }, (_, index) => index);
    for (let last = count - 1; last > 0; last--) {
      const other = Math.floor(this.next() * (last + 1));
      [order[last], order[other]] = [order[other], order[last]];
    }
    return order;
  }
}
