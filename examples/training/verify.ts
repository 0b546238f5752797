import { MAX, MIN, type Communicator } from 'node-nbc';

/** How far the share of digits that are recognised may be from that of one process: half a percentage point. */
export const ACCURACY_TOLERANCE = 0.005;
/**
 * How far a weight may be from that of one process after a few steps, as a fraction of the largest weight. A sum in
 * another order is off by some 1e-7; a rank that leaves something out changes weights by 1e-3 and more.
 */
export const WEIGHT_TOLERANCE = 1e-5;

/** Are the weights the same on all ranks, to the last bit? Collective. */
export function sameEverywhere(world: Communicator, weights: Float32Array): boolean {
  const [least, most] = [new Float32Array(weights.length), new Float32Array(weights.length)];
  world.iallreduce(weights, least, MIN).wait();
  world.iallreduce(weights, most, MAX).wait();
  return least.every((value, index) => value === most[index]);
}

/** The largest difference of a weight, as a fraction of the largest weight; not-a-number is a difference that stays. */
export function differenceOf(weights: Float32Array, others: Float32Array): number {
  let [difference, largest] = [0, 0];
  weights.forEach((weight, index) => {
    const apart = Math.abs(weight - others[index]);
    if (apart > difference || Number.isNaN(apart)) difference = apart;
    largest = Math.max(largest, Math.abs(weight));
  });
  return difference / largest;
}
