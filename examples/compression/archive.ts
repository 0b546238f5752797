/**
 * The archive: compressed blocks, each behind who made it and how long it is; then a manifest.
 *
 *     { rank u32, block u32, bytes u32, compressed… }…   { 2³² − 1, 0, bytes, JSON of the files }
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { inflateSync } from 'fflate';
import { readRange, totalBytes, type File } from './files.js';

const MANIFEST = 0xffffffff;
const HEADER_BYTES = 12;

export class ArchiveWriter {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = openSync(path, 'w');
  }

  /** One block of every rank that has one. `packed`: one behind the other. */
  add(block: number, sizes: Uint32Array, packed: Uint8Array): void {
    let at = 0;
    for (const [rank, bytes] of sizes.entries()) {
      if (bytes > 0) this.#write(rank, block, packed.subarray(at, at + bytes));
      at += bytes;
    }
  }

  close(files: readonly File[]): void {
    this.#write(MANIFEST, 0, Buffer.from(JSON.stringify(files)));
    closeSync(this.#fd);
  }

  #write(rank: number, block: number, data: Uint8Array): void {
    writeSync(this.#fd, Buffer.from(Uint32Array.of(rank, block, data.length).buffer));
    for (let at = 0; at < data.length;) at += writeSync(this.#fd, data, at);
  }
}

/** All files of an archive, unpacked, one behind the other; and which they are. */
export function unpack(path: string): { files: File[]; content: Uint8Array } {
  const archive = readFileSync(path);
  const blocks: { rank: number; block: number; data: Uint8Array }[] = [];
  let files: File[] = [];
  for (let at = 0; at < archive.length;) {
    const [rank, block, bytes] = [0, 4, 8].map((offset) => archive.readUInt32LE(at + offset));
    const data = archive.subarray(at + HEADER_BYTES, at + HEADER_BYTES + bytes);
    if (rank === MANIFEST) files = JSON.parse(data.toString()) as File[];
    else blocks.push({ rank, block, data });
    at += HEADER_BYTES + bytes;
  }
  blocks.sort((a, b) => a.block - b.block || a.rank - b.rank);
  return { files, content: Buffer.concat(blocks.map(({ data }) => inflateSync(data))) };
}

/**
 * The archive holds what the files hold, byte by byte.
 * @returns how many bytes those are
 * @throws if it does not
 */
export function verify(path: string, expected: readonly File[]): number {
  const { files: stored, content } = unpack(path);
  if (JSON.stringify(stored) !== JSON.stringify(expected)) throw new Error(`${path} names other files`);
  const original = readRange(expected, 0, totalBytes(expected));
  if (Buffer.compare(content, original) !== 0) throw new Error(`${path} does not hold what the files hold`);
  return content.length;
}
