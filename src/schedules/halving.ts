/**
 * Reductions by recursive halving: a rank keeps one half of what it has and sends the other half to the rank that keeps
 * that, until each rank has the result of one part. Contributions change places, so the operator must commute.
 *
 * Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
 */
import { begin, combine, cut, Fold, IN_RECEIVE, type ReduceShape, type Work } from './combine.js';
import { Order } from './encoding.js';
import type { ReduceScatterShape } from './reduce.js';
import { Role, Schedule } from './schedule.js';
import { endOf } from './shape.js';

type Range = [offset: number, bytes: number];

/** The steps of one rank that takes part, before and after each rank has its part. */
class Halving {
  constructor(
    private readonly schedule: Schedule,
    private readonly shape: ReduceShape,
    private readonly fold: Fold,
    private readonly work: Work,
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
    const { schedule, shape, fold, work } = this;
    for (let half = fold.power / 2; half >= 1; half /= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      const own = this.rangeOf(fold.index, half);
      schedule.send(peer, work.role, ...this.rangeOf(other, half));
      schedule.recv(peer, Role.TEMP, work.incoming, own[1]).round();
      combine(schedule, shape, work, own, peer < shape.rank ? Order.SOURCE_FIRST : Order.TARGET_FIRST);
    }
  }

  /** Recursive doubling: every rank ends with all parts. */
  allgatherParts(): void {
    const { schedule, fold, work } = this;
    for (let half = 1; half < fold.power; half *= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      schedule.send(peer, work.role, ...this.rangeOf(fold.index, half));
      schedule.recv(peer, work.role, ...this.rangeOf(other, half)).round();
    }
  }

  /** Up a binomial tree: the rank of one index ends with all parts. */
  gatherParts(end: number): void {
    const { schedule, fold, work } = this;
    for (let half = 1; half < fold.power; half *= 2) {
      const other = fold.index ^ half;
      const peer = fold.rankOf(other);
      if (((fold.index ^ end) & half) !== 0) {
        schedule.send(peer, work.role, ...this.rangeOf(fold.index, half)).round();
        return;
      }
      schedule.recv(peer, work.role, ...this.rangeOf(other, half)).round();
    }
  }
}

/** Rabenseifner: recursive halving, then recursive doubling hands the parts out. */
export function allreduceRabenseifner(shape: ReduceShape): Schedule {
  const schedule = begin(shape);
  const fold = new Fold(schedule, shape, IN_RECEIVE);
  fold.before();
  if (fold.index >= 0) {
    const halving = new Halving(schedule, shape, fold, IN_RECEIVE, cut(shape, fold.power));
    halving.combineParts();
    halving.allgatherParts();
  }
  fold.after();
  return schedule;
}

/** Rabenseifner: recursive halving, then the root gathers the parts, or the rank beside a root that waits does. */
export function reduceRabenseifner(shape: ReduceShape): Schedule {
  const { rank, root, bytes } = shape;
  const schedule = rank === root ? begin(shape) : new Schedule();
  const work = rank === root ? IN_RECEIVE : { role: Role.TEMP, incoming: bytes };
  const fold = new Fold(schedule, shape, work);
  if (rank !== root && fold.index < 0) return schedule.send(rank + 1, Role.SEND, 0, bytes);
  if (rank !== root) schedule.copy(Role.SEND, 0, Role.TEMP, 0, bytes).round();
  fold.before();
  const end = fold.indexOf(root);
  if (fold.index >= 0) {
    const halving = new Halving(schedule, shape, fold, work, cut(shape, fold.power));
    halving.combineParts();
    halving.gatherParts(end);
  }
  if (!fold.takesPart(root) && (rank === root || fold.index === end)) fold.after();
  return schedule;
}

/** Recursive halving; what a rank and the one that waits beside it get is one part. */
export function reduceScatterHalving(shape: ReduceScatterShape): Schedule {
  const { rank, inPlace, blocks } = shape;
  const schedule = new Schedule();
  const source = inPlace ? Role.RECEIVE : Role.SEND;
  const bytes = endOf(blocks);
  const work = { role: Role.TEMP, incoming: bytes };
  const whole = { ...shape, bytes };
  const fold = new Fold(schedule, whole, work);
  if (fold.index < 0) {
    schedule.send(rank + 1, source, 0, bytes).round();
    return schedule.recv(rank + 1, Role.RECEIVE, 0, blocks[rank].bytes);
  }
  schedule.copy(source, 0, Role.TEMP, 0, bytes).round();
  fold.before();
  const start = (index: number): number => (index === fold.power ? bytes : blocks[fold.firstOf(index)].offset);
  new Halving(schedule, whole, fold, work, start).combineParts();
  if (fold.firstOf(fold.index) < rank) {
    schedule.send(rank - 1, Role.TEMP, blocks[rank - 1].offset, blocks[rank - 1].bytes);
  }
  return schedule.copy(Role.TEMP, blocks[rank].offset, Role.RECEIVE, 0, blocks[rank].bytes);
}
