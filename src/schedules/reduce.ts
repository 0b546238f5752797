/**
 * Reductions to one rank or to all: element by element, the contributions of all ranks combined by an operator.
 *
 * Which contributions are combined in which order depends on the number of ranks and the algorithm only, so a result
 * has the same bits in every run. What comes from lower ranks stands on the left.
 *
 * Source: MPI 4.1, 6.9 (MPI_REDUCE, MPI_ALLREDUCE); R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
 * Communication Operations in MPICH", 2005.
 */
import { type ElementType, type Operator, Order } from './encoding.js';
import { Role, Schedule } from './schedule.js';
import type { Shape } from './shape.js';
import { childrenOf, fromVirtual, parentOf, toVirtual } from './tree.js';

export interface ReduceShape extends Shape {
  readonly operator: Operator;
  readonly type: ElementType;
  /** Bytes that stay together: of an element, or of a pair. */
  readonly unit: number;
}

/** Combines what came into temporary memory with the result so far, in the receive buffer. */
function combine(
  schedule: Schedule,
  { operator, type }: ReduceShape,
  [source, target, bytes]: [temp: number, receive: number, bytes: number],
  order: Order,
): Schedule {
  return schedule.reduce(operator, type, Role.TEMP, source, Role.RECEIVE, target, bytes, order).round();
}

/** Begins with the rank's own contribution in the receive buffer. */
function begin({ bytes, inPlace }: ReduceShape): Schedule {
  const schedule = new Schedule();
  return inPlace ? schedule : schedule.copy(Role.SEND, 0, Role.RECEIVE, 0, bytes).round();
}

/** Every rank sends to the root, which combines them in the order of the ranks. */
export function reduceLinear(shape: ReduceShape): Schedule {
  const { rank, size, root, bytes } = shape;
  if (rank !== root) return new Schedule().send(root, Role.SEND, 0, bytes);
  const schedule = begin(shape);
  for (let peer = 0; peer < size; peer++) if (peer !== root) schedule.recv(peer, Role.TEMP, peer * bytes, bytes);
  schedule.round();
  for (let peer = root - 1; peer >= 0; peer--) {
    combine(schedule, shape, [peer * bytes, 0, bytes], Order.SOURCE_FIRST);
  }
  for (let peer = root + 1; peer < size; peer++) {
    combine(schedule, shape, [peer * bytes, 0, bytes], Order.TARGET_FIRST);
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

/**
 * The ranks of an algorithm that needs a power of two. Of the first 2r ranks, where r are too many, each even one gives
 * its contribution to the odd one beside it, and receives the result in the end.
 */
class Fold {
  readonly power: number;
  private readonly rest: number;
  /** The rank among the `power` ranks that take part; -1: it waits. */
  readonly index: number;

  constructor(
    private readonly schedule: Schedule,
    private readonly shape: ReduceShape,
  ) {
    const { rank, size } = shape;
    this.power = 2 ** Math.floor(Math.log2(size));
    this.rest = size - this.power;
    if (rank >= 2 * this.rest) this.index = rank - this.rest;
    else this.index = rank % 2 === 1 ? (rank - 1) / 2 : -1;
  }

  rankOf(index: number): number {
    return index < this.rest ? 2 * index + 1 : index + this.rest;
  }

  before(): void {
    const { rank, bytes } = this.shape;
    if (rank >= 2 * this.rest) return;
    if (rank % 2 === 0) {
      this.schedule.send(rank + 1, Role.RECEIVE, 0, bytes).round();
    } else {
      this.schedule.recv(rank - 1, Role.TEMP, 0, bytes).round();
      combine(this.schedule, this.shape, [0, 0, bytes], Order.SOURCE_FIRST);
    }
  }

  after(): void {
    const { rank, bytes } = this.shape;
    if (rank >= 2 * this.rest) return;
    if (rank % 2 === 0) this.schedule.recv(rank + 1, Role.RECEIVE, 0, bytes);
    else this.schedule.send(rank - 1, Role.RECEIVE, 0, bytes);
  }
}

/** Recursive doubling: in step k a rank exchanges its result so far with the rank that differs in bit k. */
export function allreduceDoubling(shape: ReduceShape): Schedule {
  const { rank, bytes } = shape;
  const schedule = begin(shape);
  const fold = new Fold(schedule, shape);
  fold.before();
  if (fold.index >= 0) {
    for (let bit = 1; bit < fold.power; bit *= 2) {
      const peer = fold.rankOf(fold.index ^ bit);
      schedule.send(peer, Role.RECEIVE, 0, bytes).recv(peer, Role.TEMP, 0, bytes).round();
      combine(schedule, shape, [0, 0, bytes], peer < rank ? Order.SOURCE_FIRST : Order.TARGET_FIRST);
    }
  }
  fold.after();
  return schedule;
}

/** Cuts a message into `parts` of whole units: where part i begins, also for i = parts. */
function cut({ bytes, unit }: ReduceShape, parts: number): (index: number) => number {
  const units = bytes / unit;
  return (index) => Math.floor((units * index) / parts) * unit;
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
    combine(schedule, shape, [0, offset, bytes], Order.SOURCE_FIRST);
  }
  for (let step = 0; step < size - 1; step++) {
    schedule.send(next, Role.RECEIVE, ...rangeOf((rank + 1 - step + size) % size));
    schedule.recv(previous, Role.RECEIVE, ...rangeOf((rank - step + size) % size)).round();
  }
  return schedule;
}

/**
 * Rabenseifner: recursive halving, in which a rank keeps one half of what it has and sends the other to the rank that
 * keeps that, until each has the result of one part; then recursive doubling hands the parts out.
 */
export function allreduceRabenseifner(shape: ReduceShape): Schedule {
  const { rank } = shape;
  const schedule = begin(shape);
  const fold = new Fold(schedule, shape);
  fold.before();
  if (fold.index >= 0) {
    const start = cut(shape, fold.power);
    /** The parts of a rank when the groups have `width` ranks. */
    const rangeOf = (index: number, width: number): [offset: number, bytes: number] => {
      const first = index & -width;
      return [start(first), start(first + width) - start(first)];
    };
    for (let half = fold.power / 2; half >= 1; half /= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      const [offset, bytes] = rangeOf(fold.index, half);
      schedule
        .send(peer, Role.RECEIVE, ...rangeOf(other, half))
        .recv(peer, Role.TEMP, 0, bytes)
        .round();
      combine(schedule, shape, [0, offset, bytes], peer < rank ? Order.SOURCE_FIRST : Order.TARGET_FIRST);
    }
    for (let half = 1; half < fold.power; half *= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      schedule.send(peer, Role.RECEIVE, ...rangeOf(fold.index, half));
      schedule.recv(peer, Role.RECEIVE, ...rangeOf(other, half)).round();
    }
  }
  fold.after();
  return schedule;
}

export interface ReduceScatterShape extends ReduceShape {
  /** The part of the contribution that each rank gets the result of. */
  readonly blocks: readonly { readonly offset: number; readonly bytes: number }[];
}

/** In step d a rank sends its part of the d-th next rank's result there, and combines that of the d-th previous one. */
export function reduceScatterPairwise(shape: ReduceScatterShape): Schedule {
  const { rank, size, inPlace, blocks, operator, type } = shape;
  const schedule = new Schedule();
  const source = inPlace ? Role.RECEIVE : Role.SEND;
  const { offset, bytes } = blocks[rank];
  schedule.copy(source, offset, Role.TEMP, 0, bytes).round();
  for (let distance = 1; distance < size; distance++) {
    const [from, to] = [(rank - distance + size) % size, (rank + distance) % size];
    schedule.send(to, source, blocks[to].offset, blocks[to].bytes);
    schedule.recv(from, Role.TEMP, bytes, bytes).round();
    const order = from < rank ? Order.SOURCE_FIRST : Order.TARGET_FIRST;
    schedule.reduce(operator, type, Role.TEMP, bytes, Role.TEMP, 0, bytes, order).round();
  }
  return schedule.copy(Role.TEMP, 0, Role.RECEIVE, 0, bytes);
}

/** From rank to rank: each combines what the ranks before it have with its own and sends it on. */
export function scanLinear(shape: ReduceShape): Schedule {
  const { rank, size, bytes } = shape;
  const schedule = begin(shape);
  if (rank > 0) {
    schedule.recv(rank - 1, Role.TEMP, 0, bytes).round();
    combine(schedule, shape, [0, 0, bytes], Order.SOURCE_FIRST);
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
    if (rank >= distance) combine(schedule, shape, [0, 0, bytes], Order.SOURCE_FIRST);
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
