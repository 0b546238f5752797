/**
 * Compiled schedules of one operation on one communicator, by shape and never by buffer: a program that repeats an
 * operation builds its schedule once.
 */
import { ArgumentError, show } from './errors.js';
import type { Native } from './native.js';
import { errorFromNative } from './native-errors.js';
import { type Data, Layout } from './layouts.js';
import { type Algorithm, Call, type Caller, type Counts, type Operation } from './operations/operation.js';
import type { Placement } from './operations/parts.js';
import type { Op } from './operators.js';
import { type Box, textOfBox } from './schedules/box.js';
import type { ReduceShape } from './schedules/combine.js';
import { withLayouts } from './schedules/layout.js';
import { Schedule } from './schedules/schedule.js';
import type { Shape } from './schedules/shape.js';
import { bytesOf, IN_PLACE, type InPlace } from './views.js';

/** Plans kept per operation. Programs have a handful of shapes; a bound is for those that never repeat one. */
const MAX_PLANS = 256;

/** The communicator that plans belong to. */
export interface Owner extends Caller {
  readonly handle: number;
  readonly world: { readonly rank: number; readonly native: Native };
  requireOpen(operation: string): void;
}

/** What users pass to every collective, beside its arguments. */
export interface Hints {
  algorithm?: string | undefined;
}

/** A buffer argument. Programs in JavaScript may pass anything else: to find that out is the look-up's work. */
export type MaybeBuffer = Data | InPlace | null;

const NO_LISTS: readonly never[] = [];

/** Equals no constructor, no byte count and no rank, so that a call never equals a forgotten one. */
const NOTHING = Symbol('nothing');

/** Compiled schedules by key. The one that was kept longest makes room for another. */
export class PlanStore {
  private readonly plans = new Map<number | string, number>();

  constructor(
    private readonly owner: Owner,
    private readonly messages = false,
  ) {}

  get(key: number | string): number | undefined {
    return this.plans.get(key);
  }

  /** Compiles a schedule for an operation. */
  add(key: number | string, schedule: Schedule, operation: string, op?: Op): number {
    const { handle, world } = this.owner;
    let plan: number;
    try {
      plan = world.native.compile(handle, schedule.encode(), this.messages, op?.id, op?.source instanceof URL);
    } catch (thrown) {
      throw errorFromNative(thrown, { operation, rank: world.rank });
    }
    if (this.plans.size >= MAX_PLANS) {
      const [oldest, old] = this.plans.entries().next().value!;
      this.plans.delete(oldest);
      world.native.releasePlan(old);
    }
    this.plans.set(key, plan);
    return plan;
  }

  /** Gives all plans back. */
  release(): void {
    for (const plan of this.plans.values()) this.owner.world.native.releasePlan(plan);
    this.plans.clear();
  }
}

/** The layouts of a call's buffers; null for a buffer whose elements are one behind the other. */
export class Layouts {
  readonly send: Box | null;
  readonly recv: Box | null;

  constructor(send: unknown, recv: unknown) {
    this.send = boxOf(send);
    this.recv = boxOf(recv);
  }

  /** As part of what tells shapes apart; undefined: there is none. */
  get detail(): string | undefined {
    const { send, recv } = this;
    if (send === null && recv === null) return undefined;
    return ` layouts ${send === null ? '' : textOfBox(send)} / ${recv === null ? '' : textOfBox(recv)}`;
  }

  apply(schedule: Schedule): Schedule {
    const { send, recv } = this;
    return send === null && recv === null ? schedule : withLayouts(schedule, send, recv);
  }
}

function boxOf(buffer: unknown): Box | null {
  return buffer instanceof Layout && buffer.box.steps.length > 0 ? buffer.box : null;
}

export class PlanCache {
  // The last call: most programs repeat one for a while, and then these comparisons are all of the look-up.
  private sendKind: unknown = NOTHING;
  private recvKind: unknown = NOTHING;
  private sendBytes = NaN;
  private recvBytes = NaN;
  private root = NaN;
  private op: Op | undefined = undefined;
  private plan = -1;

  private readonly plans: PlanStore;

  constructor(
    private readonly owner: Owner,
    readonly operation: Operation,
  ) {
    this.plans = new PlanStore(owner);
  }

  /**
   * The plan of a call, compiled if need be.
   * @throws {ClosedError} if the communicator is closed (closing it forgets the last call)
   * @throws {ArgumentError} naming the argument
   */
  find(send: MaybeBuffer, recv: MaybeBuffer, root: number, hints: Hints | undefined, op?: Op): number {
    if (
      hints === undefined &&
      root === this.root &&
      op === this.op &&
      sizeOf(recv) === this.recvBytes &&
      kindOf(recv) === this.recvKind &&
      sizeOf(send) === this.sendBytes &&
      kindOf(send) === this.sendKind
    ) {
      return this.plan;
    }
    const plan = this.lookUp(this.operation.name, send, recv, root, NO_LISTS, hints, op);
    if (hints === undefined && !(send instanceof Layout || recv instanceof Layout)) {
      this.remember(send, recv, root, op, plan);
    }
    return plan;
  }

  /**
   * As {@link find}, of an operation with counts and displacements: these are looked at in every call.
   * @param called the method that was called, for errors: the operation's, or its persistent form
   */
  lookUp(
    called: string,
    send: MaybeBuffer | Placement,
    recv: MaybeBuffer,
    root: number,
    lists: readonly (Counts | null | undefined)[],
    hints: Hints | undefined,
    op?: Op,
  ): number {
    const { operation, owner } = this;
    owner.requireOpen(called);
    const call = new Call(called, owner, send, recv, root, lists, op);
    const shape = operation.shape(call);
    const index = this.indexOf(hints?.algorithm, called);
    const layouts = new Layouts(send, recv);
    const key = keyOf(shape, index, operation.algorithms.length, layouts.detail);
    const plan = this.plans.get(key);
    if (plan !== undefined) return plan;
    operation.check?.(call);
    return this.compile(key, shape, index, layouts, called, op);
  }

  /** The next call is looked up. */
  forget(): void {
    this.root = NaN;
  }

  /** Gives all plans back. */
  release(): void {
    this.forget();
    this.plans.release();
  }

  private remember(send: MaybeBuffer, recv: MaybeBuffer, root: number, op: Op | undefined, plan: number): void {
    this.sendKind = kindOf(send);
    this.recvKind = kindOf(recv);
    this.sendBytes = sizeOf(send);
    this.recvBytes = sizeOf(recv);
    this.root = root;
    this.op = op;
    this.plan = plan;
  }

  /** Index of an algorithm that the caller names; -1: the operation chooses. */
  private indexOf(algorithm: string | undefined, called: string): number {
    if (algorithm === undefined) return -1;
    const { algorithms } = this.operation;
    const index = algorithms.findIndex((row) => row.name === algorithm);
    if (index >= 0) return index;
    const names = algorithms.map((row) => `'${row.name}'`).join(', ');
    const context = { operation: called, rank: this.owner.world.rank };
    throw new ArgumentError('algorithm', `${called} has ${names}, but not ${show(algorithm)}`, context);
  }

  /** @throws {ArgumentError} if the caller names one that gives an operator its operands in the wrong order */
  private suited(algorithm: Algorithm, shape: Shape, called: string): Algorithm {
    if (algorithm.reorders !== true || (shape as Partial<ReduceShape>).commutes !== false) return algorithm;
    const context = { operation: called, rank: this.owner.world.rank };
    throw new ArgumentError('algorithm', `${algorithm.name} needs an operator that commutes`, context);
  }

  private compile(
    key: number | string,
    shape: Shape,
    index: number,
    layouts: Layouts,
    called: string,
    op: Op | undefined,
  ): number {
    const { operation } = this;
    const chosen = index >= 0 ? index : this.indexOf(operation.choose(shape), called);
    // The plan of the last call may have to make room.
    this.forget();
    const schedule = this.suited(operation.algorithms[chosen], shape, called).build(shape);
    return this.plans.add(key, layouts.apply(schedule), called, op);
  }
}

/** Compiled schedules of the user's own, by schedule: one that is started again is not compiled again. */
export class OwnPlans {
  private readonly plans = new Map<Schedule, { plan: number; words: number }>();

  constructor(private readonly owner: Owner) {}

  /**
   * @throws {ClosedError} if the communicator is closed
   * @throws {ArgumentError} for what is no schedule
   * @throws {ScheduleError} for one that cannot run on this communicator
   */
  find(schedule: Schedule): number {
    const { owner, plans } = this;
    const context = { operation: 'start', rank: owner.world.rank };
    owner.requireOpen('start');
    if (!((schedule as unknown) instanceof Schedule)) {
      throw new ArgumentError('schedule', `must be a Schedule of node-nbc/schedules, not ${show(schedule)}`, context);
    }
    const words = schedule.words32;
    const known = plans.get(schedule);
    if (known?.words === words) return known.plan;
    let plan: number;
    try {
      plan = owner.world.native.compile(owner.handle, schedule.encode());
    } catch (thrown) {
      throw errorFromNative(thrown, context);
    }
    if (known !== undefined) this.drop(schedule, known.plan);
    if (plans.size >= MAX_PLANS) {
      const [oldest, { plan: kept }] = plans.entries().next().value!;
      this.drop(oldest, kept);
    }
    plans.set(schedule, { plan, words });
    return plan;
  }

  /** Gives all plans back. */
  release(): void {
    for (const [schedule, { plan }] of this.plans) this.drop(schedule, plan);
  }

  private drop(schedule: Schedule, plan: number): void {
    this.plans.delete(schedule);
    this.owner.world.native.releasePlan(plan);
  }
}

/** A number, and a text where numbers do not suffice. */
function keyOf(shape: Shape, index: number, algorithms: number, layouts?: string): number | string {
  const { bytes, size, root, inPlace, detail } = shape;
  const number = ((bytes * size + root) * (1 + algorithms) + 1 + index) * 2 + (inPlace ? 1 : 0);
  // Above 2^53 two shapes could have the same number: from some 100 GiB in each of 1024 blocks on.
  const key = Number.isSafeInteger(number) ? number : `${bytes} ${root} ${index} ${inPlace}`;
  if (layouts !== undefined) return `${key} ${detail ?? ''}${layouts}`;
  return detail === undefined ? key : `${key} ${detail}`;
}

/** What a buffer is, as far as two calls are compared: the class of a view says the type of its elements. */
function kindOf(buffer: MaybeBuffer): unknown {
  return isView(buffer) ? buffer.constructor : buffer;
}

function sizeOf(buffer: MaybeBuffer): number {
  return !isView(buffer) ? 0 : bytesOf(buffer);
}

/** A layout passes for one, too, and has no bytes to tell: it equals nothing that is remembered. */
function isView(buffer: MaybeBuffer): buffer is ArrayBufferView {
  return buffer != null && buffer !== IN_PLACE;
}
