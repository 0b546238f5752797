/**
 * Reductions to one rank or to all: element by element, the contributions of all ranks combined by an operator.
 *
 * Which contributions are combined in which order depends on the number of ranks and the algorithm only, so a result
 * has the same bits in every run. What comes from lower ranks stands on the left.
 *
 * Source: MPI 4.1, 6.9 (MPI_REDUCE, MPI_ALLREDUCE); R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
 * Communication Operations in MPICH", 2005.
 */
import { Accumulator, contributionOf, cut, flipped, Fold, type Range, type ReduceShape } from './combine.js';
import { Order } from './encoding.js';
import { Role, Schedule } from './schedule.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

/** Every rank sends to the root, which combines them in the order of the ranks. */
export function reduceLinear(shape: ReduceShape): Schedule {
  const { rank, size, root, bytes, inPlace, operator, type } = shape;
  const schedule = new Schedule();
  if (rank !== root) return schedule.send(root, Role.SEND, 0, bytes);
  if (size === 1) return inPlace ? schedule : schedule.copy(Role.SEND, 0, Role.RECEIVE, 0, bytes);
  const below = Array.from({ length: root }, (_, index) => root - 1 - index);
  const above = Array.from({ length: size - 1 - root }, (_, index) => root + 1 + index);
  const [first, ...others] = [...below, ...above];
  const orderOf = (peer: number): Order => (peer < root ? Order.SOURCE_FIRST : Order.TARGET_FIRST);
  // The first one goes to where the result is to be, unless the root's contribution is there.
  const waiting = inPlace ? [first, ...others] : others;
  if (!inPlace) schedule.recv(first, Role.RECEIVE, 0, bytes);
  for (const [index, peer] of waiting.entries()) schedule.recv(peer, Role.TEMP, index * bytes, bytes);
  schedule.round();
  // A first one in a round of its own begins while its message is still coming.
  if (!inPlace) {
    schedule.reduce(operator, type, Role.SEND, 0, Role.RECEIVE, 0, bytes, flipped(orderOf(first))).round();
  }
  for (const [index, peer] of waiting.entries()) {
    schedule.reduce(operator, type, Role.TEMP, index * bytes, Role.RECEIVE, 0, bytes, orderOf(peer));
    if (inPlace && index === 0) schedule.round();
  }
  return schedule;
}

/** Up the binomial tree: a rank combines its contribution with those of its subtrees. */
export function reduceBinomial(shape: ReduceShape): Schedule {
  const { rank, size, root, bytes, inPlace, operator, type } = shape;
  const schedule = new Schedule();
  const virtual = toVirtual(rank, root, size);
  const children = childrenOf(virtual, size);
  const parent = fromVirtual(parentOf(virtual), root, size);
  const own = virtual === 0 ? contributionOf(shape) : Role.SEND;
  if (children.length === 0) {
    if (virtual !== 0) return schedule.send(parent, own, 0, bytes);
    return inPlace ? schedule : schedule.copy(own, 0, Role.RECEIVE, 0, bytes);
  }

  // The root collects in its receive buffer, other ranks in temporary memory: what the first child sends, unless the
  // contribution is there.
  const result = virtual === 0 ? Role.RECEIVE : Role.TEMP;
  const places = children.map((_, index) => (index === 0 && own !== result ? null : (1 + index) * bytes));
  for (const [index, child] of children.entries()) {
    const peer = fromVirtual(child.virtual, root, size);
    const at = places[index];
    if (at === null) schedule.recv(peer, result, 0, bytes);
    else schedule.recv(peer, Role.TEMP, at, bytes);
  }
  schedule.round();
  for (const at of places) {
    if (at === null) schedule.reduce(operator, type, own, 0, result, 0, bytes, Order.SOURCE_FIRST);
    else schedule.reduce(operator, type, Role.TEMP, at, result, 0, bytes, Order.TARGET_FIRST);
  }
  schedule.round();
  return virtual === 0 ? schedule : schedule.send(parent, Role.TEMP, 0, bytes);
}

/** Recursive doubling: in step k a rank exchanges its result so far with the rank that differs in bit k. */
export function allreduceDoubling(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  const schedule = new Schedule();
  const all: Range = [0, bytes];
  const result = new Accumulator(schedule, shape, contributionOf(shape), Role.RECEIVE, 0);
  const fold = new Fold(schedule, shape, result);
  if (size === 1) result.settle(all);
  fold.before();
  if (fold.index >= 0) {
    for (let bit = 1; bit < fold.power; bit *= 2) {
      const peer = fold.rankOf(fold.index ^ bit);
      result.send(peer, all);
      result.recv(peer, all);
      result.combine(all, peer < rank ? Order.SOURCE_FIRST : Order.TARGET_FIRST);
    }
  }
  fold.after();
  return schedule;
}

/** A ring: in p − 1 steps every part of the message is combined as it goes round, in p − 1 more it is handed out. */
export function allreduceRing(shape: ReduceShape): Schedule {
  const { rank, size, inPlace, operator, type } = shape;
  const schedule = new Schedule();
  const start = cut(shape, size);
  const [previous, next] = [(rank - 1 + size) % size, (rank + 1) % size];
  const rangeOf = (part: number): Range => [start(part), start(part + 1) - start(part)];
  if (size === 1 && !inPlace) schedule.copy(Role.SEND, 0, Role.RECEIVE, 0, shape.bytes);
  for (let step = 0; step < size - 1; step++) {
    const [offset, bytes] = rangeOf((rank - step - 1 + size) % size);
    const sent = rangeOf((rank - step + size) % size);
    schedule.send(next, step === 0 && !inPlace ? Role.SEND : Role.RECEIVE, ...sent);
    // Each step is about another part, of which the rank has combined nothing yet.
    if (inPlace) {
      schedule.recv(previous, Role.TEMP, 0, bytes).round();
      schedule.reduce(operator, type, Role.TEMP, 0, Role.RECEIVE, offset, bytes, Order.SOURCE_FIRST).round();
    } else {
      schedule.recv(previous, Role.RECEIVE, offset, bytes).round();
      schedule.reduce(operator, type, Role.SEND, offset, Role.RECEIVE, offset, bytes, Order.TARGET_FIRST).round();
    }
  }
  for (let step = 0; step < size - 1; step++) {
    schedule.send(next, Role.RECEIVE, ...rangeOf((rank + 1 - step + size) % size));
    schedule.recv(previous, Role.RECEIVE, ...rangeOf((rank - step + size) % size)).round();
  }
  return schedule;
}

type Place = readonly [role: Role, offset: number];

export interface ReduceScatterShape extends ReduceShape {
  /** The part of the contribution that each rank gets the result of. */
  readonly blocks: readonly { readonly offset: number; readonly bytes: number }[];
}

/**
 * In step d a rank sends its part of the d-th next rank's result there, and combines that of the d-th previous one. So
 * it goes down the ranks to 0, then down from the last one: these it combines apart, to keep the order of the ranks.
 *
 *     receive buffer, or temp in place:  its own rank and those below
 *     temp:                              those above | what comes in
 *
 * What comes in first of either kind goes to its place, and is not copied. Rank 0 has nobody below, and combines those
 * above in the place of the result.
 */
export function reduceScatterPairwise(shape: ReduceScatterShape): Schedule {
  const { rank, size, inPlace, blocks, operator, type } = shape;
  const schedule = new Schedule();
  const source = contributionOf(shape);
  const { offset, bytes } = blocks[rank];
  if (size === 1) return inPlace ? schedule : schedule.copy(source, offset, Role.RECEIVE, 0, bytes);
  // In place, all of the receive buffer is still to be sent.
  const result: Place = [inPlace ? Role.TEMP : Role.RECEIVE, 0];
  const temp = inPlace ? bytes : 0;
  const above: Place = rank === 0 ? result : [Role.TEMP, temp];
  const incoming: Place = [Role.TEMP, rank === 0 ? temp : temp + bytes];
  for (let distance = 1; distance < size; distance++) {
    const [from, to] = [(rank - distance + size) % size, (rank + distance) % size];
    schedule.send(to, source, blocks[to].offset, blocks[to].bytes);
    if (from === rank - 1) {
      schedule.recv(from, ...result, bytes).round();
      schedule.reduce(operator, type, source, offset, ...result, bytes, Order.TARGET_FIRST).round();
    } else if (from === size - 1) {
      schedule.recv(from, ...above, bytes).round();
    } else {
      schedule.recv(from, ...incoming, bytes).round();
      schedule.reduce(operator, type, ...incoming, ...(from > rank ? above : result), bytes).round();
    }
  }
  if (rank === 0) schedule.reduce(operator, type, source, offset, ...result, bytes).round();
  else if (rank < size - 1) schedule.reduce(operator, type, ...above, ...result, bytes, Order.TARGET_FIRST).round();
  return inPlace ? schedule.copy(...result, Role.RECEIVE, 0, bytes) : schedule;
}

/** From rank to rank: each combines what the ranks before it have with its own and sends it on. */
export function scanLinear(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  const schedule = new Schedule();
  const all: Range = [0, bytes];
  const result = new Accumulator(schedule, shape, contributionOf(shape), Role.RECEIVE, 0);
  if (rank > 0) {
    result.recv(rank - 1, all);
    result.combine(all, Order.SOURCE_FIRST);
  }
  if (rank + 1 < size) result.send(rank + 1, all);
  result.settle(all);
  return schedule;
}

/** In step k a rank has the result of the 2^k ranks that end with it, sends it to rank + 2^k and adds rank − 2^k's. */
export function scanDoubling(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  const schedule = new Schedule();
  const all: Range = [0, bytes];
  const result = new Accumulator(schedule, shape, contributionOf(shape), Role.RECEIVE, 0);
  for (let distance = 1; distance < size; distance *= 2) {
    if (rank + distance < size) result.send(rank + distance, all);
    if (rank >= distance) {
      result.recv(rank - distance, all);
      result.combine(all, Order.SOURCE_FIRST);
    }
    schedule.round();
  }
  result.settle(all);
  return schedule;
}

/** As the linear scan, but a rank ends with what the ranks before it have. Rank 0 receives nothing. */
export function exscanLinear(shape: ReduceShape): Schedule {
  const { rank, size, bytes, operator, type } = shape;
  const schedule = new Schedule();
  const source = contributionOf(shape);
  if (rank === 0) return size > 1 ? schedule.send(1, source, 0, bytes) : schedule;
  if (rank + 1 === size) return schedule.recv(rank - 1, Role.RECEIVE, 0, bytes);
  schedule.copy(source, 0, Role.TEMP, 0, bytes);
  // In place, its own contribution must have been copied.
  if (shape.inPlace) schedule.round();
  schedule.recv(rank - 1, Role.RECEIVE, 0, bytes).round();
  schedule.reduce(operator, type, Role.RECEIVE, 0, Role.TEMP, 0, bytes, Order.SOURCE_FIRST).round();
  return schedule.send(rank + 1, Role.TEMP, 0, bytes);
}

/** As the scan by doubling: with its own contribution in temporary memory, and without it in the receive buffer. */
export function exscanDoubling(shape: ReduceShape): Schedule {
  const { rank, size, bytes, operator, type } = shape;
  const schedule = new Schedule();
  const all: Range = [0, bytes];
  const [source, incoming] = [contributionOf(shape), bytes];
  const own = new Accumulator(schedule, shape, source, Role.TEMP, incoming);
  own.settle(all);
  schedule.round();
  for (let distance = 1; distance < size; distance *= 2) {
    if (rank + distance < size) own.send(rank + distance, all);
    if (rank >= distance) own.recv(rank - distance, all);
    schedule.round();
    if (rank < distance) continue;
    if (distance === 1) schedule.copy(Role.TEMP, incoming, Role.RECEIVE, 0, bytes);
    else schedule.reduce(operator, type, Role.TEMP, incoming, Role.RECEIVE, 0, bytes, Order.SOURCE_FIRST);
    own.combine(all, Order.SOURCE_FIRST);
  }
  return schedule;
}
