/**
 * Sizes in the order x, y, z. In memory x runs fastest, as in a NIfTI file: the value of voxel (x, y, z) is at (z·ny +
 * y)·nx + x.
 */
export type Triple = readonly [x: number, y: number, z: number];

/** A volume in memory. */
export interface Volume {
  /** Voxels along x, y and z. */
  size: Triple;
  /** Distance of neighbouring voxels along x, y and z, in millimetres. */
  voxel: Triple;
  /** The values, x fastest. */
  data: Float64Array;
}

/** Volumes of one size, as a scan that lasts makes them. */
export interface Series {
  size: Triple;
  voxel: Triple;
  /** The values of each volume, x fastest. */
  volumes: Float64Array[];
}

export const volumesOf = ({ size, voxel, volumes }: Series): Volume[] => volumes.map((data) => ({ size, voxel, data }));

export const AXES = ['x', 'y', 'z'] as const;

export const product = ([x, y, z]: Triple): number => x * y * z;

export const format = (triple: Triple): string => triple.map((value) => +value.toFixed(3)).join(' x ');

/** A wrong argument of the program: only its message is shown. */
export class UsageError extends Error {
  override name = 'UsageError';
}
