import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { volumesOf, type Series } from './geometry.js';
import type { Options } from './options.js';
import { greyWindow, writePicture } from './picture.js';
import { writeNifti, type NiftiSeries } from './volume.js';

/**
 * Writes the filtered volumes, and one plane of the first before and after as pictures with the same shades of grey. A
 * phantom is written too, because its input is nowhere else.
 *
 * @returns what was written: names of files and what is in them
 */
export function writeResults(options: Options, before: Series | NiftiSeries, after: Series): [string, string][] {
  mkdirSync(options.output, { recursive: true });
  const written: [string, string][] = [];
  const write = (name: string, content: string, writer: (file: string) => void) => {
    const file = join(options.output, name);
    writer(file);
    written.push([file, content]);
  };
  const header = 'header' in before ? before.header : undefined;
  const slice = options.slice ?? Math.floor(before.size[2] / 2);
  const [input] = volumesOf(before);
  const [output] = volumesOf(after);
  const shades = greyWindow(input, slice);

  write('before.png', `plane ${slice} of the input`, (file) => writePicture(file, input, slice, shades));
  write('after.png', 'the same plane, filtered', (file) => writePicture(file, output, slice, shades));
  if (!header) {
    write(`phantom.${options.format}`, 'the input', (file) => writeNifti(file, before, 'phantom of a head'));
  }
  write(`filtered.${options.format}`, 'the filtered volume', (file) =>
    writeNifti(file, after, `smoothed, FWHM ${options.fwhm} mm`, header),
  );
  return written;
}
