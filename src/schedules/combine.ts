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

/** The other operand on the left. */
export function flipped(order: Order): Order {
  return order === Order.SOURCE_FIRST ? Order.TARGET_FIRST : Order.SOURCE_FIRST;
}

/** Where a rank's contribution is, in operations whose ranks all get a result. */
export function contributionOf({ inPlace }: Shape): Role {
  return inPlace ? Role.RECEIVE : Role.SEND;
}

/** A part of the message, in bytes. */
export type Range = readonly [offset: number, bytes: number];

/**
 * What a rank has combined so far. Its own contribution is never copied: what comes in first goes to the place of the
 * result, and is combined with the contribution there; what comes in later waits in temporary memory.
 */
export class Accumulator {
  private combined: boolean;

  /**
   * @param contribution where it is
   * @param result where the result is to be; at the same offsets
   * @param incoming where in temporary memory there is room for what comes in
   */
  constructor(
    private readonly schedule: Schedule,
    private readonly shape: ReduceShape,
    private readonly contribution: Role,
    readonly result: Role,
    private readonly incoming: number,
  ) {
    this.combined = contribution === result;
  }

  /** Where the result so far is. */
  get role(): Role {
    return this.combined ? this.result : this.contribution;
  }

  send(peer: number, [offset, bytes]: Range): void {
    this.schedule.send(peer, this.role, offset, bytes);
  }

  /** What is to be combined in a later round. */
  recv(peer: number, [offset, bytes]: Range): void {
    if (this.combined) this.schedule.recv(peer, Role.TEMP, this.incoming, bytes);
    else this.schedule.recv(peer, this.result, offset, bytes);
  }

  /** Combines what came in (the source), in a round of its own. Later ranges must be inside this one. */
  combine([offset, bytes]: Range, order: Order): void {
    const { schedule, contribution, result, incoming } = this;
    const { operator, type } = this.shape;
    schedule.round();
    if (this.combined) schedule.reduce(operator, type, Role.TEMP, incoming, result, offset, bytes, order);
    else schedule.reduce(operator, type, contribution, offset, result, offset, bytes, flipped(order));
    schedule.round();
    this.combined = true;
  }

  /** The contribution goes to the place of the result, if nothing has been combined with it. */
  settle([offset, bytes]: Range): void {
    if (this.combined) return;
    this.schedule.copy(this.contribution, offset, this.result, offset, bytes);
    this.combined = true;
  }
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
    private readonly result: Accumulator,
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
    const { result } = this;
    const { rank, bytes } = this.shape;
    if (!this.takesPart(rank)) {
      result.send(rank + 1, [0, bytes]);
      this.schedule.round();
    } else if (rank < 2 * this.rest) {
      result.recv(rank - 1, [0, bytes]);
      result.combine([0, bytes], Order.SOURCE_FIRST);
    }
  }

  after(): void {
    const { schedule, result } = this;
    const { rank, bytes } = this.shape;
    if (!this.takesPart(rank)) schedule.recv(rank + 1, result.result, 0, bytes);
    else if (rank < 2 * this.rest) result.send(rank - 1, [0, bytes]);
  }
}
