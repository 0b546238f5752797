import { alloc, IN_PLACE, SUM, type Communicator, type PersistentRequest } from 'node-nbc';
import type { Digits } from './digits.js';
import type { Layer } from './layer.js';
import { Network, type Score } from './network.js';
import { partOf } from './part.js';

export type Variant = 'blocking' | 'nonblocking';

/** What a network is, and how it learns: the same on all ranks. */
export interface Settings {
  hidden: readonly number[];
  /** Samples of a step, on all ranks together. */
  batch: number;
  rate: number;
  momentum: number;
  /** Bytes of a gradient that one allreduce sums. */
  bucket: number;
  seed: number;
}

/** Milliseconds of one step. */
export interface Times {
  total: number;
  /** What of it this rank was in calls of the communication: starting and waiting. */
  communication: number;
}

/** Some rows of a layer's gradient, and what sums them over all ranks. */
interface Bucket {
  layer: Layer;
  from: number;
  to: number;
  sum: PersistentRequest;
}

/**
 * The network on this rank, which learns from its part of each batch. The gradients are summed over all ranks, so all
 * replicas take the same step, the one that a single process would take with the whole batch.
 *
 *     gradient of   layer 3 │ layer 2 │ layer 1                    │ update
 *                           └ allreduce 3 ─┐
 *                                     └ allreduce 2 ─┐
 *                                        └ allreduce 1, in buckets ─┐
 *
 * A layer's gradient is ready in buckets, and each leaves as soon as it is computed. It is waited for only before the
 * weights that it changes are changed. The blocking variant waits at once and does the same otherwise.
 */
export class Replica {
  readonly network: Network;
  readonly #buckets: Bucket[];

  /** Collective: all ranks with the same settings. */
  constructor(
    readonly world: Communicator,
    readonly settings: Settings,
    readonly variant: Variant,
  ) {
    const { hidden, batch, seed } = settings;
    // Gradients lie in memory that peers reach directly.
    this.network = new Network(hidden, Math.ceil(batch / world.size), seed, (length) => alloc(Float32Array, length));
    this.#buckets = this.network.layers.toReversed().flatMap((layer) => this.#bucketsOf(layer));
  }

  #bucketsOf(layer: Layer): Bucket[] {
    const { inputs, outputs, gradient } = layer;
    const rows = Math.max(1, Math.floor(this.settings.bucket / (outputs * gradient.BYTES_PER_ELEMENT)));
    const buckets: Bucket[] = [];
    for (let from = 0; from <= inputs; from += rows) {
      const to = Math.min(from + rows, inputs + 1);
      const part = gradient.subarray(from * outputs, to * outputs);
      buckets.push({ layer, from, to, sum: this.world.allreduceInit(IN_PLACE, part, SUM) });
    }
    return buckets;
  }

  /** One step with the samples of this batch, of which this rank takes its part. */
  step(digits: Digits, batch: Uint32Array): Score & Times {
    const { network, variant, settings } = this;
    const { layers } = network;
    let communication = 0;
    const communicate = (call: () => void): void => {
      const before = performance.now();
      call();
      communication += performance.now() - before;
    };
    const begin = performance.now();
    const [first, rows] = partOf(batch.length, this.world.size, this.world.rank);
    const samples = batch.subarray(first, first + rows);
    network.read(digits, samples);
    const score = network.forward(digits, samples, batch.length);

    for (const { layer, from, to, sum } of this.#buckets) {
      layer.differentiate(rows, from, to);
      communicate(() => sum.start());
      if (variant === 'blocking') communicate(() => sum.wait());
      const index = layers.indexOf(layer);
      const last = to === layer.inputs + 1;
      if (last && index > 0) layer.backward(rows, layers[index - 1].delta);
    }
    for (const { layer, from, to, sum } of this.#buckets) {
      communicate(() => sum.wait());
      layer.update(from, to, settings.rate, settings.momentum);
    }
    return { ...score, total: performance.now() - begin, communication };
  }

  /** How many of the digits the network recognises, this rank looking at its part of them. Collective. */
  recognised(digits: Digits): number {
    const { network, world } = this;
    const [first, count] = partOf(digits.count, world.size, world.rank);
    const own = Uint32Array.from({ length: count }, (_, index) => first + index);
    const correct = new Float64Array(1);
    for (let at = 0; at < count; at += network.rows) {
      const samples = own.subarray(at, at + network.rows);
      network.read(digits, samples);
      correct[0] += network.forward(digits, samples, digits.count).correct;
    }
    world.iallreduce(IN_PLACE, correct, SUM).wait();
    return correct[0];
  }

  /** Gives back the requests. */
  free(): void {
    for (const { sum } of this.#buckets) sum.free();
  }
}
