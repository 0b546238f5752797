/**
 * The open world of this process: starts, waits and settles, with the slot table (slots.ts) and the bridge to the event
 * loop (event-loop.ts).
 */
import { Aborts } from './aborts.js';
import { callPlace } from './call-places.js';
import { ContextNumbers } from './contexts.js';
import { ClosedError, ExhaustedError, MismatchError, NbcError, tellPlaces, TimeoutError } from './errors.js';
import { EventLoop } from './event-loop.js';
import { Functions } from './functions.js';
import { SlotState, type Native, type NativeJob } from './native.js';
import { errorFromFailure, throwMismatch } from './native-errors.js';
import { type Awaiter, type Pending, SlotTable } from './slots.js';
import type { TraceWriter } from './trace/file.js';
import { nativeOptions, type Settings, turnOnHost } from './transport/options.js';
import { failedUnseen, seen } from './unasked.js';
import { Observed } from './observed.js';
import { type Utilization, utilizationOf } from './utilization.js';

/** What a receive has as its length before it is complete. */
export const LENGTH_AWAITED = -2;

/** What the world tells of its end: a communicator. */
export interface Member {
  forget(): void;
}

/** Lines of the program: see call-places.ts. */
interface Places {
  /** Of a persistent request: where its Init was called, which is the call that ranks compare. */
  readonly madeAt?: string | undefined;
  readonly calledAt: string | undefined;
  awaitedAt: string | undefined;
}

/**
 * From so many ranks a processor on, it counts how often ranks must be given one, and not how many steps an algorithm
 * takes one after another.
 */
const CROWDED = 4;

/** Rank 0 then needs temporary memory for what all ranks send: several times up to 256 KiB for each of them. */
const CROWDED_EXPOSED_BYTES = 1024 * 1024;

/** Whether all ranks share memory, and its processors so. All of them read the same numbers. */
function isCrowded(native: Native, { size, jobFd, tcp, transport }: NativeJob): boolean {
  const shared = jobFd >= 0 && tcp === undefined && (transport === 'shm' || transport === 'auto');
  if (!shared) return false;
  const { processors, exposedBytes } = native.jobSharing(jobFd);
  return size >= CROWDED * processors && exposedBytes >= size * CROWDED_EXPOSED_BYTES;
}

export class World {
  readonly native: Native;
  readonly rank: number;
  readonly size: number;
  /** The host of each rank, as a number, where ranks met through a directory; undefined: all are on one. */
  readonly hosts: readonly number[] | undefined;
  /** Whether all ranks share memory, with at least four ranks a processor; the same on all ranks. */
  readonly crowded: boolean;
  /** Why each rank is not reached by verbs; '': for no reason. Undefined: there was nothing to choose. */
  readonly reasons: readonly string[] | undefined;
  /** Default time limit in milliseconds; -1: none. */
  readonly timeout: number;
  /** Option `startall`, in microseconds. */
  readonly startall: number;
  open = true;
  readonly communicators = new Set<Member>();
  readonly functions: Functions;
  /** Signals of pending requests. */
  readonly aborts = new Aborts(this);
  readonly observed: Observed;

  private readonly slots: SlotTable;
  private readonly loop: EventLoop;
  private readonly manual: boolean;
  /** What requests have received stands in copies of their buffers: see {@link Native.collect}. */
  private readonly copies: boolean;
  private readonly contexts: ContextNumbers;
  /** Where requests were started and are awaited, with option `debug`. */
  private readonly places: WeakMap<Pending, Places> | null;
  /** What native code had measured at the first call of {@link utilization}. */
  private measured: ReturnType<Native['metered']> | undefined;

  constructor(
    native: Native,
    job: NativeJob,
    settings: Settings,
    private readonly trace: TraceWriter | undefined,
  ) {
    const { timeout, startall, progress, awaitSpin, debug } = settings;
    this.native = native;
    this.rank = job.rank;
    this.size = job.size;
    this.hosts = job.tcp?.hosts;
    this.crowded = isCrowded(native, job);
    this.reasons = job.reasons;
    this.timeout = timeout > 0 ? timeout : -1;
    this.startall = startall;
    this.manual = progress === 'manual';
    this.copies = native.copiesBuffers;
    this.places = debug ? new WeakMap() : null;
    this.contexts = new ContextNumbers(job.rank);
    this.observed = new Observed(job.rank);
    this.slots = new SlotTable(
      native.open(job, nativeOptions(settings, turnOnHost(job.rank, this.hosts)), () => this.loop.onCompletions()),
      () => this.sweep(),
    );
    this.trace?.begin();
    this.functions = new Functions(native, this.slots);
    this.loop = new EventLoop(native, this.slots, this, this.functions, { manual: this.manual, awaitSpin });
  }

  /** The slot that the next pending request takes, or -1: ask {@link findSlot}. */
  get nextSlot(): number {
    return this.slots.next;
  }

  /** Takes over a request that native code has just put into slot `nextSlot`. */
  track(request: Pending): void {
    if (this.places !== null) this.notePlaces(request, this.places);
    this.slots.track(request);
    this.loop.started();
    if (this.observed.listens) this.observed.started(request.operation, request);
  }

  /** Takes note of a persistent request that native code has just prepared. */
  prepared(request: Pending): void {
    if (this.places === null) return;
    const madeAt = callPlace();
    this.places.set(request, { madeAt, calledAt: undefined, awaitedAt: undefined });
  }

  /** Takes over a request that native code has just started again. */
  trackAgain(request: Pending): void {
    if (this.places !== null) this.notePlaces(request, this.places);
    this.slots.trackAgain(request);
    this.loop.started();
    if (this.observed.listens) this.observed.started(request.operation, request);
  }

  /** An operation was complete when it had started: there is nothing to be tracked. */
  startedComplete(operation: string): void {
    if (this.observed.listens) this.observed.started(operation);
  }

  /** Since the first call of this. */
  utilization(): Utilization {
    const now = this.native.metered();
    this.measured ??= now;
    const idle = now.waited - this.measured.waited;
    return utilizationOf(idle, Math.max(0, now.time - this.measured.time - idle));
  }

  /** A slot for a persistent request. @throws {ExhaustedError} */
  reserveSlot(operation: string): number {
    const slot = this.slots.reserve();
    if (slot < 0) this.refuseMore(operation);
    return slot;
  }

  /** Gives back a slot in which nothing was prepared. */
  giveBackSlot(slot: number): void {
    this.slots.unreserve(slot);
  }

  /** Gives back a slot, and what native code holds for it. The request in it is not active. */
  unprepare(slot: number): void {
    if (!this.open) return;
    this.native.release(slot);
    this.functions.drop(slot);
    this.slots.unreserve(slot);
  }

  /** Bytes of the message that the last receive in this slot has received. */
  lengthOf(slot: number): number {
    return this.slots.lengthOf(slot);
  }

  /** A free slot after `nextSlot` had run out. @throws {ExhaustedError} */
  findSlot(operation: string): number {
    const slot = this.slots.find();
    if (slot < 0) this.refuseMore(operation);
    return slot;
  }

  private refuseMore(operation: string): never {
    const { most, reservedCount } = this.slots;
    const count = most - reservedCount;
    const pending = `${count} ${count === 1 ? 'operation is' : 'operations are'} pending`;
    const exist = `${reservedCount} persistent requests exist`;
    const message =
      reservedCount === 0
        ? `${pending}, which is the most there can be; wait for some of them`
        : reservedCount === most
          ? `${exist}, which is the most there can be; free() some of them`
          : `${exist} and ${pending}, which together is the most there can be; free() or wait for some of them`;
    throw new ExhaustedError('ERR_NBC_TOO_MANY_REQUESTS', message, { operation, rank: this.rank });
  }

  /** Settles the request if it has ended. */
  settleIfEnded(request: Pending): boolean {
    if (request.slot < 0) return true;
    if (this.slots.isPending(request)) return false;
    this.settle(request);
    return true;
  }

  /**
   * As {@link settleIfEnded}. Where a thread makes the progress, it still leaves alone what has landed while nobody
   * asks: to ask takes a pass.
   */
  look(request: Pending): boolean {
    return this.manual ? this.settleIfEnded(request) : this.test(request);
  }

  /** One pass of progress, then as {@link settleIfEnded}. */
  test(request: Pending): boolean {
    if (this.slots.isPending(request)) {
      this.progress();
      if (request.slot < 0) return true;
      if (this.slots.isPending(request)) return false;
    }
    this.settle(request);
    return true;
  }

  /** Drives progress until the request has ended, and settles it. A negative limit is none. @throws {TimeoutError} */
  wait(request: Pending, limitMs: number): void {
    if (this.slots.isPending(request)) {
      const { slot } = request;
      this.functions.requireNone('wait', this.rank);
      const began = limitMs > 0 ? performance.now() : 0;
      const ended =
        this.native.wait(slot, limitMs) ||
        this.runWhile(limitMs, began, (left) => request.slot < 0 || this.native.wait(slot, left));
      if (!ended) throw this.timeoutOf(request, limitMs);
      if (request.slot < 0) return; // a function has closed the world
    }
    this.settle(request);
  }

  /** @param operation what was called, if not the operation of the request */
  timeoutOf(request: Pending, limitMs: number, operation?: string): TimeoutError {
    const context = this.contextOf(request);
    const awaited = this.native.awaited(request.slot);
    const error = new TimeoutError(limitMs, operation === undefined ? context : { ...context, operation }, awaited);
    if (operation === undefined) this.tellPlaces(request, error);
    return error;
  }

  /** One pass of progress, and functions of operators that wait for this thread. */
  progress(): void {
    this.native.test();
    if (this.functions.wait) this.functions.run();
  }

  /**
   * After a native call that waits has returned false, since functions of operators waited for this thread or the time
   * was over: runs them and goes on with the call, until it returns true or the time is over.
   * @param began when the time began, in milliseconds
   * @param call what is to be called again, with the limit that is left
   */
  runWhile(limitMs: number, began: number, call: (leftMs: number) => boolean): boolean {
    while (this.functions.wait || limitMs < 0 || performance.now() < began + limitMs) {
      this.functions.run();
      const left = limitMs < 0 ? -1 : limitMs === 0 ? 0 : Math.max(0, began + limitMs - performance.now());
      const ended = call(left);
      if (!ended && left !== 0) continue;
      // Pieces of other requests: the native call has told this thread of them, and nobody else.
      if (this.functions.wait) this.loop.started();
      return ended;
    }
    return false;
  }

  /**
   * Registers somebody who awaits a pending request.
   */
  await(request: Pending, resolve: () => void, reject: (error: NbcError) => void): void {
    const awaiter: Awaiter = { resolve, reject, timer: null };
    if (this.timeout > 0) {
      awaiter.timer = setTimeout(() => {
        request.awaiters = request.awaiters!.filter((other) => other !== awaiter);
        reject(this.timeoutOf(request, this.timeout));
      }, this.timeout);
    }
    if (request.awaiters === null) request.awaiters = [awaiter];
    else request.awaiters.push(awaiter);
    this.loop.awaited();
  }

  contextOf(request: Pending): { operation: string; rank: number } {
    return { operation: request.operation, rank: this.rank };
  }

  /** A context id that no other communicator of the job has: see groups.ts. The world itself is (0, 0). */
  newContext(): { high: number; low: number } {
    return this.contexts.next();
  }

  /**
   * Ends everything. Requests that are still pending fail with a ClosedError. Idempotent.
   * @throws {MismatchError} where calls differ and no request has told; the world is closed all the same
   */
  close(): void {
    if (!this.open) return;
    this.open = false;
    if (current === this) current = null;
    this.sweep();
    this.trace?.finish();
    const calledAt = this.placeOfCall();
    const failure = this.native.close();
    this.loop.close();
    this.functions.close();
    this.slots.each((request) => this.settleClosed(request));
    for (const communicator of this.communicators) communicator.forget();
    this.communicators.clear();
    if (failure !== undefined) throwMismatch(failure, { operation: 'close', rank: this.rank }, calledAt);
  }

  /** Settles every request that has ended. What has landed is known to have ended only after a pass. */
  private sweep(): void {
    if (this.slots.pendingCount > 0) this.native.test();
    this.slots.each((request) => this.settleIfEnded(request));
  }

  /** Makes a request that has ended settled: frees its slot and its views, tells those who await it. */
  private settle(request: Pending): void {
    const state = this.slots.endOf(request);
    this.settleAs(request, state === SlotState.DONE ? null : this.failure(request));
  }

  /** After native code has gone; the state table stays readable. */
  private settleClosed(request: Pending): void {
    if (this.slots.endOf(request) === SlotState.DONE) {
      this.settleAs(request, null);
    } else {
      const message = `the world was closed while ${request.operation} was pending`;
      const error = new ClosedError(message, this.contextOf(request));
      this.tellPlaces(request, error);
      this.settleAs(request, error);
      seen(error); // the program has closed the world itself
    }
  }

  private settleAs(request: Pending, error: NbcError | null): void {
    if (error === null && request.length === LENGTH_AWAITED) request.length = this.slots.lengthOf(request.slot);
    request.error = this.aborts.size > 0 ? this.aborts.ended(request, error) : error;
    if (this.copies && !this.native.collect(request.slot)) request.error ??= this.lost(request);
    request.send = null;
    request.receive = null;
    if (request.error === null && request.arrived !== null) request.arrived();
    request.arrived = null;
    if (!request.keepsSlot) this.functions.drop(request.slot);
    this.slots.release(request);
    if (this.slots.pendingCount === 0) this.loop.allEnded();
    if (this.observed.any) this.observed.over(request, request.error);
    if (request.awaiters !== null) notify(request);
    else if (request.error !== null) failedUnseen(request.error);
  }

  private lost(request: Pending): NbcError {
    const why =
      'its buffer was detached (transferred) before it had ended, and this runtime does not let it go on there';
    return new NbcError(
      'ERR_NBC_DETACHED',
      `${request.operation}: what it received is lost: ${why}`,
      this.contextOf(request),
    );
  }

  private failure(request: Pending): NbcError {
    const failure = this.native.explain(request.slot);
    if (failure.code === 'ERR_NBC_OPERATOR') {
      failure.thrown = this.functions.thrownIn(request.slot, failure.detail ?? '');
    }
    const error = errorFromFailure(failure, `${request.operation}: `, this.contextOf(request));
    this.tellPlaces(request, error);
    return error;
  }

  /** `await` reads `then` in the line that awaits, and calls it later. */
  private notePlaces(request: Pending, all: WeakMap<Pending, Places>): void {
    const places: Places = { madeAt: all.get(request)?.madeAt, calledAt: callPlace(), awaitedAt: undefined };
    all.set(request, places);
    const prototype = Object.getPrototypeOf(request) as { then: unknown };
    const get = (): unknown => {
      places.awaitedAt = callPlace() ?? places.awaitedAt;
      return prototype.then;
    };
    Object.defineProperty(request, 'then', { get, configurable: true });
  }

  /** With option `debug`: where the program is. */
  placeOfCall(): string | undefined {
    return this.places === null ? undefined : callPlace();
  }

  /** With option `debug`. */
  tellPlaces(request: Pending, error: NbcError): void {
    const places = this.places?.get(request);
    if (places === undefined) return;
    const { madeAt, calledAt, awaitedAt } = places;
    tellPlaces(error, error instanceof MismatchError ? (madeAt ?? calledAt) : calledAt, awaitedAt);
  }
}

function notify(request: Pending): void {
  const awaiters = request.awaiters!;
  request.awaiters = null;
  for (const awaiter of awaiters) {
    if (awaiter.timer !== null) clearTimeout(awaiter.timer);
    if (request.error === null) awaiter.resolve();
    else awaiter.reject(request.error);
  }
}

let current: World | null = null;

/** The open world of this thread. @throws {ClosedError} if there is none */
export function currentWorld(operation: string): World {
  if (current === null) throw new ClosedError(`${operation}: no world is open; call init() first`, { operation });
  return current;
}

/** Opens the world of this thread. @throws {NbcError} ERR_NBC_ALREADY_OPEN: there is one, here or in another thread */
export function openWorld(native: Native, job: NativeJob, settings: Settings, trace?: TraceWriter): World {
  if (current !== null) {
    throw new NbcError(
      'ERR_NBC_ALREADY_OPEN',
      'init: this process has an open world, and can have one at a time; use that one, or close it before init()',
    );
  }
  current = new World(native, job, settings, trace);
  return current;
}
