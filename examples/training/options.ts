import { Command, InvalidArgumentError, Option } from 'commander';
import type { Variant } from './replica.js';

export interface Options {
  hidden: number[];
  batch: number;
  epochs: number;
  train: number;
  rate: number;
  momentum: number;
  bucket: number;
  seed: number;
  variant: Variant | 'both';
  check: boolean;
  output: string;
}

/** Digits that nobody learns from: the accuracy is that with these. */
export const HELD_OUT = 2000;
const MOST = 10_000 - HELD_OUT;

/** Reads the command line. Only the rank that speaks says what is wrong with it. */
export function parseOptions(argv: string[], speak: boolean): Options {
  const program = new Command('training')
    .description(
      'Trains a small network to read handwritten digits: each rank with its part of every batch, and the gradients are summed\n' +
        'over all ranks while the rest of them is computed. Start it on 4 ranks with: nbcrun -n 4 out/examples/training/main.js [options]',
    )
    .addOption(
      new Option('--hidden <neurons>', 'layers between pixels and digits')
        .argParser(sizes)
        .default([256, 128], '256x128'),
    )
    .option('--batch <digits>', 'digits of one step, on all ranks together', whole(1), 128)
    .option('--epochs <count>', 'times that every digit is learned from', whole(1), 5)
    .option('--train <digits>', 'digits to learn from', whole(1, MOST), MOST)
    .option('--rate <number>', 'learning rate', from0, 0.05)
    .option('--momentum <number>', 'how much of a step goes on in the next', from0, 0.9)
    .option('--bucket <bytes>', 'bytes of a gradient that are summed at once', whole(1), 128 * 1024)
    .option('--seed <number>', 'what the weights at first and the order of the digits depend on', whole(0), 1)
    .addOption(
      new Option('--variant <which>', 'variant to run; both: in turns, step by step')
        .choices(['blocking', 'nonblocking', 'both'])
        .default('both'),
    )
    .option('--no-check', 'do not compare with the training of one process')
    .option('--output <file>', 'the plot', 'training.svg');
  if (!speak)
    program
      .configureOutput({ writeOut: () => undefined, writeErr: () => undefined })
      .exitOverride(() => process.exit(0));
  return program.parse(argv).opts<Options>();
}

function sizes(text: string): number[] {
  const layers = text.split(/[x×,]/).map(Number);
  if (layers.every((neurons) => Number.isInteger(neurons) && neurons > 0)) return layers;
  throw new InvalidArgumentError('Expected numbers of neurons, as 256x128.');
}

const number = (text: string): number => (text.trim() === '' ? NaN : Number(text));

const whole =
  (least: number, most = 2 ** 31) =>
  (text: string): number => {
    const value = number(text);
    if (Number.isInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${least} to ${most}.`);
  };

function from0(text: string): number {
  const value = number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('Expected a number from 0 on.');
}
