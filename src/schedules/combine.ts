/** What reductions share: how contributions are combined, cut, and folded to a power of two of ranks. */
import { type ElementType, type Operator, Order } from './encoding.js';
import { Role, Schedule } from './schedule.js';
import type { Shape } from './shape.js';

export interface ReduceShape extends Shape {
  readonly operator: Operator;
  readonly type: ElementType;
  /** Bytes that stay together: of an element, or of a pair. */
  readonly unit: number;
  /** Whether the operands of the operator may change places. Where not, only algorithms that keep them in order run. */
  readonly commutes: boolean;
}

/** Where a rank combines. */
export interface Work {
  /** The result so far, from the beginning on. */
  readonly role: Role;
  /** Where in temporary memory there is room for what comes in. */
  readonly incoming: number;
}

/** In the receive buffer, which has room for the whole result. */
export const IN_RECEIVE: Work = { role: Role.RECEIVE, incoming: 0 };

/** Combines what came in with the result so far, which is at `offset`. */
export function combine(
  schedule: Schedule,
  { operator, type }: ReduceShape,
  { role, incoming }: Work,
  [offset, bytes]: readonly [offset: number, bytes: number],
  order: Order,
): Schedule {
  return schedule.reduce(operator, type, Role.TEMP, incoming, role, offset, bytes, order).round();
}

/** Begins with the rank's own contribution in the receive buffer. */
export function begin({ bytes, inPlace }: ReduceShape): Schedule {
  const schedule = new Schedule();
  return inPlace ? schedule : schedule.copy(Role.SEND, 0, Role.RECEIVE, 0, bytes).round();
}

/** Cuts a message into `parts` of whole units: where part i begins, also for i = parts. */
export function cut({ bytes, unit }: ReduceShape, parts: number): (index: number) => number {
  const units = bytes / unit;
  return (index) => Math.floor((units * index) / parts) * unit;
}

/**
 * The ranks of a reduction that needs a power of two. Of the first 2r ranks, where r are too many, each even one gives
 * its contribution to the odd one beside it, and receives its result in the end.
 */
export class Fold {
  /** How many ranks take part. */
  readonly power: number;
  private readonly rest: number;
  /** The rank among those that take part; -1: it waits. */
  readonly index: number;

  constructor(
    private readonly schedule: Schedule,
    private readonly shape: ReduceShape,
    private readonly work: Work,
  ) {
    this.power = 2 ** Math.floor(Math.log2(shape.size));
    this.rest = shape.size - this.power;
    this.index = this.takesPart(shape.rank) ? this.indexOf(shape.rank) : -1;
  }

  takesPart(rank: number): boolean {
    return rank >= 2 * this.rest || rank % 2 === 1;
  }

  /** The index of a rank, or of the one that has its contribution. */
  indexOf(rank: number): number {
    return rank >= 2 * this.rest ? rank - this.rest : Math.floor(rank / 2);
  }

  rankOf(index: number): number {
    return index < this.rest ? 2 * index + 1 : index + this.rest;
  }

  /** The lowest rank whose contribution an index has; for `power`, the number of ranks. */
  firstOf(index: number): number {
    return index < this.rest ? 2 * index : index + this.rest;
  }

  before(): void {
    const { schedule, shape, work } = this;
    const { rank, bytes } = shape;
    if (!this.takesPart(rank)) {
      schedule.send(rank + 1, work.role, 0, bytes).round();
    } else if (rank < 2 * this.rest) {
      schedule.recv(rank - 1, Role.TEMP, work.incoming, bytes).round();
      combine(schedule, shape, work, [0, bytes], Order.SOURCE_FIRST);
    }
  }

  after(): void {
    const { schedule, shape, work } = this;
    const { rank, bytes } = shape;
    if (!this.takesPart(rank)) schedule.recv(rank + 1, work.role, 0, bytes);
    else if (rank < 2 * this.rest) schedule.send(rank - 1, work.role, 0, bytes);
  }
}
