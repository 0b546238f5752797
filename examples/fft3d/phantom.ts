import { product, type Series, type Triple, type Volume } from './geometry.js';

/**
 * An ellipsoid: centre and half axes as fractions of half the volume, a turn about z in degrees, and what it adds to
 * the values inside.
 */
type Ellipsoid = [centre: Triple, axes: Triple, degrees: number, value: number];

/** A head: scalp, skull, brain, ventricles, and three lesions, the smallest of which a filter should nearly erase. */
const HEAD: Ellipsoid[] = [
  [[0, 0, 0], [0.82, 0.92, 0.9], 0, 400],
  [[0, 0, 0], [0.78, 0.88, 0.86], 0, 500],
  [[0, -0.01, 0], [0.72, 0.82, 0.8], 0, -450],
  [[0.2, 0.05, 0.1], [0.1, 0.32, 0.26], -16, -300],
  [[-0.2, 0.05, 0.1], [0.13, 0.38, 0.3], 16, -300],
  [[0.05, 0.5, -0.05], [0.2, 0.16, 0.22], 0, 200],
  [[-0.35, -0.45, 0.0], [0.1, 0.1, 0.1], 0, 300],
  [[0.3, -0.5, 0.02], [0.04, 0.04, 0.04], 0, 400],
];
/** Half the width of the noise added to every voxel. */
const NOISE = 60;

/** A series of scans of one head, which differ by their noise. */
export const phantoms = (size: Triple, voxel: Triple, count: number): Series => ({
  size,
  voxel,
  volumes: Array.from({ length: count }, (_, index) => phantom(size, voxel, index + 1).data),
});

/**
 * Makes a volume that looks like a scan of a head, noise included. The same for the same size and seed (above 0),
 * everywhere.
 */
export function phantom(size: Triple, voxel: Triple, seed = 1): Volume {
  const data = new Float64Array(product(size));
  const random = generator(seed);
  const coordinate = (index: number, length: number) => (2 * index + 1) / length - 1;
  let at = 0;
  for (let z = 0; z < size[2]; z++) {
    for (let y = 0; y < size[1]; y++) {
      for (let x = 0; x < size[0]; x++) {
        const point: Triple = [coordinate(x, size[0]), coordinate(y, size[1]), coordinate(z, size[2])];
        let value = 0;
        for (const ellipsoid of HEAD) if (isInside(point, ellipsoid)) value += ellipsoid[3];
        data[at++] = Math.max(0, value + NOISE * (2 * random() - 1));
      }
    }
  }
  return { size, voxel, data };
}

function isInside([x, y, z]: Triple, [[cx, cy, cz], [ax, ay, az], degrees]: Ellipsoid): boolean {
  const angle = (degrees * Math.PI) / 180;
  const [dx, dy, dz] = [x - cx, y - cy, z - cz];
  const across = dx * Math.cos(angle) + dy * Math.sin(angle);
  const along = dy * Math.cos(angle) - dx * Math.sin(angle);
  return (across / ax) ** 2 + (along / ay) ** 2 + (dz / az) ** 2 <= 1;
}

/** Numbers from 0 to 1 that look random: Marsaglia's xorshift of 32 bits. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}
