/**
 * The open world of this process: which requests are pending, and how their end reaches whoever wants to know.
 *
 * - Slots. Native code knows a pending operation by the number of a slot in the *state table*, which it writes and
 *   JavaScript reads. Free slots are kept here, so that starting an operation crosses into native code once.
 * - Ownership. A pending request is reachable from here even if the program has dropped it, and its views with it.
 * - Promises. Awaited requests are *watched*: native code calls back once for any number of them that ended.
 * - The event loop. Pending requests keep it alive. Programs that start and wait without ever returning to it pay
 *   nothing for that: the first pending request schedules one check, which runs when control is back at the loop.
 */
import { ClosedError, errorFromCode, ExhaustedError, NbcError, TimeoutError } from './errors.js';
import { NativeErrorCode, SlotState, type Native, type NativeOptions } from './native.js';

/** Somebody who awaits a request. */
export interface Waiter {
  resolve(): void;
  reject(error: NbcError): void;
  /** Runs out after the default time limit, if there is one. */
  timer: NodeJS.Timeout | null;
}

/** An operation that has been started: what the world keeps of a request. */
export interface Pending {
  readonly operation: string;
  /** Slot in the state table while pending; -1 once settled. */
  slot: number;
  /** Its views, so that they stay alive while it is pending. */
  send: ArrayBufferView | null;
  receive: ArrayBufferView | null;
  /** Why it failed, once settled. */
  error: NbcError | null;
  waiters: Waiter[] | null;
  /** Native code calls back at its end. */
  watched: boolean;
}

/** What the world tells of its end: a communicator. */
export interface Member {
  forget(): void;
}

/** Slots that may be in use before finished requests, which nobody looked at, are collected for the first time. */
const FIRST_SWEEP = 1024;

const PENDING = SlotState.PENDING;

/**
 * Whether plain loads are ordered as x86 orders them. Elsewhere, the look that finds an operation complete must be
 * followed by an acquiring load (it pairs with the release store in native/engine/slots.h), or what was received might
 * be read as it was before.
 */
const LOADS_ARE_ORDERED = process.arch === 'x64' || process.arch === 'ia32';

/** `NativeErrorCode` the other way round: 2 → 'ERR_NBC_TRUNCATED'. */
const codeOfState = new Map<number, string>(
  Object.entries(NativeErrorCode).map(([name, value]) => [value, `ERR_NBC_${name}`]),
);

export class World {
  readonly native: Native;
  readonly rank: number;
  readonly size: number;
  /** The state table. Native code writes it from another thread: every look must be a fresh read. */
  readonly states: Int32Array;
  /** Default time limit in milliseconds; -1: none. */
  readonly timeout: number;
  /** Option `startall`, in microseconds. */
  readonly startall: number;
  open = true;
  /** The slot that the next pending request takes, or -1: ask {@link findSlot}. */
  nextSlot = 0;
  readonly communicators = new Set<Member>();

  /** Pending requests by slot. Also what keeps them and their views alive. */
  private readonly pending: (Pending | null)[] = [];
  private pendingCount = 0;
  /** Stack of free slots below `slotsUsed`, without `nextSlot`. */
  private freeSlots = new Int32Array(64);
  private freeCount = 0;
  /** Slots that have ever been used. */
  private slotsUsed = 1;
  private sweepAt = FIRST_SWEEP;

  private readonly manual: boolean;
  private watched: Pending[] = [];
  /** Native code keeps the event loop alive for us. */
  private keptAlive = false;
  private checkScheduled = false;
  private contexts = 0;

  constructor(native: Native, options: NativeOptions, timeout: number) {
    this.native = native;
    this.rank = options.rank;
    this.size = options.size;
    this.timeout = timeout > 0 ? timeout : -1;
    this.startall = options.startall;
    this.manual = !options.progressThread;
    this.states = native.open(options, () => this.onCompletions());
  }

  /** Takes over a request that native code has just put into slot `nextSlot`. */
  track(request: Pending): void {
    this.pending[request.slot] = request;
    this.pendingCount++;
    this.nextSlot = this.freeCount > 0 ? this.freeSlots[--this.freeCount] : this.newSlot();
    if (!this.checkScheduled) this.scheduleCheck();
  }

  /** A free slot after `nextSlot` had run out. @throws {ExhaustedError} */
  findSlot(operation: string): number {
    if (this.freeCount === 0) this.sweep();
    if (this.freeCount === 0) {
      const message = `${this.pendingCount} operations are pending, which is the most there can be; wait for some of them`;
      throw new ExhaustedError('ERR_NBC_TOO_MANY_REQUESTS', message, { operation, rank: this.rank });
    }
    this.nextSlot = this.freeSlots[--this.freeCount]!;
    return this.nextSlot;
  }

  /** Makes a request that has ended settled: frees its slot and its views, tells whoever awaits it. */
  settle(request: Pending): void {
    const { slot } = request;
    const state = LOADS_ARE_ORDERED ? this.states[slot] : Atomics.load(this.states, slot);
    this.settleAs(request, state === SlotState.DONE ? null : this.failure(request, state));
  }

  /** Settles the request if it has ended. */
  settleIfEnded(request: Pending): boolean {
    if (request.slot < 0) return true;
    if (this.states[request.slot] === PENDING) return false;
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
    if (this.states[request.slot] === PENDING) {
      this.native.test();
      if (this.states[request.slot] === PENDING) return false;
    }
    this.settle(request);
    return true;
  }

  /** Drives progress until the request has ended, and settles it. A negative limit is none. @throws {TimeoutError} */
  wait(request: Pending, limitMs: number): void {
    if (this.states[request.slot] === PENDING && !this.native.wait(request.slot, limitMs)) {
      throw new TimeoutError(limitMs, this.contextOf(request));
    }
    this.settle(request);
  }

  /**
   * Registers somebody who awaits a pending request, which is watched already, or will be by the check that is
   * scheduled.
   */
  await(request: Pending, resolve: () => void, reject: (error: NbcError) => void): void {
    const waiter: Waiter = { resolve, reject, timer: null };
    if (this.timeout > 0) {
      waiter.timer = setTimeout(() => {
        request.waiters = request.waiters!.filter((other) => other !== waiter);
        reject(new TimeoutError(this.timeout, this.contextOf(request)));
      }, this.timeout);
    }
    if (request.waiters === null) request.waiters = [waiter];
    else request.waiters.push(waiter);
  }

  contextOf(request: Pending): { operation: string; rank: number } {
    return { operation: request.operation, rank: this.rank };
  }

  /** A context id that no other communicator of the job has: see groups.ts. The world itself is (0, 0). */
  newContext(): { high: number; low: number } {
    // Four neighbours each: collectives and point-to-point, for users and for the communicator's own purposes.
    this.contexts += 4;
    if (this.contexts >= 2 ** 32) throw new ExhaustedError('ERR_NBC_TOO_MANY_COMMUNICATORS', 'no context id is left');
    return { high: this.rank + 1, low: this.contexts };
  }

  /** Ends everything. Requests that are still pending fail with a ClosedError. Idempotent. */
  close(): void {
    if (!this.open) return;
    this.open = false;
    if (current === this) current = null;
    this.sweep();
    this.native.close();
    for (const request of this.pending) if (request !== null) this.settleClosed(request);
    this.watched = [];
    this.keptAlive = false;
    for (const communicator of this.communicators) communicator.forget();
    this.communicators.clear();
  }

  /** After native code has gone; the state table stays readable. */
  private settleClosed(request: Pending): void {
    if (this.states[request.slot] === SlotState.DONE) {
      this.settleAs(request, null);
    } else {
      const message = `the world was closed while ${request.operation} was pending`;
      this.settleAs(request, new ClosedError(message, this.contextOf(request)));
    }
  }

  private settleAs(request: Pending, error: NbcError | null): void {
    const slot = request.slot;
    request.slot = -1;
    request.error = error;
    request.send = null;
    request.receive = null;
    this.pending[slot] = null;
    if (this.freeCount === this.freeSlots.length) this.growFreeSlots();
    this.freeSlots[this.freeCount++] = slot;
    // The last one ended without the event loop: whether to go on keeping that alive must be looked at again.
    if (--this.pendingCount === 0 && this.keptAlive && !this.checkScheduled) this.scheduleCheck();
    if (request.waiters !== null) notify(request);
  }

  private failure(request: Pending, state: number): NbcError {
    const code = codeOfState.get(state) ?? `ERR_NBC_STATE_${state}`;
    return errorFromCode(code, `${request.operation}: ${this.native.explain(request.slot)}`, this.contextOf(request));
  }

  private newSlot(): number {
    if (this.slotsUsed >= this.sweepAt) {
      // Requests that were dropped without a look may have ended long ago. To sweep costs a pass over all slots, so it
      // must pay: if it frees less than half of them, the next sweep waits until there are twice as many.
      this.sweep();
      if (this.freeCount < this.slotsUsed / 2) this.sweepAt = this.slotsUsed * 2;
      if (this.freeCount > 0) return this.freeSlots[--this.freeCount];
    }
    return this.slotsUsed < this.states.length ? this.slotsUsed++ : -1;
  }

  private growFreeSlots(): void {
    const larger = new Int32Array(this.freeSlots.length * 2);
    larger.set(this.freeSlots);
    this.freeSlots = larger;
  }

  /** Settles every request that has ended. What has landed is known to have ended only after a pass. */
  private sweep(): void {
    if (this.pendingCount > 0) this.native.test();
    let unseen = this.pendingCount;
    for (let slot = 0; unseen > 0; slot++) {
      const request = this.pending[slot];
      if (request === null) continue;
      unseen--;
      this.settleIfEnded(request);
    }
  }

  private watch(request: Pending): void {
    if (request.watched) return;
    request.watched = true;
    this.watched.push(request);
    this.native.watch(request.slot);
  }

  private onCompletions(): void {
    this.settleWatched();
    if (this.pendingCount === 0 && this.open) this.keepAlive(false);
  }

  private settleWatched(): void {
    // Settling only resolves promises: no code of the user runs before this is over.
    let kept = 0;
    for (const request of this.watched) {
      if (!this.settleIfEnded(request)) this.watched[kept++] = request;
    }
    this.watched.length = kept;
  }

  private scheduleCheck(): void {
    // The immediate itself keeps the event loop alive until it has run.
    this.checkScheduled = true;
    setImmediate(this.check);
  }

  /** Control is back at the event loop: keep it alive if, and only if, something is pending. */
  private readonly check = (): void => {
    this.checkScheduled = false;
    if (!this.open) return;
    // What is about to end needs no call back: a pass costs little beside waking the progress thread and then this one.
    this.sweep();
    if (this.manual) {
      // Nobody else makes progress: poll for as long as something is pending.
      if (this.pendingCount > 0) this.scheduleCheck();
      return;
    }
    this.watchAll();
    this.keepAlive(this.pendingCount > 0);
  };

  /** Lets the end of every pending request call back. */
  private watchAll(): void {
    let unseen = this.pendingCount;
    for (let slot = 0; unseen > 0; slot++) {
      const request = this.pending[slot];
      if (request === null) continue;
      unseen--;
      this.watch(request);
    }
  }

  private keepAlive(on: boolean): void {
    if (on === this.keptAlive) return;
    this.keptAlive = on;
    this.native.setKeepAlive(on);
  }
}

function notify(request: Pending): void {
  const waiters = request.waiters!;
  request.waiters = null;
  for (const waiter of waiters) {
    if (waiter.timer !== null) clearTimeout(waiter.timer);
    if (request.error === null) waiter.resolve();
    else waiter.reject(request.error);
  }
}

let current: World | null = null;

/** The open world of this thread. @throws {ClosedError} if there is none */
export function currentWorld(operation: string): World {
  if (current === null) throw new ClosedError(`${operation}: no world is open; call init() first`, { operation });
  return current;
}

/** Opens the world of this thread. @throws {NbcError} ERR_NBC_ALREADY_OPEN: there is one, here or in another thread */
export function openWorld(native: Native, options: NativeOptions, timeout: number): World {
  if (current !== null) {
    throw new NbcError(
      'ERR_NBC_ALREADY_OPEN',
      'init: this process has an open world, and can have one at a time; use that one, or close it before init()',
    );
  }
  current = new World(native, options, timeout);
  return current;
}
