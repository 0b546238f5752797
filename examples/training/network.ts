import { CLASSES, PIXELS, type Digits } from './digits.js';
import { Layer } from './layer.js';
import { Random } from './random.js';

/** Of some samples: the sum of their losses, and how many were recognised. */
export interface Score {
  loss: number;
  correct: number;
}

/** Dense layers with ReLU between them and softmax behind them. All ranks make the same one from the same seed. */
export class Network {
  readonly layers: readonly Layer[];
  readonly #logits: Float32Array;

  /**
   * @param hidden how many neurons the layers between pixels and digits have
   * @param rows most samples at a time
   * @param allocate makes the memory of a gradient
   */
  constructor(
    hidden: readonly number[],
    readonly rows: number,
    seed: number,
    allocate: (length: number) => Float32Array,
  ) {
    const random = new Random(seed);
    const sizes = [PIXELS, ...hidden, CLASSES];
    this.layers = sizes.slice(1).map((outputs, index) => new Layer(sizes[index], outputs, rows, random, allocate));
    this.#logits = new Float32Array(rows * CLASSES);
  }

  /** A copy of all weights, layer by layer. */
  weights(): Float32Array {
    const all = new Float32Array(this.layers.reduce((sum, { weights }) => sum + weights.length, 0));
    let at = 0;
    for (const { weights } of this.layers) {
      all.set(weights, at);
      at += weights.length;
    }
    return all;
  }

  /** Takes in the samples of these numbers. */
  read({ pixels }: Digits, samples: Uint32Array): void {
    const { input, inputs } = this.layers[0];
    samples.forEach((sample, row) => {
      const [to, from] = [row * (inputs + 1), sample * PIXELS];
      for (let i = 0; i < PIXELS; i++) input[to + i] = pixels[from + i] / 255;
    });
  }

  /**
   * Computes what each digit looks like, and compares. The delta of the last layer is that of the mean loss of a batch.
   *
   * @param batch how many samples the whole batch has, on all ranks
   */
  forward({ labels }: Digits, samples: Uint32Array, batch: number): Score {
    const rows = samples.length;
    this.layers.forEach((layer, index) => {
      const next = this.layers.at(index + 1);
      if (next === undefined) {
        layer.forward(rows, this.#logits, layer.outputs);
      } else {
        layer.forward(rows, next.input, next.inputs + 1);
        relu(next, rows);
      }
    });
    const { delta } = this.layers.at(-1)!;
    const score = { loss: 0, correct: 0 };
    for (let row = 0; row < rows; row++) {
      const outputs = this.#logits.subarray(row * CLASSES, (row + 1) * CLASSES);
      const label = labels[samples[row]];
      const largest = Math.max(...outputs);
      if (outputs.indexOf(largest) === label) score.correct++;
      let sum = 0;
      for (const value of outputs) sum += Math.exp(value - largest);
      score.loss += Math.log(sum) - (outputs[label] - largest);
      outputs.forEach((value, digit) => {
        const probability = Math.exp(value - largest) / sum;
        delta[row * CLASSES + digit] = (probability - (digit === label ? 1 : 0)) / batch;
      });
    }
    return score;
  }
}

/** What a layer hands to the next one, whose inputs end with a 1. */
function relu({ input, inputs }: Layer, rows: number): void {
  for (let row = 0; row < rows; row++) {
    for (let at = row * (inputs + 1); at < row * (inputs + 1) + inputs; at++) if (input[at] < 0) input[at] = 0;
  }
}
