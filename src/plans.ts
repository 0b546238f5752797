/**
 * Compiled schedules of one operation on one communicator, by shape and never by buffer: a program that repeats an
 * operation builds its schedule once.
 */
import { ArgumentError, type ErrorContext, show } from './errors.js';
import { BoundCalls, type Like, type Lists } from './bound-calls.js';
import type { Native } from './native.js';
import { errorFromFailure, errorFromNative } from './native-errors.js';
import { isView, Layout, type MaybeBuffer, sizeOf } from './layouts.js';
import { type Algorithm, Call, type Caller, checkData, type Counts, type Operation } from './operations/operation.js';
import type { Placement } from './operations/parts.js';
import { RecentParts } from './operations/recent-parts.js';
import type { Op } from './operators.js';
import { Recent } from './recent.js';
import { type Box, textOfBox } from './schedules/box.js';
import type { ReduceShape } from './schedules/combine.js';
import { withLayouts } from './schedules/layout.js';
import { decodeSchedule, Schedule } from './schedules/schedule.js';
import type { Shape } from './schedules/shape.js';
import { bytesOfCall, type Compound, OWN_SCHEDULE, signatureOf, signatureOfPart } from './signatures.js';

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

/** Of operations without counts. */
export const NO_LISTS: readonly never[] = [];

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

  /**
   * Compiles a schedule for an operation.
   * @param name what traces and reports call it
   * @param signature of the call that it is for, with the bytes that its caller names
   */
  add(
    key: number | string,
    schedule: Schedule,
    operation: string,
    op?: Op,
    name = operation,
    signature?: { value: number; bytes: number | undefined },
  ): number {
    const { handle, world } = this.owner;
    const inWorker = op?.source instanceof URL;
    let plan: number;
    try {
      const { value, bytes } = signature ?? {};
      plan = world.native.compile(handle, schedule.encode(), this.messages, op?.id, inWorker, name, value, bytes);
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

/** Longest list of counts that is remembered; longer ones are looked up. */
const MAX_REMEMBERED_COUNTS = 4096;

/** What kinds of buffers a remembered call had. */
interface Remembered extends Like {
  readonly sendKind: unknown;
  readonly recvKind: unknown;
}

export class PlanCache {
  /** A call that equals one of these needs no more than these comparisons. */
  private readonly recent = new Recent<Remembered>();

  private readonly plans: PlanStore;
  /** Of an exchange of parts. */
  readonly recentParts: RecentParts;
  private readonly bound: BoundCalls;
  /** The operation's: entries of the table have many forms, and every start needs it. */
  readonly name: string;

  constructor(
    private readonly owner: Owner,
    readonly operation: Operation,
    /** What the calls are parts of, on a communicator that is there for that. */
    private readonly compound?: Compound,
  ) {
    this.name = operation.name;
    this.plans = new PlanStore(owner);
    this.bound = new BoundCalls(owner.world.native);
    this.recentParts = new RecentParts(owner.world.native);
  }

  /**
   * The plan of a call, compiled if need be; perhaps bound to its buffers.
   * @param called the method that was called, for errors: the operation's, or its persistent form
   * @throws {ClosedError} if the communicator is closed (closing it forgets all calls)
   * @throws {ArgumentError} naming the argument
   */
  find(
    send: MaybeBuffer,
    recv: MaybeBuffer,
    root: number,
    lists: Lists,
    hints: Hints | undefined,
    op?: Op,
    called: string = this.operation.name,
  ): number {
    const algorithm = hints?.algorithm;
    const bound = this.bound.calls;
    for (let i = 0; i < bound.length; i++) {
      const call = bound[i];
      const { like } = call;
      if (
        recv === call.recv &&
        send === call.send &&
        root === like.root &&
        op === like.op &&
        algorithm === like.algorithm &&
        call.recvMemory.byteLength > 0 &&
        call.sendMemory.byteLength > 0 &&
        (lists === like.lists || sameLists(lists, like.lists))
      ) {
        return call.plan;
      }
    }
    const recent = this.recent.items;
    for (let i = 0; i < recent.length; i++) {
      const call = recent[i];
      if (
        root === call.root &&
        op === call.op &&
        algorithm === call.algorithm &&
        sizeOf(recv) === call.recvBytes &&
        kindOf(recv) === call.recvKind &&
        sizeOf(send) === call.sendBytes &&
        kindOf(send) === call.sendKind &&
        (lists === call.lists || sameLists(lists, call.lists))
      ) {
        return this.bound.meet(send, recv, call);
      }
    }
    const plan = this.lookUp(called, send, recv, root, lists, algorithm, op);
    this.remember(send, recv, root, lists, algorithm, op, plan);
    return plan;
  }

  /** As {@link find}, of a call that is not remembered: all arguments are checked. */
  lookUp(
    called: string,
    send: MaybeBuffer | Placement,
    recv: MaybeBuffer,
    root: number,
    lists: Lists,
    algorithm: string | undefined,
    op?: Op,
  ): number {
    const { operation, owner } = this;
    owner.requireOpen(called);
    const call = new Call(called, owner, send, recv, root, lists, op);
    const shape = operation.shape(call);
    const index = this.indexOf(algorithm, called);
    const layouts = new Layouts(send, recv);
    const key = keyOf(shape, index, operation.algorithms.length, layouts.detail);
    const plan = this.plans.get(key);
    if (plan !== undefined) return plan;
    operation.check?.(call);
    return this.compile(key, shape, index, layouts, called, op);
  }

  /** Native code is gone: every next call is looked up. */
  forget(): void {
    this.recent.clear();
    this.recentParts.forget();
    this.bound.forget();
  }

  /** Gives all plans back. */
  release(): void {
    this.unbind();
    this.forget();
    this.plans.release();
  }

  private unbind(): void {
    this.bound.release();
    this.recentParts.release();
  }

  private remember(
    send: MaybeBuffer,
    recv: MaybeBuffer,
    root: number,
    lists: Lists,
    algorithm: string | undefined,
    op: Op | undefined,
    plan: number,
  ): void {
    if (send instanceof Layout || recv instanceof Layout) return;
    if (lists.some((list) => list != null && !(list.length <= MAX_REMEMBERED_COUNTS))) return;
    this.recent.add({
      sendKind: kindOf(send),
      recvKind: kindOf(recv),
      sendBytes: sizeOf(send),
      recvBytes: sizeOf(recv),
      root,
      algorithm,
      op,
      lists: lists.length === 0 ? NO_LISTS : lists.map((list) => list && Array.from(list)),
      plan,
    });
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
    const { operation, compound } = this;
    const chosen = index >= 0 ? index : this.indexOf(operation.choose(shape), called);
    // The plan of a remembered call may have to make room.
    this.unbind();
    this.forget();
    const algorithm = this.suited(operation.algorithms[chosen], shape, called);
    const name = `${compound === undefined ? '' : `${compound}: `}${operation.name} (${algorithm.name})`;
    const signature =
      compound === undefined
        ? { value: signatureOf(operation, shape, chosen, op), bytes: bytesOfCall(operation, shape) }
        : { value: signatureOfPart(compound, operation, shape), bytes: undefined };
    return this.plans.add(key, layouts.apply(algorithm.build(shape)), called, op, name, signature);
  }
}

/** What a schedule of the user's own has been compiled to. */
interface OwnSchedule {
  /** Its length then. */
  readonly words: number;
  /** Plans by the layouts of its buffers; undefined: their elements are one behind the other. */
  readonly plans: Map<string | undefined, number>;
}

/**
 * Compiled schedules of the user's own, by schedule and by the layouts of the buffers: what is started again is not
 * compiled again.
 */
export class OwnPlans {
  private readonly schedules = new Map<Schedule, OwnSchedule>();
  /** How many plans there are. */
  private kept = 0;

  constructor(private readonly owner: Owner) {}

  /**
   * @throws {ClosedError} if the communicator is closed
   * @throws {ArgumentError} for what is no schedule, and for layouts that it cannot run on
   * @throws {ScheduleError} for one that cannot run on this communicator
   */
  find(schedule: Schedule, send: MaybeBuffer, recv: MaybeBuffer): number {
    this.owner.requireOpen('start');
    if (!((schedule as unknown) instanceof Schedule)) {
      const message = `must be a Schedule of node-nbc/schedules, not ${show(schedule)}`;
      throw new ArgumentError('schedule', message, this.context);
    }
    const layouts = new Layouts(send, recv);
    const { detail } = layouts;
    const known = this.schedules.get(schedule);
    if (known !== undefined && known.words !== schedule.words32) {
      this.forget(schedule, known);
      return this.add(schedule, layouts, send, recv);
    }
    return known?.plans.get(detail) ?? this.add(schedule, layouts, send, recv);
  }

  /** Gives all plans back. */
  release(): void {
    for (const [schedule, known] of this.schedules) this.forget(schedule, known);
  }

  private add(schedule: Schedule, layouts: Layouts, send: MaybeBuffer, recv: MaybeBuffer): number {
    let plan = this.compile(schedule);
    if (layouts.detail !== undefined) {
      // Compiled first as it is: a ScheduleError names a word of the schedule that the program has written.
      this.owner.world.native.releasePlan(plan);
      const { sendBytes, receiveBytes } = decodeSchedule(schedule.encode());
      this.checkLayout(send, 'send', sendBytes);
      this.checkLayout(recv, 'recv', receiveBytes);
      plan = this.compile(layouts.apply(schedule));
    }
    if (this.kept >= MAX_PLANS) this.makeRoom();
    const known = this.schedules.get(schedule) ?? { words: schedule.words32, plans: new Map() };
    known.plans.set(layouts.detail, plan);
    this.schedules.set(schedule, known);
    this.kept++;
    return plan;
  }

  private compile(schedule: Schedule): number {
    const { handle, world } = this.owner;
    try {
      return world.native.compile(handle, schedule.encode(), false, undefined, false, 'schedule', OWN_SCHEDULE);
    } catch (thrown) {
      throw errorFromNative(thrown, this.context);
    }
  }

  /** Native code checks views. What is packed is memory of the operation, and it does not know how much of it. */
  private checkLayout(buffer: MaybeBuffer, argument: 'send' | 'recv', least: number): void {
    if (!(buffer instanceof Layout)) return;
    const { bytes } = checkData(buffer, argument, argument === 'recv', this.context);
    if (bytes >= least) return;
    throw errorFromFailure({ code: 'ERR_NBC_ARGUMENT', argument, reason: 'tooSmall', bytes, least }, '', this.context);
  }

  /** Drops the oldest plan of the oldest schedule. */
  private makeRoom(): void {
    const [schedule, { plans }] = this.schedules.entries().next().value!;
    const [detail, plan] = plans.entries().next().value!;
    this.drop(plans, detail, plan);
    if (plans.size === 0) this.schedules.delete(schedule);
  }

  private forget(schedule: Schedule, { plans }: OwnSchedule): void {
    this.schedules.delete(schedule);
    for (const [detail, plan] of plans) this.drop(plans, detail, plan);
  }

  private drop(plans: OwnSchedule['plans'], detail: string | undefined, plan: number): void {
    plans.delete(detail);
    this.kept--;
    this.owner.world.native.releasePlan(plan);
  }

  private get context(): ErrorContext {
    return { operation: 'start', rank: this.owner.world.rank };
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

function sameLists(now: Lists, then: Lists): boolean {
  for (let i = 0; i < then.length; i++) if (!sameNumbers(now[i], then[i])) return false;
  return now.length === then.length;
}

function sameNumbers(now: Counts | null | undefined, then: Counts | null | undefined): boolean {
  if (now == null || then == null) return now == then;
  const { length } = then;
  if (now.length !== length) return false;
  for (let i = 0; i < length; i++) if (now[i] !== then[i]) return false;
  return true;
}

/** What a buffer is, as far as two calls are compared: the class of a view says the type of its elements. */
function kindOf(buffer: MaybeBuffer): unknown {
  return isView(buffer) ? buffer.constructor : buffer;
}
