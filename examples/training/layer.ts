import { combine, dot } from './loops.js';
import type { Random } from './random.js';

/**
 * A dense layer: outputs = inputs · weights, for as many samples as there are rows. Each row of inputs ends with a 1,
 * so the last row of the weights is the bias.
 */
export class Layer {
  /** For each input, and then for the bias, as many numbers as there are outputs. */
  readonly weights: Float32Array;
  /** Of the weights, in the same order. */
  readonly gradient: Float32Array;
  readonly #velocity: Float32Array;
  /** Of each sample; filled by the layer before this one. */
  readonly input: Float32Array;
  /** What the loss changes by with each output of each sample; filled by the layer behind this one. */
  readonly delta: Float32Array;

  /**
   * @param rows most samples at a time
   * @param allocate makes the memory of the gradient
   */
  constructor(
    readonly inputs: number,
    readonly outputs: number,
    rows: number,
    random: Random,
    allocate: (length: number) => Float32Array,
  ) {
    // After He et al. (2015): so the variance of what ReLU lets through stays the same from layer to layer.
    const range = Math.sqrt(6 / inputs);
    this.weights = new Float32Array((inputs + 1) * outputs);
    for (let i = 0; i < inputs * outputs; i++) this.weights[i] = range * (2 * random.next() - 1);
    this.gradient = allocate(this.weights.length);
    this.#velocity = new Float32Array(this.weights.length);
    this.input = new Float32Array(rows * (inputs + 1));
    for (let row = 0; row < rows; row++) this.input[(row + 1) * (inputs + 1) - 1] = 1;
    this.delta = new Float32Array(rows * outputs);
  }

  /** Computes the outputs, each row of `output` being `stride` numbers long. */
  forward(rows: number, output: Float32Array, stride: number): void {
    const { inputs, outputs, weights, input } = this;
    for (let row = 0; row < rows; row++) {
      combine(output, row * stride, outputs, input, row * (inputs + 1), 1, inputs + 1, weights);
    }
  }

  /** The gradient of the weights of inputs `from` to `to` (without). */
  differentiate(rows: number, from: number, to: number): void {
    const { inputs, outputs, gradient, input, delta } = this;
    for (let i = from; i < to; i++) combine(gradient, i * outputs, outputs, input, i, inputs + 1, rows, delta);
  }

  /** The delta of the layer before this one, whose outputs passed ReLU: what is silent has none. */
  backward(rows: number, before: Float32Array): void {
    const { inputs, outputs, weights, input, delta } = this;
    for (let row = 0; row < rows; row++) {
      for (let i = 0; i < inputs; i++) {
        const active = input[row * (inputs + 1) + i] > 0;
        before[row * inputs + i] = active ? dot(weights, i * outputs, delta, row * outputs, outputs) : 0;
      }
    }
  }

  /** Gradient descent with momentum, for the weights of inputs `from` to `to` (without). */
  update(from: number, to: number, rate: number, momentum: number): void {
    const { outputs, weights, gradient } = this;
    const velocity = this.#velocity;
    for (let i = from * outputs; i < to * outputs; i++) {
      velocity[i] = momentum * velocity[i] + gradient[i];
      weights[i] -= rate * velocity[i];
    }
  }
}
