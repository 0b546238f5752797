import { Command, InvalidArgumentError, Option } from 'commander';
import type { Variant } from './solve.js';

export interface Options {
  size: readonly [height: number, width: number];
  steps: number;
  tolerance: number;
  variant: Variant | 'both';
  check: boolean;
  output: string;
}

/** Reads the command line. Only the rank that speaks says what is wrong with it. */
export function parseOptions(argv: string[], speak: boolean): Options {
  const program = new Command('heat')
    .description(
      'How heat spreads in a plate whose upper edge is hot: a Jacobi stencil on a grid of ranks, whose exchange with the\n' +
        'neighbours overlaps its computation. Start it on 4 ranks with: nbcrun -n 4 out/examples/heat/main.js [options]',
    )
    .addOption(
      new Option('--size <cells>', 'rows and columns of the plate; or one number')
        .argParser(parseSize)
        .default([512, 512], '512x512'),
    )
    .option('--steps <count>', 'most steps', atLeast(1), 500)
    .option('--tolerance <kelvin>', 'stop when no cell changes by more in a step', atLeast(0), 1e-3)
    .addOption(
      new Option('--variant <which>', 'variant to run').choices(['blocking', 'nonblocking', 'both']).default('both'),
    )
    .option('--no-check', 'do not compare with a serial run')
    .option('--output <file>', 'the picture', 'heat.png');
  if (!speak)
    program
      .configureOutput({ writeOut: () => undefined, writeErr: () => undefined })
      .exitOverride(() => process.exit(0));
  return program.parse(argv).opts<Options>();
}

function parseSize(text: string): [number, number] {
  const [height, width = height, ...more] = text.split(/[x×,]/).map(Number);
  if (more.length === 0 && [height, width].every((cells) => Number.isInteger(cells) && cells > 0))
    return [height, width];
  throw new InvalidArgumentError('Expected two numbers, as 512x512, or one.');
}

const atLeast = (least: number) => (text: string) => {
  const value = text.trim() === '' ? NaN : Number(text);
  if (Number.isFinite(value) && value >= least) return value;
  throw new InvalidArgumentError(`Expected a number from ${least} on.`);
};
