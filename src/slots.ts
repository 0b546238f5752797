/**
 * The slot table. Native code knows a pending operation by the number of a slot in the *state table*, which it writes
 * and JavaScript reads. Free slots are kept here, so that starting an operation crosses into native code once. What
 * is pending is reachable from here even if the program has dropped it, and its views with it.
 */
import type { NbcError } from './errors.js';
import { SlotState } from './native.js';

/** Somebody who awaits a request. */
export interface Awaiter {
  resolve(): void;
  reject(error: NbcError): void;
  /** Runs out after the default time limit, if there is one. */
  timer: NodeJS.Timeout | null;
}

/** What this table knows of a request: see request.ts. */
export interface Pending {
  readonly operation: string;
  /** Slot in the state table while pending; -1 once settled. */
  slot: number;
  /** The views of a pending operation, so that they stay alive. */
  send: ArrayBufferView | null;
  receive: ArrayBufferView | null;
  /** Why it failed, once settled. */
  error: NbcError | null;
  awaiters: Awaiter[] | null;
}

/** Requests that are noted before those that are settled are left out for the first time. */
const FIRST_FRESH = 64;

/** Slots that may be in use before finished requests, which nobody looked at, are collected for the first time. */
const FIRST_SWEEP = 1024;

/**
 * Whether plain loads are ordered as x86 orders them. Elsewhere, the look that finds an operation complete must be
 * followed by an acquiring load (it pairs with the release store in native/engine/slots.h), or what was received might
 * be read as it was before.
 */
const LOADS_ARE_ORDERED = process.arch === 'x64' || process.arch === 'ia32';

export class SlotTable {
  /** The slot that the next pending request takes, or -1: ask {@link find}. */
  next = 0;
  pendingCount = 0;

  /** Pending requests by slot. */
  private readonly pending: (Pending | null)[] = [];
  /** Stack of free slots below `used`, without `next`. */
  private free = new Int32Array(64);
  private freeCount = 0;
  /** Slots that have ever been used. */
  private used = 1;
  private sweepAt = FIRST_SWEEP;
  /** What was tracked since the last {@link takeFresh}, some of it settled by now. */
  private fresh: Pending[] = [];
  private freshCount = 0;
  private freshRoom = FIRST_FRESH;

  /**
   * @param states the state table. Native code writes it from another thread: every look must be a fresh read
   * @param sweep settles every request that has ended
   */
  constructor(
    readonly states: Int32Array,
    private readonly sweep: () => void,
  ) {}

  /** Takes over a request that native code has just put into slot `next`. */
  track(request: Pending): void {
    this.pending[request.slot] = request;
    this.pendingCount++;
    if (this.freshCount === this.freshRoom) this.forgetSettled();
    this.fresh[this.freshCount++] = request;
    this.next = this.freeCount > 0 ? this.free[--this.freeCount] : this.newSlot();
  }

  /** A free slot after `next` had run out; -1: as many are pending as there can be. */
  find(): number {
    if (this.freeCount === 0) this.sweep();
    if (this.freeCount === 0) return -1;
    this.next = this.free[--this.freeCount];
    return this.next;
  }

  /** The pending request in a slot, or null. */
  at(slot: number): Pending | null {
    return this.pending[slot] ?? null;
  }

  get hasFresh(): boolean {
    return this.freshCount > 0;
  }

  /** Moves slots of pending requests that were not given out before into `out`; how many. */
  takeFresh(out: Uint32Array): number {
    let count = 0;
    while (this.freshCount > 0 && count < out.length) {
      const { slot } = this.fresh[--this.freshCount];
      if (slot >= 0) out[count++] = slot;
    }
    if (this.freshCount === 0 && this.freshRoom > FIRST_FRESH) {
      this.fresh = [];
      this.freshRoom = FIRST_FRESH;
    }
    return count;
  }

  isPending(request: Pending): boolean {
    return this.states[request.slot] === SlotState.PENDING;
  }

  /** How a request ended that is not pending any more. */
  endOf(request: Pending): number {
    return LOADS_ARE_ORDERED ? this.states[request.slot] : Atomics.load(this.states, request.slot);
  }

  /** The slot of the request is free from now on. */
  release(request: Pending): void {
    const { slot } = request;
    request.slot = -1;
    this.pending[slot] = null;
    if (this.freeCount === this.free.length) this.growFree();
    this.free[this.freeCount++] = slot;
    this.pendingCount--;
  }

  /** Visits all that are pending now. A visit may release its request. */
  each(visit: (request: Pending) => void): void {
    let unseen = this.pendingCount;
    for (let slot = 0; unseen > 0; slot++) {
      const request = this.pending[slot];
      if (request === null) continue;
      unseen--;
      visit(request);
    }
  }

  private newSlot(): number {
    if (this.used >= this.sweepAt) {
      // Requests that were dropped without a look may have ended long ago. To sweep costs a pass over all slots, so it
      // must pay: if it frees less than half of them, the next sweep waits until there are twice as many.
      this.sweep();
      if (this.freeCount < this.used / 2) this.sweepAt = this.used * 2;
      if (this.freeCount > 0) return this.free[--this.freeCount];
    }
    return this.used < this.states.length ? this.used++ : -1;
  }

  /** A program that starts and waits never takes what is fresh: what has been settled is dropped here. */
  private forgetSettled(): void {
    let kept = 0;
    for (let i = 0; i < this.freshCount; i++) {
      if (this.fresh[i].slot >= 0) this.fresh[kept++] = this.fresh[i];
    }
    this.freshCount = kept;
    if (kept > this.freshRoom / 2) this.freshRoom *= 2;
  }

  private growFree(): void {
    const larger = new Int32Array(this.free.length * 2);
    larger.set(this.free);
    this.free = larger;
  }
}
