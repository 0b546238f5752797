import { writeFileSync } from 'node:fs';
import { encode } from 'fast-png';
import type { Volume } from './geometry.js';

/** Values shown black and white; everything between is grey. */
export interface GreyWindow {
  black: number;
  white: number;
}

/**
 * A window for a plane z of a volume: from its least value to the one that only 1 % exceed, so that a few bright voxels
 * don't darken the rest.
 */
export function greyWindow(volume: Volume, z: number): GreyWindow {
  const sorted = Float64Array.from(planeOf(volume, z)).sort();
  const black = sorted[0];
  const white = sorted[Math.floor(0.99 * (sorted.length - 1))];
  return { black, white: white > black ? white : black + 1 };
}

/** Writes plane z of a volume as a grey PNG, y upwards, as anatomists look at it. */
export function writePicture(file: string, volume: Volume, z: number, { black, white }: GreyWindow): void {
  const [width, height] = volume.size;
  const plane = planeOf(volume, z);
  const data = new Uint8ClampedArray(width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      data[(height - 1 - y) * width + x] = (255 * (plane[y * width + x] - black)) / (white - black);
    }
  }
  writeFileSync(file, encode({ width, height, data, depth: 8, channels: 1 }));
}

function planeOf({ size: [x, y], data }: Volume, z: number): Float64Array {
  return data.subarray(z * x * y, (z + 1) * x * y);
}
