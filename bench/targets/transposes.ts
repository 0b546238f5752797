/** The 3D FFT of examples/fft3d, with strided parts and with a packing loop: transposes-rank.ts, on two ranks. */
import { fileURLToPath } from 'node:url';
import { jsonOf, type Measurement } from './rows.js';

/** Medians of the slowest rank, in ms. */
export interface Totals {
  strided: number;
  packed: number;
}

const at = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** @param grid points in each dimension, a power of two */
export const transposes = (grid: number, repetitions: number): Measurement => ({
  rows: [
    { what: `3D FFT of ${grid}³, 2 ranks: strided ialltoallw, total of that with a packing loop`, must: 1, aim: 0.9 },
  ],
  measure() {
    const rank = fileURLToPath(new URL('transposes-rank.js', import.meta.url));
    const nbcrun = [at('dist/cli/nbcrun.js'), '-n', '2', '--bind', 'core', rank];
    const found = jsonOf(process.execPath, [...nbcrun, String(grid), String(repetitions)]) as Totals;
    const note = `${found.strided.toFixed(1)} and ${found.packed.toFixed(1)} ms`;
    return [{ figure: found.strided / found.packed, note }];
  },
});
