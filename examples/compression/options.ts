import { Command, InvalidArgumentError, Option } from 'commander';

export type Variant = 'blocking' | 'nonblocking';

export interface Options {
  directory: string;
  variant: Variant | 'both';
  /** Bytes of a block before compression. */
  block: number;
  /** Blocks whose transport may be on its way while the next is compressed. */
  depth: number;
  level: number;
  archive: string;
  repetitions: number;
}

/** Reads the command line; of all ranks, which are given the same one, only one should speak. */
export function parseOptions(argv: string[], speak: boolean): Options {
  const program = new Command('compression')
    .description(
      'Compresses all files below a directory on all ranks, and gathers them into one archive at rank 0: an igather of the sizes and an\n' +
        'igatherv of the data for each block, while the next blocks are compressed. Then unpacks the archive and compares every byte.\n' +
        'Communication is what the job takes beyond the work of the rank that has most of it.\n' +
        'Start it on 4 ranks with: nbcrun -n 4 out/examples/compression/main.js DIRECTORY [options]',
    )
    .argument('<directory>', 'what to compress')
    .addOption(
      new Option('--variant <which>', 'variant to run').choices(['blocking', 'nonblocking', 'both']).default('both'),
    )
    .option('--block <bytes>', 'bytes of a block before compression', atLeast(1024), 2 * 1024 * 1024)
    .option('--depth <count>', 'blocks on their way while the next is compressed', atLeast(1), 16)
    .option('--level <n>', 'effort of the compression, 1 to 9', atLeast(1), 6)
    .option('--archive <file>', 'where rank 0 writes the archive', 'archive.nbc')
    .option('--repetitions <n>', 'times that each variant is measured; the median counts', atLeast(1), 3);
  if (!speak)
    program
      .exitOverride(() => process.exit(0))
      .configureOutput({ writeErr: () => undefined, writeOut: () => undefined });
  program.parse(argv);
  return { ...program.opts<Omit<Options, 'directory'>>(), directory: program.args[0] };
}

function atLeast(least: number) {
  return (text: string): number => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`must be a whole number from ${least}.`);
  };
}
