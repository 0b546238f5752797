/**
 * Operations by way of rank 0: it collects what all ranks contribute, combines or orders it, and sends each rank its
 * result. That is 2 (p − 1) messages, and every rank waits once. With algorithms of log₂ p steps ranks wait up to
 * log₂ p times, and most algorithms have more messages: where ranks share processors, that takes longer.
 *
 * Source: Open MPI's coll/basic (linear); the scans and the all-to-all exchange are this project's.
 */
import type { AllgathervShape } from './allgather.js';
import { contributionOf, type ReduceShape } from './combine.js';
import { Order } from './encoding.js';
import { reduceLinear, type ReduceScatterShape } from './reduce.js';
import { Role, Schedule } from './schedule.js';
import { type Block, endOf, equalBlocks, type Shape } from './shape.js';

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

/** Whether blocks stand one behind the other, in the order of the ranks. */
function inRow(blocks: readonly Block[]): boolean {
  return blocks.every(({ offset }, rank) => rank === 0 || offset === blocks[rank - 1].offset + blocks[rank - 1].bytes);
}

/**
 * All blocks go to a rank as one message, in the order of the ranks. A rank that wants them elsewhere puts each to its
 * place afterwards; others have nothing between their blocks that a message must not write over.
 */
export function allgathervCentral({ rank, size, inPlace, blocks }: AllgathervShape): Schedule {
  const schedule = new Schedule();
  const row = inRow(blocks);
  const [role, begin] = row ? [Role.RECEIVE, blocks[0].offset] : [Role.TEMP, 0];
  /** Where the block of each rank begins in the message. */
  const at = [begin];
  for (const { bytes } of blocks) at.push(at[at.length - 1] + bytes);
  const all = at[size] - begin;
  const [own, from] = inPlace ? [Role.RECEIVE, blocks[rank].offset] : [Role.SEND, 0];
  if (rank === 0) {
    if (!(inPlace && row)) schedule.copy(own, from, role, begin, blocks[0].bytes);
    for (let peer = 1; peer < size; peer++) schedule.recv(peer, role, at[peer], blocks[peer].bytes);
    schedule.round();
    for (let peer = 1; peer < size; peer++) schedule.send(peer, role, begin, all);
  } else {
    schedule.send(0, own, from, blocks[rank].bytes).round().recv(0, role, begin, all);
  }
  if (row) return schedule;
  if (rank !== 0) schedule.round();
  for (let peer = 0; peer < size; peer++) {
    schedule.copy(Role.TEMP, at[peer], Role.RECEIVE, blocks[peer].offset, blocks[peer].bytes);
  }
  return schedule;
}

export function allgatherCentral(shape: Shape): Schedule {
  return allgathervCentral({ ...shape, blocks: equalBlocks(shape) });
}

/** Rank 0's temporary memory has what each rank sends, and then what each rank gets. */
export function alltoallCentral({ rank, size, bytes, inPlace }: Shape): Schedule {
  const schedule = new Schedule();
  const source = inPlace ? Role.RECEIVE : Role.SEND;
  const all = size * bytes;
  if (rank !== 0) return schedule.send(0, source, 0, all).round().recv(0, Role.RECEIVE, 0, all);
  const results = size * all;
  schedule.copy(source, 0, Role.TEMP, 0, all);
  for (let peer = 1; peer < size; peer++) schedule.recv(peer, Role.TEMP, peer * all, all);
  schedule.round();
  const from = { count: size, sourceStride: all, targetStride: bytes };
  const to = { count: size - 1, sourceStride: bytes, targetStride: all };
  schedule.strided(Role.TEMP, 0, Role.RECEIVE, 0, bytes, [from]);
  schedule.strided(Role.TEMP, bytes, Role.TEMP, results, bytes, [to, from]).round();
  for (let peer = 1; peer < size; peer++) schedule.send(peer, Role.TEMP, results + (peer - 1) * all, all);
  return schedule;
}
