/** Damage to bytes and texts, as a seed says, and the fuzzers that do it. */

/** A fuzzer of what TypeScript reads from outside. */
export interface Fuzzer {
  /** The input of this seed. */
  make(seed: number): Uint8Array;
  /** Gives an input, of a seed or of the corpus, to what reads it. Fails if that does not end as it must. */
  run(input: Uint8Array): Promise<void>;
}

export type Random = () => number;

export const below = (random: Random, limit: number): number => Math.floor(random() * limit);
export const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)];

const NUMBERS = [0, 1, -1, 2, 3, 7, 127, 128, 255, 256, 32_767, -32_768, 65_535, 2 ** 31 - 1, -(2 ** 31)];
const FLOATS = [0, -0, 1, -1, 0.5, NaN, Infinity, -Infinity, 1e-45, 352, 353.5, 3e38, -352, 2 ** 24];

/** Some bytes changed, numbers put in their places, parts cut, doubled or left out. The original stays as it is. */
export function damaged(original: Uint8Array, random: Random): Uint8Array {
  let bytes = original.slice();
  for (let left = 1 + below(random, 4); left > 0; left--) {
    const at = below(random, bytes.length);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const little = random() < 0.5;
    switch (below(random, 7)) {
      case 0:
        if (bytes.length > 0) bytes[at] = below(random, 256);
        break;
      case 1:
        if (bytes.length > 0) bytes[at] ^= 1 << below(random, 8);
        break;
      case 2:
        if (at + 2 <= bytes.length) view.setInt16(at & ~1, pick(random, NUMBERS), little);
        break;
      case 3:
        if (at + 4 <= bytes.length) view.setInt32(at & ~3, pick(random, NUMBERS), little);
        break;
      case 4:
        if (at + 4 <= bytes.length) view.setFloat32(at & ~3, pick(random, FLOATS), little);
        break;
      case 5:
        bytes = bytes.slice(0, at);
        break;
      default: {
        const part = bytes.slice(at, at + 1 + below(random, 40));
        const [before, after] = [bytes.slice(0, at), bytes.slice(random() < 0.5 ? at : at + part.length)];
        bytes = Uint8Array.from([...before, ...part, ...after]);
      }
    }
  }
  return bytes;
}

const VALUES: readonly unknown[] = [null, true, -1, 0, 0.5, 2 ** 53, 1e308, '', 'x', '__proto__', [], [[]], {}];

/** A value that JSON can hold, instead of this one or within it. */
export function damagedValue(value: unknown, random: Random): unknown {
  const keys = typeof value === 'object' && value !== null ? Object.keys(value) : [];
  if (keys.length === 0 || random() < 0.1) {
    return random() < 0.1 ? 'long '.repeat(below(random, 20_000)) : pick(random, [...VALUES, { toString: 5 }]);
  }
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<string, unknown>;
  const key = pick(random, keys);
  if (random() < 0.2) Reflect.deleteProperty(copy, key);
  else copy[key] = damagedValue(copy[key], random);
  return copy;
}
