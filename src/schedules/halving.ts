/**
 * Reductions by recursive halving: a rank keeps one half of what it has and sends the other half to the rank that keeps
 * that, until each rank has the result of one part. Contributions change places, so the operator must commute.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
 */
import { Accumulator, contributionOf, cut, Fold, type Range, type ReduceShape } from './combine.js';
import { Order } from './encoding.js';
import type { ReduceScatterShape } from './reduce.js';
import { Role, Schedule } from './schedule.js';
import { endOf } from './shape.js';

/** The steps of one rank that takes part, before and after each rank has its part. */
class Halving {
  constructor(
    private readonly schedule: Schedule,
    private readonly shape: ReduceShape,
    private readonly fold: Fold,
    private readonly result: Accumulator,
    /** Where the part of an index begins, also for `power`. */
    private readonly start: (index: number) => number,
  ) {}

  /** The parts of all indices that differ from this one in less than `width`. */
  private rangeOf(index: number, width: number): Range {
    const first = index & -width;
    return [this.start(first), this.start(first + width) - this.start(first)];
  }

  /** Combines, until the rank has the result of its part. */
  combineParts(): void {
    const { shape, fold, result } = this;
    for (let half = fold.power / 2; half >= 1; half /= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      const own = this.rangeOf(fold.index, half);
      result.send(peer, this.rangeOf(other, half));
      result.recv(peer, own);
      result.combine(own, peer < shape.rank ? Order.SOURCE_FIRST : Order.TARGET_FIRST);
    }
  }

  /** Recursive doubling: every rank ends with all parts. */
  allgatherParts(): void {
    const { schedule, fold, result } = this;
    for (let half = 1; half < fold.power; half *= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      result.send(peer, this.rangeOf(fold.index, half));
      schedule.recv(peer, result.result, ...this.rangeOf(other, half)).round();
    }
  }

  /** Up a binomial tree: the rank of one index ends with all parts. */
  gatherParts(end: number): void {
    const { schedule, fold, result } = this;
    for (let half = 1; half < fold.power; half *= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      if (((fold.index ^ end) & half) !== 0) {
        result.send(peer, this.rangeOf(fold.index, half));
        schedule.round();
        return;
      }
      schedule.recv(peer, result.result, ...this.rangeOf(other, half)).round();
    }
  }
}

/** Rabenseifner: recursive halving, then recursive doubling hands the parts out. */
export function allreduceRabenseifner(shape: ReduceShape): Schedule {
  const { size, bytes } = shape;
  const schedule = new Schedule();
  const result = new Accumulator(schedule, shape, contributionOf(shape), Role.RECEIVE, 0);
  const fold = new Fold(schedule, shape, result);
  if (size === 1) result.settle([0, bytes]);
  fold.before();
  if (fold.index >= 0) {
    const halving = new Halving(schedule, shape, fold, result, cut(shape, fold.power));
    halving.combineParts();
    halving.allgatherParts();
  }
  fold.after();
  return schedule;
}

/** Rabenseifner: recursive halving, then the root gathers the parts, or the rank beside a root that waits does. */
export function reduceRabenseifner(shape: ReduceShape): Schedule {
  const { rank, size, root, bytes } = shape;
  const schedule = new Schedule();
  const result =
    rank === root
      ? new Accumulator(schedule, shape, contributionOf(shape), Role.RECEIVE, 0)
      : new Accumulator(schedule, shape, Role.SEND, Role.TEMP, bytes);
  const fold = new Fold(schedule, shape, result);
  if (rank !== root && fold.index < 0) return schedule.send(rank + 1, Role.SEND, 0, bytes);
  if (size === 1) result.settle([0, bytes]);
  fold.before();
  const end = fold.indexOf(root);
  if (fold.index >= 0) {
    const halving = new Halving(schedule, shape, fold, result, cut(shape, fold.power));
    halving.combineParts();
    halving.gatherParts(end);
  }
  if (!fold.takesPart(root) && (rank === root || fold.index === end)) fold.after();
  return schedule;
}

/** Recursive halving; what a rank and the one that waits beside it get is one part. */
export function reduceScatterHalving(shape: ReduceScatterShape): Schedule {
  const { rank, size, blocks } = shape;
  const schedule = new Schedule();
  const source = contributionOf(shape);
  const bytes = endOf(blocks);
  const whole = { ...shape, bytes };
  const result = new Accumulator(schedule, whole, source, Role.TEMP, bytes);
  const fold = new Fold(schedule, whole, result);
  if (fold.index < 0) {
    schedule.send(rank + 1, source, 0, bytes).round();
    return schedule.recv(rank + 1, Role.RECEIVE, 0, blocks[rank].bytes);
  }
  if (size === 1) return source === Role.SEND ? schedule.copy(source, 0, Role.RECEIVE, 0, bytes) : schedule;
  fold.before();
  const start = (index: number): number => (index === fold.power ? bytes : blocks[fold.firstOf(index)].offset);
  new Halving(schedule, whole, fold, result, start).combineParts();
  if (fold.firstOf(fold.index) < rank) {
    schedule.send(rank - 1, Role.TEMP, blocks[rank - 1].offset, blocks[rank - 1].bytes);
  }
  return schedule.copy(Role.TEMP, blocks[rank].offset, Role.RECEIVE, 0, blocks[rank].bytes);
}
