import { correctBorder, sigmaOf, type GaussianFilter } from './filter.js';
import type { Triple, Volume } from './geometry.js';
import { SerialFft3d } from './serial.js';

/** What one process makes of the volumes of a series, to compare with. The last one asked for is kept. */
export class Expected {
  #kept: { index: number; serial: SerialFft3d } | undefined;

  /**
   * @param volumes the series
   * @param grid points of the transform
   */
  constructor(
    readonly volumes: Volume[],
    readonly grid: Triple,
  ) {}

  /** A volume, transformed. */
  spectrum(index: number): SerialFft3d {
    if (this.#kept?.index !== index) {
      const serial = new SerialFft3d(this.volumes[index], this.grid);
      serial.forward();
      this.#kept = { index, serial };
    }
    return this.#kept.serial;
  }

  /** A volume, smoothed. `fwhm` in mm. */
  result(index: number, filter: GaussianFilter, fwhm: number): Float64Array {
    const serial = this.spectrum(index);
    this.#kept = undefined; // it becomes the result
    serial.filter(sigmaOf(fwhm));
    serial.inverse();
    const expected = serial.crop();
    correctBorder(expected, filter, 0, this.volumes[index].size[2]);
    return expected;
  }
}
