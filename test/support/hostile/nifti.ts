/**
 * Damaged NIfTI files: examples/fft3d reads what the file holds, or says with a UsageError why it does not.
 *
 * An input is a byte, bit 0: two volumes are wanted, and not one; bit 1: the file is compressed; then the file.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { NIFTI2 } from 'nifti-reader-js';
import { product, UsageError } from '../../../examples/fft3d/geometry.js';
import { readNifti, writeNifti } from '../../../examples/fft3d/volume.js';
import { generator } from '../random.js';
import { below, damaged, type Fuzzer, pick } from './mutations.js';

const HEADER_BYTES = 352;

/** NIfTI-1 of one and of two volumes, and NIfTI-2. */
function originals(folder: string): Uint8Array[] {
  const file = join(folder, 'original.nii');
  const data = Float64Array.from({ length: 24 }, (_, index) => index - 3.5);
  const ones = [[data], [data, data]].map((volumes) => {
    writeNifti(file, { size: [4, 3, 2], voxel: [1, 2, 3], volumes }, 'a test');
    return new Uint8Array(readFileSync(file));
  });
  const two = new NIFTI2();
  Object.assign(two, { littleEndian: true, dims: [3, 4, 3, 2, 1, 1, 1, 1], datatypeCode: 4, numBitsPerVoxel: 16 });
  Object.assign(two, { pixDims: [1, 1, 1, 1, 0, 0, 0, 0], vox_offset: 544, scl_slope: 1, magic: 'n+2' });
  const header = new Uint8Array(two.toArrayBuffer()).slice(0, 540);
  return [...ones, Uint8Array.from([...header, 0, 0, 0, 0, ...new Uint8Array(48).fill(1)])];
}

export const NIFTI: Fuzzer = {
  make(seed) {
    const random = generator(seed);
    const original = pick(random, withFolder(originals));
    const head = original.slice(0, HEADER_BYTES);
    const bytes =
      random() < 0.8
        ? Uint8Array.from([...damaged(head, random), ...original.slice(HEADER_BYTES)])
        : damaged(original, random);
    const [two, compressed] = [below(random, 2), random() < 0.2 ? 2 : 0];
    return Uint8Array.from([two | compressed, ...bytes]);
  },

  run(input) {
    const [flags] = input;
    withFolder((folder) => checkFile(join(folder, 'damaged.nii'), input.slice(1), 1 + (flags & 1), (flags & 2) !== 0));
    return Promise.resolve();
  },
};

function withFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'nbc-nifti-'));
  try {
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A file with these bytes ends in volumes that the file has room for, or in a UsageError. */
function checkFile(file: string, bytes: Uint8Array, wanted: number, compressed: boolean): void {
  writeFileSync(file, compressed ? gzipSync(bytes) : bytes);
  let series;
  try {
    series = readNifti(file, wanted);
  } catch (error) {
    assert(error instanceof UsageError && error.message.startsWith(`${file}: `), `ended with ${String(error)}`);
    return;
  }
  const { size, volumes, voxel } = series;
  assert(size.every((extent) => Number.isInteger(extent) && extent > 0) && voxel.every((distance) => distance > 0));
  assert.equal(volumes.length, wanted);
  assert(product(size) * wanted <= bytes.length, 'more values than the file has bytes');
  for (const values of volumes) assert(values.length === product(size) && values.every(Number.isFinite));
}
