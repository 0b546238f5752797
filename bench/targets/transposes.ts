/** The 3D FFT of examples/fft3d, with strided parts and with a packing loop: transposes-rank.ts, on two ranks. */
import { at, jsonOf, type Measurement } from './rows.js';

/** Medians of the slowest rank, in ms. */
export interface Totals {
  strided: number;
  packed: number;
}

/** Planes of a transpose: the example's default, with which parts are contiguous; and some, which the engine packs. */
const PLANES = [1, 4];

/** @param grid points in each dimension, a power of two */
export const transposes = (grid: number, repetitions: number): Measurement => ({
  rows: PLANES.map((planes) => ({
    what: `3D FFT of ${grid}³, 2 ranks, ${planes} to a transpose: ialltoallw, total of that with a packing loop`,
    must: 1,
    aim: 0.9,
  })),
  measure: () =>
    PLANES.map((planes) => {
      const rank = at('out/bench/targets/transposes-rank.js');
      const nbcrun = [at('dist/cli/nbcrun.js'), '-n', '2', '--bind', 'core', rank];
      const found = jsonOf(process.execPath, [...nbcrun, ...[grid, repetitions, planes].map(String)]) as Totals;
      const note = `${found.strided.toFixed(1)} and ${found.packed.toFixed(1)} ms`;
      return { figure: found.strided / found.packed, note };
    }),
});
