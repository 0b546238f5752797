/** The files below a directory as one long text, of which every rank has a share, in blocks. */
import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';

export interface File {
  path: string;
  bytes: number;
}

/**
 * All regular files but the archive, which may lie among them, in an order that is the same on all ranks. Throws if
 * there is nothing in them.
 */
export function listFiles(directory: string, archive: string): File[] {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => resolve(path) !== resolve(archive))
    .sort()
    .map((path) => ({ path, bytes: statSync(path).size }));
  if (totalBytes(files) === 0) throw new Error(`there is nothing to compress in ${directory}`);
  return files;
}

export const totalBytes = (files: readonly File[]): number => files.reduce((sum, { bytes }) => sum + bytes, 0);

/** Bytes `from` to `to` of all files, one behind the other. */
export function readRange(files: readonly File[], from: number, to: number): Uint8Array {
  const range = new Uint8Array(to - from);
  let at = 0;
  for (const { path, bytes } of files) {
    const [begin, end] = [Math.max(from, at), Math.min(to, at + bytes)];
    if (begin < end) readInto(path, range.subarray(begin - from, end - from), begin - at);
    at += bytes;
  }
  return range;
}

function readInto(path: string, target: Uint8Array, position: number): void {
  const fd = openSync(path, 'r');
  try {
    for (let got = 0; got < target.length;) {
      const count = readSync(fd, target, got, target.length - got, position + got);
      if (count === 0) throw new Error(`${path} has become shorter`);
      got += count;
    }
  } finally {
    closeSync(fd);
  }
}

/** Bytes that no block but the last is smaller than, unless smaller ones are asked for. */
const SMALLEST = 64 * 1024;

/**
 * Where the blocks of a rank begin and end: dealt out one by one, so that what is hard to compress does not lie with
 * one rank. All have the size `block` until the end is near; then they become smaller, because there is nothing left to
 * hide the transfer of the last one behind.
 */
export function blocksOf(total: number, block: number, rank: number, ranks: number): [number, number][] {
  const own: [number, number][] = [];
  let begin = 0;
  while (begin < total) {
    const left = Math.ceil((total - begin) / (2 * ranks));
    const bytes = Math.min(block, Math.max(left, SMALLEST));
    const from = begin + rank * bytes;
    if (from < total) own.push([from, Math.min(from + bytes, total)]);
    begin += ranks * bytes;
  }
  return own;
}
