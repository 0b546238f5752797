/** The sum of float32 numbers in native code beside memcpy, on one core: native/sums.cc, with the engine's flags. */
import { withProgram } from './native.js';
import { at, jsonOf, type Measurement } from './rows.js';

const SOURCES = ['bench/targets/native/sums.cc', 'native/engine/reduce.cc', 'native/engine/reduce_avx2.cc'];

export const sums = (repetitions: number): Measurement => ({
  rows: [
    { what: 'sum of float32, 64 KiB in the cache, input per second, of memcpy’s', must: 0.8, aim: 1.5, more: true },
  ],
  measure: () =>
    withProgram('sums', SOURCES, ['-fno-rtti', `-I${at('native')}`], (program) => {
      const { sum, memcpy } = jsonOf(program, [String(repetitions)]) as { sum: number; memcpy: number };
      const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1);
      return [{ figure: sum / memcpy, note: `${gigabytes(sum)} and ${gigabytes(memcpy)} GB/s` }];
    }),
});
