import { Command, InvalidArgumentError, Option } from 'commander';
import type { Triple } from './geometry.js';
import type { Precision } from './precision.js';

export type Variant = 'blocking' | 'nonblocking';

export interface Options {
  input?: string;
  grid: Triple;
  voxel: number;
  volumes: number;
  fwhm: number;
  border: 'clean' | 'periodic';
  variant: Variant | 'both';
  planes: number;
  depth: number;
  test: boolean;
  buffers: 'alloc' | 'plain';
  precision: Precision;
  repetitions: number;
  check: 'serial' | 'parseval';
  slice?: number;
  output: string;
  format: 'nii' | 'nii.gz';
}

/**
 * Reads the command line; prints help or what is wrong with it, and ends the program then. All ranks are given the same
 * command line, so only one of them should speak: the others end without a word, and as if nothing were wrong, because
 * the launcher ends the job as soon as a rank fails, and the speaker has to have its say first.
 */
export function parseOptions(argv: string[], speak: boolean): Options {
  const program = new Command('fft3d')
    .description(
      'Smooths a volume by a Gaussian in Fourier space, with a parallel 3D FFT whose transposes overlap its computation.\n' +
        'Start it on 4 ranks with: nbcrun -n 4 out/examples/fft3d/main.js [options]',
    )
    .addOption(
      new Option('--input <file>', 'volume to filter, .nii or .nii.gz (default: a phantom of a head)').conflicts(
        'grid',
      ),
    )
    .addOption(
      new Option('--grid <sizes>', 'voxels of the phantom along x, y and z; or one number')
        .argParser(grid)
        .default([112, 120, 96] satisfies Triple, '112x120x96'),
    )
    .option('--voxel <mm>', 'distance of the voxels of the phantom, in millimetres', positive, 2)
    .option(
      '--volumes <count>',
      'volumes of a series to filter: the first of the file, or as many phantoms',
      atLeast(1),
      1,
    )
    .option(
      '--fwhm <mm>',
      'full width at half maximum of the Gaussian, in millimetres (2.355 sigma); 0: no filter',
      notNegative,
      8,
    )
    .addOption(
      new Option(
        '--border <kind>',
        'clean: pad with zeros and correct for them; periodic: opposite faces are neighbours (sizes must be powers of two)',
      )
        .choices(['clean', 'periodic'])
        .default('clean'),
    )
    .addOption(
      new Option('--variant <which>', 'variant to run').choices(['blocking', 'nonblocking', 'both']).default('both'),
    )
    .option('--planes <count>', 'planes in one transpose', atLeast(1), 1)
    .addOption(
      new Option('--depth <count>', 'transposes of one step in flight (non-blocking variant)')
        .argParser(atLeast(1))
        .default(Infinity, 'all'),
    )
    .option('--test', 'test the transposes in flight after every plane and row (for NBC_PROGRESS=manual)', false)
    .addOption(
      new Option('--buffers <kind>', 'memory of the transposes: exposed by alloc(), or plain typed arrays')
        .choices(['alloc', 'plain'])
        .default('alloc'),
    )
    .addOption(
      new Option(
        '--precision <kind>',
        'numbers as they are sent: single is half as much for the network, with an error of about 1e-7 (computed is in double)',
      )
        .choices(['double', 'single'])
        .default('double'),
    )
    .option('--repetitions <count>', 'times that each variant is measured, after one warm-up', atLeast(1), 3)
    .addOption(
      new Option(
        '--check <how>',
        "serial: compare with a serial transform (rank 0 needs the whole grid's memory); parseval: only by Parseval's theorem",
      )
        .choices(['serial', 'parseval'])
        .default('serial'),
    )
    .option('--slice <z>', 'plane to show in the pictures, from 0 (default: the middle one)', atLeast(0))
    .option('--output <directory>', 'where results go', 'fft3d-output')
    .addOption(
      new Option('--format <kind>', 'format of the filtered volume').choices(['nii', 'nii.gz']).default('nii.gz'),
    );
  if (!speak)
    program
      .configureOutput({ writeOut: () => undefined, writeErr: () => undefined })
      .exitOverride(() => process.exit(0));
  return program.parse(argv).opts<Options>();
}

function grid(text: string): Triple {
  const sizes = text.split(/[x×,]/).map(Number);
  const [x, y = x, z = x] = sizes;
  if ((sizes.length === 1 || sizes.length === 3) && [x, y, z].every((size) => Number.isInteger(size) && size > 0)) {
    return [x, y, z];
  }
  throw new InvalidArgumentError('Expected three sizes, as 112x120x96, or one.');
}

function number(text: string, accept: (value: number) => boolean, expected: string): number {
  const value = text.trim() === '' ? NaN : Number(text);
  if (Number.isFinite(value) && accept(value)) return value;
  throw new InvalidArgumentError(`Expected ${expected}.`);
}

const positive = (text: string) => number(text, (value) => value > 0, 'a number above 0');
const notNegative = (text: string) => number(text, (value) => value >= 0, 'a number from 0 on');
const atLeast = (least: number) => (text: string) =>
  number(text, (value) => Number.isInteger(value) && value >= least, `a whole number from ${least} on`);
