#!/usr/bin/env node
/**
 * Data-parallel training: a network learns to read handwritten digits, each rank with its part of every batch.
 *
 *     nbcrun -n 4 out/examples/training/main.js
 *
 * What is parallel is in replica.ts.
 */
import { writeFileSync } from 'node:fs';
import { AbandonedError, init, PeerClosedError, type Communicator } from 'node-nbc';
import { Progress } from '../fft3d/progress.js';
import { draw } from './chart.js';
import { share } from './digits.js';
import { learn, stepsOf, type Course, type Epoch, type History } from './learn.js';
import { HELD_OUT, parseOptions, type Options } from './options.js';
import { Replica, type Variant } from './replica.js';
import { summarise, timingLines, TITLES } from './report.js';
import { ACCURACY_TOLERANCE, differenceOf, sameEverywhere, WEIGHT_TOLERANCE } from './verify.js';

const speaker = (process.env.NBC_RANK ?? '0') === '0';

function say(...lines: string[]): void {
  if (speaker) process.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
const epochLine = ({ loss, accuracy }: Epoch, at: number): string =>
  `epoch ${at + 1}: loss ${loss.toFixed(4)}, accuracy ${percent(accuracy)}`;

/** Has the training on all ranks come to what that of one process has come to? */
function compare(own: History, single: History): [string, boolean][] {
  const [accuracy, expected] = [own, single].map(({ epochs }) => epochs.at(-1)!.accuracy);
  const difference = differenceOf(own.early, single.early);
  return [
    [
      `accuracy ${percent(accuracy)}, of one process ${percent(expected)}`,
      Math.abs(accuracy - expected) <= ACCURACY_TOLERANCE,
    ],
    [
      `weights after the first steps, ${difference.toExponential(1)} from those of one process`,
      difference <= WEIGHT_TOLERANCE,
    ],
  ];
}

/** @returns whether all is as it must be (rank 0 says what is not) */
async function run(world: Communicator, options: Options): Promise<boolean> {
  const digits = await share(world, options.seed);
  const training = digits.part(0, options.train);
  const course: Course = { training, heldOut: digits.part(digits.count - HELD_OUT, HELD_OUT), epochs: options.epochs };
  const variants: Variant[] = options.variant === 'both' ? ['blocking', 'nonblocking'] : [options.variant];
  const replicas = variants.map((variant) => new Replica(world, options, variant));
  const alone = options.check ? await world.split(world.rank) : null;
  const reference = alone && speaker ? new Replica(alone, options, 'blocking') : null;

  const who = `${world.size} ${world.size === 1 ? 'rank' : 'ranks'}`;
  const progress = new Progress(speaker);
  progress.start((replicas.length + (reference ? 1 : 0)) * stepsOf(course, options.batch));
  const learnAll = (all: readonly Replica[], title: string): History[] => {
    let epochs = 0;
    progress.stage(title);
    return learn(all, course, (epoch) => {
      if (epoch) progress.stage(`${title}, ${epochLine(epoch, epochs++)}`);
      else progress.step();
    });
  };
  const histories = learnAll(replicas, who);
  const final = replicas.map(({ network }) => network.weights());
  const alike = final.map((weights) => sameEverywhere(world, weights)).every(Boolean);
  const times = new Map(variants.map((variant, index) => [variant, summarise(world, histories[index].times)]));
  const single = reference ? learnAll([reference], 'one process')[0] : null;
  progress.stop();
  for (const replica of [...replicas, ...(reference ? [reference] : [])]) replica.free();
  if (!speaker) return true;

  const [{ epochs }] = histories;
  const findings: [string, boolean][] = [['weights, the same on all ranks', alike]];
  if (final.length === 2) findings.push(['weights, the same in both variants', differenceOf(final[0], final[1]) === 0]);
  if (single) findings.push(...compare(histories.at(-1)!, single));
  say(
    `${options.train} digits in batches of ${options.batch}, ${who}`,
    ...epochs.map(epochLine),
    '',
    ...timingLines(times),
    '',
    ...findings.map(([text, ok]) => `${text}: ${ok ? 'ok' : 'WRONG'}`),
  );
  const svg = draw(await import('echarts'), {
    title: `Handwritten digits, ${who}`,
    curves: [{ name: who, epochs }, ...(single ? [{ name: 'one process', epochs: single.epochs }] : [])],
    bars: [...times].map(([variant, all]) => ({ name: TITLES[variant], ...all })),
  });
  writeFileSync(options.output, `${svg}\n`);
  say(`${options.output}: the plot`);
  return findings.every(([, ok]) => ok);
}

const options = parseOptions(process.argv, speaker);
try {
  const world = await init();
  const ok = await run(world, options);
  say('', ok ? 'verified' : 'NOT verified: see the lines marked WRONG');
  if (!ok) process.exitCode = 1;
  await world.close();
} catch (error) {
  process.exitCode = 1;
  // Of these two, another rank is the cause. It says why it ended.
  if (!(error instanceof PeerClosedError || error instanceof AbandonedError)) throw error;
}
