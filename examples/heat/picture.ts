import { writeFileSync } from 'node:fs';
import { encode } from 'fast-png';
import { HOT } from './plate.js';

/** Writes temperatures as a PNG, from black by red and yellow to white; with the square root, so that little shows. */
export function writePicture(file: string, cells: Float64Array, [height, width]: readonly [number, number]): void {
  const data = new Uint8ClampedArray(3 * cells.length);
  for (const [index, value] of cells.entries()) {
    const level = 3 * Math.sqrt(value / HOT);
    for (let colour = 0; colour < 3; colour++) data[3 * index + colour] = 255 * (level - colour);
  }
  writeFileSync(file, encode({ width, height, data, depth: 8, channels: 3 }));
}
