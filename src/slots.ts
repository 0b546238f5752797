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
  /** @internal Runs out after the default time limit, if there is one. */
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
  /** Bytes of the message, or a constant: see request.ts. */
  length: number;
  /** The slot is not free once the request is settled: it has it from {@link SlotTable.reserve}. */
  readonly keepsSlot: boolean;
  /** Why it failed, once settled. */
  error: NbcError | null;
  awaiters: Awaiter[] | null;
  /** What is to be done when it is complete, before anybody is told. */
  arrived: (() => void) | null;
}

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
  /** Slots of {@link reserve}. */
  reservedCount = 0;

  /** Pending requests by slot. */
  private readonly pending: (Pending | null)[] = [];
  /** Bytes of the message that the last request in a slot has received, if it was a receive. */
  private readonly lengths: Float64Array;
  /** Reductions that wait for a function of this thread, and the number of the world. */
  private readonly tail: Int32Array;
  /** Where native code takes numbers of slots from, and gives them back. */
  readonly exchange: Uint32Array;
  /** Stack of free slots below `used`, without `next`. */
  private free = new Int32Array(64);
  private freeCount = 0;
  /** Slots that have ever been used. */
  private used = 1;
  private sweepAt = FIRST_SWEEP;
  /** Stack of the slots that were taken since the last {@link takeFresh}, each once; some are free again by now. */
  private fresh = new Int32Array(64);
  private freshCount = 0;
  /** By slot: it is on that stack. */
  private isFresh = new Uint8Array(64);

  /**
   * @param states the state table. Native code writes it from another thread: every look must be a fresh read. Behind
   *   it, its ArrayBuffer has what native/engine/slots.h says
   * @param sweep settles every request that has ended
   */
  constructor(
    readonly states: Int32Array,
    private readonly sweep: () => void,
  ) {
    const { buffer, length } = states;
    const tailBytes = 2 * Int32Array.BYTES_PER_ELEMENT;
    const end = buffer.byteLength - tailBytes;
    this.tail = new Int32Array(buffer, end);
    this.lengths = new Float64Array(buffer, end - length * Float64Array.BYTES_PER_ELEMENT, length);
    const exchangeBytes = this.lengths.byteOffset - states.byteLength;
    this.exchange = new Uint32Array(buffer, states.byteLength, exchangeBytes / Uint32Array.BYTES_PER_ELEMENT);
  }

  /** Takes over a request that native code has just put into slot `next`. */
  track(request: Pending): void {
    this.trackAgain(request);
    this.advance();
  }

  /** The same for a request whose slot is from {@link reserve}. */
  trackAgain(request: Pending): void {
    const { slot } = request;
    this.pending[slot] = request;
    this.pendingCount++;
    if (slot >= this.isFresh.length) this.growFresh(slot);
    if (this.isFresh[slot] === 0) {
      this.isFresh[slot] = 1;
      this.fresh[this.freshCount++] = slot;
    }
  }

  /** Takes a slot, until {@link unreserve}; -1: there is none. */
  reserve(): number {
    const slot = this.next >= 0 ? this.next : this.find();
    if (slot < 0) return -1;
    this.pending[slot] = null;
    this.reservedCount++;
    this.advance();
    return slot;
  }

  unreserve(slot: number): void {
    this.reservedCount--;
    this.giveBack(slot);
  }

  /** How many slots there are. */
  get most(): number {
    return this.states.length;
  }

  private giveBack(slot: number): void {
    if (this.freeCount === this.free.length) this.growFree();
    this.free[this.freeCount++] = slot;
  }

  /** Bytes of the message that was received in this slot. */
  lengthOf(slot: number): number {
    return this.lengths[slot];
  }

  /** A free slot after `next` had run out; -1: as many are pending as there can be. */
  find(): number {
    if (this.freeCount === 0) this.sweep();
    if (this.freeCount === 0) return -1;
    this.next = this.free[--this.freeCount];
    return this.next;
  }

  /** How many pieces of reductions wait for a function of this thread. */
  get functionsWaiting(): number {
    return this.tail[0];
  }

  /** The number of the world in this process. */
  get world(): number {
    return this.tail[1];
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
      const slot = this.fresh[--this.freshCount];
      this.isFresh[slot] = 0;
      if (this.pending[slot] !== null) out[count++] = slot;
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
    if (!request.keepsSlot) this.giveBack(slot);
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

  private advance(): void {
    this.next = this.freeCount > 0 ? this.free[--this.freeCount] : this.newSlot();
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

  private growFresh(slot: number): void {
    const length = 2 * (slot + 1);
    const [slots, marks] = [new Int32Array(length), new Uint8Array(length)];
    slots.set(this.fresh);
    marks.set(this.isFresh);
    [this.fresh, this.isFresh] = [slots, marks];
  }

  private growFree(): void {
    const larger = new Int32Array(this.free.length * 2);
    larger.set(this.free);
    this.free = larger;
  }
}
