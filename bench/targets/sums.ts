/** The sum of float32 numbers in native code beside memcpy, on one core: native/sums.cc, with the engine's flags. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { at, jsonOf, type Measurement } from './rows.js';

const SOURCES = ['bench/targets/native/sums.cc', 'native/engine/reduce.cc', 'native/engine/reduce_avx2.cc'];

export const sums = (repetitions: number): Measurement => ({
  rows: [
    { what: 'sum of float32, 64 KiB in the cache, input per second, of memcpy’s', must: 0.8, aim: 1.5, more: true },
  ],
  measure() {
    const folder = mkdtempSync(join(tmpdir(), 'nbc-sums-'));
    try {
      const program = join(folder, 'sums');
      const flags = ['-std=c++20', '-O3', '-fno-rtti', `-I${at('native')}`];
      execFileSync(process.env['CXX'] ?? 'g++', [...flags, ...SOURCES.map(at), '-o', program], { stdio: 'pipe' });
      const { sum, memcpy } = jsonOf(program, [String(repetitions)]) as { sum: number; memcpy: number };
      const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1);
      return [{ figure: sum / memcpy, note: `${gigabytes(sum)} and ${gigabytes(memcpy)} GB/s` }];
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
});
