/**
 * Reductions by way of rank 0: it collects the contributions of all ranks, combines them in the order of the ranks, and
 * sends each rank its result. That is 2 (p − 1) messages, and every rank waits once. With algorithms of log₂ p steps
 * ranks wait up to log₂ p times, and most have more messages: where ranks share processors, that takes longer.
 *
 * Source: Open MPI's coll/basic (linear); the scans are this project's.
 */
import { contributionOf, type ReduceShape } from './combine.js';
import { Order } from './encoding.js';
import { reduceLinear, type ReduceScatterShape } from './reduce.js';
import { Role, Schedule } from './schedule.js';
import { endOf } from './shape.js';

/** What a rank other than 0 does. */
function leaf(shape: ReduceShape, sent: number, received: number): Schedule {
  return new Schedule().send(0, contributionOf(shape), 0, sent).round().recv(0, Role.RECEIVE, 0, received);
}

export function allreduceLinear(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  if (rank !== 0) return leaf(shape, bytes, bytes);
  const schedule = reduceLinear({ ...shape, root: 0 }).round();
  for (let peer = 1; peer < size; peer++) schedule.send(peer, Role.RECEIVE, 0, bytes);
  return schedule;
}

/** Rank 0's temporary memory has what came from rank 1, and then the results of all ranks | from rank 2 | … */
export function reduceScatterLinear(shape: ReduceScatterShape): Schedule {
  const { rank, size, inPlace, blocks, operator, type } = shape;
  const all = endOf(blocks);
  if (rank !== 0) return leaf(shape, all, blocks[rank].bytes);
  const schedule = new Schedule();
  if (size === 1) return inPlace ? schedule : schedule.copy(Role.SEND, 0, Role.RECEIVE, 0, all);
  for (let peer = 1; peer < size; peer++) schedule.recv(peer, Role.TEMP, (peer - 1) * all, all);
  schedule.round();
  schedule.reduce(operator, type, contributionOf(shape), 0, Role.TEMP, 0, all, Order.SOURCE_FIRST);
  for (let peer = 2; peer < size; peer++) {
    schedule.reduce(operator, type, Role.TEMP, (peer - 1) * all, Role.TEMP, 0, all, Order.TARGET_FIRST);
  }
  schedule.round();
  for (let peer = 1; peer < size; peer++) schedule.send(peer, Role.TEMP, blocks[peer].offset, blocks[peer].bytes);
  return schedule.copy(Role.TEMP, 0, Role.RECEIVE, 0, blocks[0].bytes);
}

/** Place i − 1 of rank 0's temporary memory has what came from rank i, and then the result of ranks 0 to i. */
function prefixes(shape: ReduceShape, end: number): Schedule {
  const { operator, type, bytes } = shape;
  const schedule = new Schedule();
  for (let peer = 1; peer < end; peer++) schedule.recv(peer, Role.TEMP, (peer - 1) * bytes, bytes);
  schedule.round();
  for (let peer = 1; peer < end; peer++) {
    const [role, offset] = peer === 1 ? [contributionOf(shape), 0] : [Role.TEMP, (peer - 2) * bytes];
    schedule.reduce(operator, type, role, offset, Role.TEMP, (peer - 1) * bytes, bytes, Order.SOURCE_FIRST);
  }
  return schedule.round();
}

export function scanCentral(shape: ReduceShape): Schedule {
  const { rank, size, bytes, inPlace } = shape;
  if (rank !== 0) return leaf(shape, bytes, bytes);
  const schedule = prefixes(shape, size);
  for (let peer = 1; peer < size; peer++) schedule.send(peer, Role.TEMP, (peer - 1) * bytes, bytes);
  return inPlace ? schedule : schedule.copy(Role.SEND, 0, Role.RECEIVE, 0, bytes);
}

/** Nobody needs the last rank's contribution, and rank 0 receives nothing. */
export function exscanCentral(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  if (rank === 0) {
    const schedule = prefixes(shape, size - 1);
    if (size > 1) schedule.send(1, contributionOf(shape), 0, bytes);
    for (let peer = 2; peer < size; peer++) schedule.send(peer, Role.TEMP, (peer - 2) * bytes, bytes);
    return schedule;
  }
  if (rank === size - 1) return new Schedule().recv(0, Role.RECEIVE, 0, bytes);
  return leaf(shape, bytes, bytes);
}
