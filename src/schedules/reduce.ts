/**
 * Reductions to one rank or to all: element by element, the contributions of all ranks combined by an operator.
 *
 * Which contributions are combined in which order depends on the number of ranks and the algorithm only, so a result
 * has the same bits in every run. What comes from lower ranks stands on the left.
 *
 * Source: MPI 4.1, 6.9 (MPI_REDUCE, MPI_ALLREDUCE); R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
 * Communication Operations in MPICH", 2005.
 */
import { begin, combine, cut, Fold, IN_RECEIVE, type ReduceShape } from './combine.js';
import { Order } from './encoding.js';
import { Role, Schedule } from './schedule.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

/** Every rank sends to the root, which combines them in the order of the ranks. */
export function reduceLinear(shape: ReduceShape): Schedule {
  const { rank, size, root, bytes } = shape;
  if (rank !== root) return new Schedule().send(root, Role.SEND, 0, bytes);
  const schedule = begin(shape);
  for (let peer = 0; peer < size; peer++) if (peer !== root) schedule.recv(peer, Role.TEMP, peer * bytes, bytes);
  schedule.round();
  for (let peer = root - 1; peer >= 0; peer--) {
    combine(schedule, shape, { role: Role.RECEIVE, incoming: peer * bytes }, [0, bytes], Order.SOURCE_FIRST);
  }
  for (let peer = root + 1; peer < size; peer++) {
    combine(schedule, shape, { role: Role.RECEIVE, incoming: peer * bytes }, [0, bytes], Order.TARGET_FIRST);
  }
  return schedule;
}

/** Up the binomial tree: a rank combines its contribution with those of its subtrees. */
export function reduceBinomial(shape: ReduceShape): Schedule {
  const { rank, size, root, bytes, operator, type } = shape;
  const virtual = toVirtual(rank, root, size);
  const children = childrenOf(virtual, size);
  const parent = fromVirtual(parentOf(virtual), root, size);
  if (virtual !== 0 && children.length === 0) return new Schedule().send(parent, Role.SEND, 0, bytes);

  // The root collects in its receive buffer, other ranks in temporary memory.
  const result = virtual === 0 ? Role.RECEIVE : Role.TEMP;
  const schedule = virtual === 0 ? begin(shape) : new Schedule().copy(Role.SEND, 0, Role.TEMP, 0, bytes);
  for (const [index, child] of children.entries()) {
    schedule.recv(fromVirtual(child.virtual, root, size), Role.TEMP, (1 + index) * bytes, bytes);
  }
  schedule.round();
  for (const index of children.keys()) {
    schedule.reduce(operator, type, Role.TEMP, (1 + index) * bytes, result, 0, bytes, Order.TARGET_FIRST);
  }
  schedule.round();
  return virtual === 0 ? schedule : schedule.send(parent, Role.TEMP, 0, bytes);
}

/** Recursive doubling: in step k a rank exchanges its result so far with the rank that differs in bit k. */
export function allreduceDoubling(shape: ReduceShape): Schedule {
  const { rank, bytes } = shape;
  const schedule = begin(shape);
  const fold = new Fold(schedule, shape, IN_RECEIVE);
  fold.before();
  if (fold.index >= 0) {
    for (let bit = 1; bit < fold.power; bit *= 2) {
      const peer = fold.rankOf(fold.index ^ bit);
      schedule.send(peer, Role.RECEIVE, 0, bytes).recv(peer, Role.TEMP, 0, bytes).round();
      combine(schedule, shape, IN_RECEIVE, [0, bytes], peer < rank ? Order.SOURCE_FIRST : Order.TARGET_FIRST);
    }
  }
  fold.after();
  return schedule;
}

/** A ring: in p − 1 steps every part of the message is combined as it goes round, in p − 1 more it is handed out. */
export function allreduceRing(shape: ReduceShape): Schedule {
  const { rank, size } = shape;
  const schedule = begin(shape);
  const start = cut(shape, size);
  const [previous, next] = [(rank - 1 + size) % size, (rank + 1) % size];
  const rangeOf = (part: number): [offset: number, bytes: number] => [start(part), start(part + 1) - start(part)];
  for (let step = 0; step < size - 1; step++) {
    const [offset, bytes] = rangeOf((rank - step - 1 + size) % size);
    schedule.send(next, Role.RECEIVE, ...rangeOf((rank - step + size) % size));
    schedule.recv(previous, Role.TEMP, 0, bytes).round();
    combine(schedule, shape, IN_RECEIVE, [offset, bytes], Order.SOURCE_FIRST);
  }
  for (let step = 0; step < size - 1; step++) {
    schedule.send(next, Role.RECEIVE, ...rangeOf((rank + 1 - step + size) % size));
    schedule.recv(previous, Role.RECEIVE, ...rangeOf((rank - step + size) % size)).round();
  }
  return schedule;
}

export interface ReduceScatterShape extends ReduceShape {
  /** The part of the contribution that each rank gets the result of. */
  readonly blocks: readonly { readonly offset: number; readonly bytes: number }[];
}

/**
 * In step d a rank sends its part of the d-th next rank's result there, and combines that of the d-th previous one. So
 * it goes down the ranks to 0, then down from the last one: these it combines apart, to keep the order of the ranks.
 *
 *     temp:  | its own rank and those below | those above | what comes in
 */
export function reduceScatterPairwise(shape: ReduceScatterShape): Schedule {
  const { rank, size, inPlace, blocks, operator, type } = shape;
  const schedule = new Schedule();
  const source = inPlace ? Role.RECEIVE : Role.SEND;
  const { offset, bytes } = blocks[rank];
  schedule.copy(source, offset, Role.TEMP, 0, bytes).round();
  for (let distance = 1; distance < size; distance++) {
    const [from, to] = [(rank - distance + size) % size, (rank + distance) % size];
    const above = from > rank;
    const first = from === size - 1;
    const incoming = first ? bytes : 2 * bytes;
    schedule.send(to, source, blocks[to].offset, blocks[to].bytes);
    schedule.recv(from, Role.TEMP, incoming, bytes).round();
    if (first) continue;
    schedule.reduce(operator, type, Role.TEMP, incoming, Role.TEMP, above ? bytes : 0, bytes).round();
  }
  if (rank < size - 1) schedule.reduce(operator, type, Role.TEMP, bytes, Role.TEMP, 0, bytes, Order.TARGET_FIRST);
  return schedule.copy(Role.TEMP, 0, Role.RECEIVE, 0, bytes);
}

/** From rank to rank: each combines what the ranks before it have with its own and sends it on. */
export function scanLinear(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  const schedule = begin(shape);
  if (rank > 0) {
    schedule.recv(rank - 1, Role.TEMP, 0, bytes).round();
    combine(schedule, shape, IN_RECEIVE, [0, bytes], Order.SOURCE_FIRST);
  }
  return rank + 1 < size ? schedule.send(rank + 1, Role.RECEIVE, 0, bytes) : schedule;
}

/** In step k a rank has the result of the 2^k ranks that end with it, sends it to rank + 2^k and adds rank − 2^k's. */
export function scanDoubling(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  const schedule = begin(shape);
  for (let distance = 1; distance < size; distance *= 2) {
    if (rank + distance < size) schedule.send(rank + distance, Role.RECEIVE, 0, bytes);
    if (rank >= distance) schedule.recv(rank - distance, Role.TEMP, 0, bytes);
    schedule.round();
    if (rank >= distance) combine(schedule, shape, IN_RECEIVE, [0, bytes], Order.SOURCE_FIRST);
  }
  return schedule;
}

/** Begins with the rank's own contribution in temporary memory. */
function beginApart({ bytes, inPlace }: ReduceShape): Schedule {
  return new Schedule().copy(inPlace ? Role.RECEIVE : Role.SEND, 0, Role.TEMP, 0, bytes).round();
}

/** As the linear scan, but a rank ends with what the ranks before it have. Rank 0 receives nothing. */
export function exscanLinear(shape: ReduceShape): Schedule {
  const { rank, size, bytes, operator, type } = shape;
  const schedule = beginApart(shape);
  if (rank > 0) {
    schedule.recv(rank - 1, Role.RECEIVE, 0, bytes).round();
    schedule.reduce(operator, type, Role.RECEIVE, 0, Role.TEMP, 0, bytes, Order.SOURCE_FIRST).round();
  }
  return rank + 1 < size ? schedule.send(rank + 1, Role.TEMP, 0, bytes) : schedule;
}

/** As the scan by doubling: with its own contribution in temporary memory, and without it in the receive buffer. */
export function exscanDoubling(shape: ReduceShape): Schedule {
  const { rank, size, bytes, operator, type } = shape;
  const schedule = beginApart(shape);
  for (let distance = 1; distance < size; distance *= 2) {
    if (rank + distance < size) schedule.send(rank + distance, Role.TEMP, 0, bytes);
    if (rank >= distance) schedule.recv(rank - distance, Role.TEMP, bytes, bytes);
    schedule.round();
    if (rank < distance) continue;
    if (distance === 1) schedule.copy(Role.TEMP, bytes, Role.RECEIVE, 0, bytes);
    else schedule.reduce(operator, type, Role.TEMP, bytes, Role.RECEIVE, 0, bytes, Order.SOURCE_FIRST);
    schedule.reduce(operator, type, Role.TEMP, bytes, Role.TEMP, 0, bytes, Order.SOURCE_FIRST).round();
  }
  return schedule;
}
