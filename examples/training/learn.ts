import { IN_PLACE, SUM } from 'node-nbc';
import type { Digits } from './digits.js';
import { Random } from './random.js';
import type { Replica, Times } from './replica.js';

/** What is known after an epoch: the mean loss while it was learned, and the share recognised of other digits. */
export interface Epoch {
  loss: number;
  accuracy: number;
}

/** What a replica has been through. */
export interface History {
  epochs: Epoch[];
  /** Of each step. */
  times: Times[];
  /** The weights after {@link EARLY} steps, or after all if there are fewer. */
  early: Float32Array;
}

/**
 * After so many steps the weights are compared with those of one process: sums that are computed in another order are
 * rounded differently, and after some hundred steps a neuron that such a difference wakes may have changed many others.
 */
const EARLY = 10;

export interface Course {
  training: Digits;
  heldOut: Digits;
  epochs: number;
}

/** Steps that one replica takes. */
export function stepsOf({ training, epochs }: Course, batch: number): number {
  return epochs * Math.ceil(training.count / batch);
}

/**
 * Every replica learns from the same batches, which depend on the seed alone and not on how many ranks there are. With
 * several replicas they take turns, step by step, so that whatever else the machine does slows them all. Collective.
 *
 * @param observe called after each step, and after each epoch with what is known then about the first replica
 * @returns the history of each replica
 */
export function learn(
  replicas: readonly Replica[],
  { training, heldOut, epochs }: Course,
  observe: (epoch?: Epoch) => void,
): History[] {
  const [{ world, settings }] = replicas;
  const random = new Random(settings.seed + 1);
  const histories = replicas.map((): History => ({ epochs: [], times: [], early: new Float32Array() }));
  for (let epoch = 0; epoch < epochs; epoch++) {
    const order = random.order(training.count);
    const losses = new Float64Array(replicas.length);
    for (let at = 0; at < order.length; at += settings.batch) {
      const batch = order.subarray(at, at + settings.batch);
      replicas.forEach((replica, index) => {
        const { loss, total, communication } = replica.step(training, batch);
        losses[index] += loss;
        const history = histories[index];
        history.times.push({ total, communication });
        if (history.times.length <= EARLY) history.early = replica.network.weights();
        observe();
      });
    }
    world.iallreduce(IN_PLACE, losses, SUM).wait();
    replicas.forEach((replica, index) => {
      const accuracy = replica.recognised(heldOut) / heldOut.count;
      histories[index].epochs.push({ loss: losses[index] / training.count, accuracy });
    });
    observe(histories[0].epochs[epoch]);
  }
  return histories;
}
