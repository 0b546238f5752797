/**
 * Requests: operations that have been started, and how to learn that they are complete.
 *
 * Source: MPI 3.1, 3.7.3 to 3.7.5 (test, wait and their plural forms); OF_Startall from the LibOF paper, section IV.B.
 */
import { ArgumentError, NbcError, show, type TimeoutError } from './errors.js';
import type { Awaiter } from './slots.js';
import { seen } from './unasked.js';
import type { World } from './world.js';

const inspect = Symbol.for('nodejs.util.inspect.custom');

/** The length of what is no single message. */
export const NO_MESSAGE = -1;

/**
 * An operation in progress. Its buffers belong to it until it is complete: don't write to them, and don't read what it
 * receives. They are kept alive; the request itself may be dropped, the operation goes on.
 *
 * Await it, `wait()` for it, or ask `test()` from time to time. A failed operation throws (or rejects) its error every
 * time it is asked. A failure nobody asks about is in a warning at the end of the process.
 */
export class Request implements PromiseLike<void> {
  // All fields are set here, so that all requests have one shape and the code that uses them stays fast.
  /** @internal */ readonly world: World;
  /** @internal */ readonly operation: string;
  /** @internal Slot in the state table while pending; -1 once settled. */
  slot: number;
  /** @internal The views of a pending operation, so that they stay alive. */
  send: ArrayBufferView | null;
  /** @internal */
  receive: ArrayBufferView | null;
  /** @internal Why it failed, once settled. */
  error: NbcError | null;
  /** @internal */
  awaiters: Awaiter[] | null;
  /** @internal Bytes of the message; NO_MESSAGE, or LENGTH_AWAITED (world.ts). */
  length: number;
  /** @internal What is to be done when it is complete, before anybody is told. */
  arrived: (() => void) | null;

  protected constructor(
    world: World,
    operation: string,
    slot: number,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
    length: number,
  ) {
    // A program in JavaScript can call private constructors.
    if ((world as World | undefined) === undefined) {
      throw new NbcError('ERR_NBC_CONSTRUCTOR', 'Request: operations of a communicator make requests, new does not');
    }
    this.world = world;
    this.operation = operation;
    this.slot = slot;
    this.send = send;
    this.receive = receive;
    this.error = null;
    this.awaiters = null;
    this.length = length;
    this.arrived = null;
  }

  /** @internal The only way to make one. A slot of -1: the operation has ended. */
  static of(
    world: World,
    operation: string,
    slot: number,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
    length: number,
  ): Request {
    return new Request(world, operation, slot, send, receive, length);
  }

  /** @internal See slots.ts. */
  // eslint-disable-next-line @typescript-eslint/class-literal-property-style -- a field would make requests larger
  get keepsSlot(): boolean {
    return false;
  }

  /**
   * Bytes of the message that was sent or received, once it is complete; of an `isendrecv`, of the message that was
   * received. Undefined for collectives, and as long as the operation is pending or if it has failed.
   *
   * Source: MPI_Get_count.
   */
  get bytes(): number | undefined {
    return this.slot < 0 && this.error === null && this.length >= 0 ? this.length : undefined;
  }

  /**
   * Whether the operation has ended, well or not. Never throws, and with `progress: 'manual'` makes no progress: it
   * only looks.
   */
  get done(): boolean {
    return this.slot < 0 || this.world.look(this);
  }

  /**
   * Makes some progress and says whether the operation is complete.
   * @throws {NbcError} if it has failed
   */
  test(): boolean {
    if (this.slot >= 0 && !this.world.test(this)) return false;
    if (this.error !== null) throw seen(this.error);
    return true;
  }

  /**
   * Blocks this thread until the operation is complete, driving progress meanwhile.
   *
   * @param timeoutMs time limit in milliseconds; 0: make progress once; Infinity: none. Default: the option `timeout`
   *   of `init()`.
   * @throws {TimeoutError} when the limit passes; the request stays pending
   * @throws {NbcError} if the operation has failed
   */
  wait(timeoutMs?: number): void {
    const limit = timeoutMs === undefined ? this.world.timeout : toLimit(timeoutMs, 'wait');
    if (this.slot >= 0) this.world.wait(this, limit);
    if (this.error !== null) throw seen(this.error);
  }

  /**
   * Lets a request be awaited. Nothing is set up before somebody does. With the option `timeout` of `init()` the
   * promise rejects with a {@link TimeoutError} after that time; the request stays pending then.
   */
  then<Fulfilled = void, Rejected = never>(
    // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- as PromiseLike<void> has it
    onFulfilled?: ((value: void) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected> {
    let ended: Promise<void>;
    if (!this.world.settleIfEnded(this)) {
      ended = new Promise<void>((resolve, reject) => this.world.await(this, resolve, reject));
    } else if (this.error === null) {
      ended = Promise.resolve();
    } else {
      this.world.tellPlaces(this, this.error);
      ended = Promise.reject(seen(this.error));
    }
    return ended.then(onFulfilled, onRejected);
  }

  /** @internal */
  [inspect](): string {
    const state = this.slot >= 0 ? 'pending' : this.error === null ? 'complete' : `failed: ${this.error.code}`;
    return `Request { ${this.operation}, ${state} }`;
  }
}

/**
 * Blocks until all requests have ended.
 *
 * @param timeoutMs as in {@link Request.wait}
 * @throws {TimeoutError} when the limit passes; what has not ended stays pending
 * @throws {NbcError} the error of the first request, in the order given, that failed
 */
export function waitAll(requests: readonly Request[], timeoutMs?: number): void {
  const world = worldOf(requests, 'waitAll');
  if (world === null) return;
  const limit = timeoutMs === undefined ? world.timeout : toLimit(timeoutMs, 'waitAll');
  const pending = countPending(requests);
  if (pending > 0) {
    const inTime = waitFor(world, requests, pending, limit, 'waitAll');
    const left = countPending(requests);
    if (!inTime && left > 0) throw timeoutOf('waitAll', limit, left, requests);
  }
  throwFirstError(requests);
}

/**
 * Blocks until at least one request has ended, and returns its index (the lowest, if there are several).
 *
 * @param timeoutMs as in {@link Request.wait}
 * @throws {TimeoutError} when the limit passes; all stay pending
 * @throws {NbcError} the error of the request that ended, if it failed
 */
export function waitAny(requests: readonly Request[], timeoutMs?: number): number {
  const world = worldOf(requests, 'waitAny');
  if (world === null) throw new ArgumentError('requests', 'must not be empty', { operation: 'waitAny' });
  const limit = timeoutMs === undefined ? world.timeout : toLimit(timeoutMs, 'waitAny');
  const pending = countPending(requests);
  if (pending === requests.length) {
    const inTime = waitFor(world, requests, pending, limit, 'waitAny');
    if (!inTime && countPending(requests) === pending) throw timeoutOf('waitAny', limit, pending, requests);
  }
  countPending(requests);
  const index = requests.findIndex((request) => request.slot < 0);
  const error = requests[index].error;
  if (error !== null) throw seen(error);
  return index;
}

/**
 * Makes some progress and says whether all requests are complete.
 * @throws {NbcError} the error of the first request that failed, once all have ended
 */
export function testAll(requests: readonly Request[]): boolean {
  const world = worldOf(requests, 'testAll');
  if (world !== null && countPending(requests) > 0) {
    world.progress();
    if (countPending(requests) > 0) return false;
  }
  throwFirstError(requests);
  return true;
}

/**
 * Microseconds for `startall` where neither the call nor `init()` says: several times what a peer takes to answer that
 * runs.
 */
const DEFAULT_STARTALL = 100;

/** Microseconds that a call can last: a minute. */
const MAX_STARTALL = 60e6;

/**
 * Drives large sends together until all their receivers are ready or the time has passed: N sends pay for one wait.
 * Useful with `progress: 'manual'`, where nothing else does this between two calls. Does not wait for the sends to
 * complete.
 *
 * @param microseconds time limit. Default: the option `startall` of `init()` if that is not 0, else 100
 */
export function startall(requests: readonly Request[], microseconds?: number): void {
  const world = worldOf(requests, 'startall');
  const given: unknown = microseconds;
  if (given !== undefined && !(typeof given === 'number' && given >= 0 && given <= MAX_STARTALL)) {
    const message = `must be a number of microseconds from 0 to ${MAX_STARTALL}, not ${show(microseconds)}`;
    throw new ArgumentError('microseconds', message, { operation: 'startall' });
  }
  if (world === null) return;
  const pending = countPending(requests);
  if (pending === 0) return;
  const limit = Math.round(microseconds ?? (world.startall || DEFAULT_STARTALL));
  world.native.startall(slotsOf(requests, pending), limit);
  countPending(requests);
}

/** Checks a list of requests; null if it is empty. All pending requests belong to the one open world. */
function worldOf(requests: readonly unknown[], operation: string): World | null {
  if (!Array.isArray(requests)) throw new ArgumentError('requests', 'must be an array of requests', { operation });
  let world: World | null = null;
  for (let index = 0; index < requests.length; index++) {
    const request: unknown = requests[index];
    if (!(request instanceof Request)) throw new ArgumentError(`requests[${index}]`, 'is not a request', { operation });
    // Settled requests may be left over from a world that was closed.
    if (world === null || request.slot >= 0) world = request.world;
  }
  return world;
}

/** Drives progress until all requests, of which so many are pending, or any of them have ended. False: time-out. */
function waitFor(
  world: World,
  requests: readonly Request[],
  pending: number,
  limitMs: number,
  call: 'waitAll' | 'waitAny',
): boolean {
  world.functions.requireNone(call, world.rank);
  const began = limitMs > 0 ? performance.now() : 0;
  return (
    world.native[call](slotsOf(requests, pending), limitMs) ||
    world.runWhile(limitMs, began, (left) => {
      // Functions may have settled requests, and started others in their slots.
      const still = countPending(requests);
      if (still === 0 || (call === 'waitAny' && still < requests.length)) return true;
      return world.native[call](slotsOf(requests, still), left);
    })
  );
}

/** Settles those that have ended, and counts the others. */
function countPending(requests: readonly Request[]): number {
  let pending = 0;
  for (let index = 0; index < requests.length; index++) {
    const request = requests[index];
    if (!request.world.settleIfEnded(request)) pending++;
  }
  return pending;
}

/** Lists of slots handed to native code, by length; longer ones are made when they are needed. */
const scratch: Int32Array[] = Array.from({ length: 33 }, (_, length) => new Int32Array(length));

/** The slots of the `count` requests that are not settled. Valid until the next call. */
function slotsOf(requests: readonly Request[], count: number): Int32Array {
  const slots = count < scratch.length ? scratch[count] : new Int32Array(count);
  let at = 0;
  for (let index = 0; index < requests.length; index++) {
    const slot = requests[index].slot;
    if (slot >= 0) slots[at++] = slot;
  }
  return slots;
}

function throwFirstError(requests: readonly Request[]): void {
  let first: NbcError | null = null;
  for (let index = 0; index < requests.length; index++) {
    const error = requests[index].error;
    if (error === null) continue;
    first ??= error;
    seen(error);
  }
  if (first !== null) throw first;
}

/** Says what the first pending request waits for. */
function timeoutOf(call: string, limit: number, pending: number, requests: readonly Request[]): TimeoutError {
  const first = requests.find((request) => request.slot >= 0)!;
  const which = `${pending} of ${requests.length} pending, the first: ${first.operation}`;
  return first.world.timeoutOf(first, limit, `${call} (${which})`);
}

/** A time limit as native code takes it: negative for none. */
function toLimit(timeoutMs: number, operation: string): number {
  if (timeoutMs === Infinity) return -1;
  if (typeof timeoutMs === 'number' && timeoutMs >= 0) return timeoutMs;
  const message = `must be a number of milliseconds from 0, not ${show(timeoutMs)}`;
  throw new ArgumentError('timeoutMs', message, { operation });
}
