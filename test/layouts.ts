/** Layouts for tests: elements that are scattered over memory, and a look at what lies between them. */
import assert from 'node:assert/strict';
import { type Layout, strided } from 'node-nbc';

/** What memory between and around elements holds, for {@link Scattered.assertBetween}. */
export const BETWEEN = 0xd7;

/**
 * So many bytes, in a layout whose kind takes its turn by `number`.
 *
 * @param allocate makes the memory, or gives some: at most three times the length, and 16 bytes;
 *   default: new memory, with one value all around the elements
 */
export class Scattered {
  readonly layout: Layout;
  private readonly memory: Uint8Array;
  private readonly places: number[] = [];

  constructor(
    readonly length: number,
    number: number,
    allocate = (bytes: number): Uint8Array => new Uint8Array(bytes).fill(BETWEEN),
  ) {
    const inner = [2, 3, 5, 7, 1].find((divisor) => length % divisor === 0)!;
    const shape = [[length], [length / inner, inner], [1, inner, length / inner], [inner, length / inner, 1]][
      number % 4
    ];
    // Each dimension steps over those inside it, with a gap; some inner ones are contiguous.
    const strides: number[] = [];
    let extent = 1;
    for (let dimension = shape.length - 1; dimension >= 0; dimension--) {
      strides[dimension] = extent + ((number + dimension) % 3);
      extent += Math.max(0, shape[dimension] - 1) * strides[dimension];
    }
    const offset = number % 5;
    this.memory = allocate(offset + extent + 3);
    this.layout = strided(this.memory, { shape, strides, offset });
    const walk = (dimension: number, at: number): void => {
      if (dimension === shape.length) this.places.push(at);
      else for (let i = 0; i < shape[dimension]; i++) walk(dimension + 1, at + i * strides[dimension]);
    };
    walk(0, offset);
    assert.equal(this.places.length, length);
  }

  write(bytes: Uint8Array): void {
    this.places.forEach((place, index) => (this.memory[place] = bytes[index]));
  }

  read(): Uint8Array {
    return Uint8Array.from(this.places, (place) => this.memory[place]);
  }

  assertBetween(what: string): void {
    const inside = new Set(this.places);
    this.memory.forEach((byte, at) => {
      if (!inside.has(at)) assert.equal(byte, BETWEEN, `${what}: byte ${at}, between the elements`);
    });
  }
}
