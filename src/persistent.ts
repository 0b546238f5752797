/**
 * Persistent requests: operations that are set up once and started as often as one likes.
 *
 * Source: MPI 4.1, 3.9 (persistent communication requests) and 6.13 (persistent collective operations).
 */
import { checkSignal, type OperationOptions, type SignalLike } from './aborts.js';
import { AbortError, ActiveError, ArgumentError, ClosedError, type ErrorContext } from './errors.js';
import { NO_MESSAGE, Request } from './request.js';
import { bytesOf, checkView } from './views.js';
import { LENGTH_AWAITED, type World } from './world.js';

/** A buffer that a persistent request holds: as the Init method found it. */
interface Held {
  readonly view: ArrayBufferView;
  readonly bytes: number;
  /** What the documentation of the method calls the argument. */
  readonly argument: string;
}

/** The communicator of a request. */
export interface Origin {
  requireOpen(operation: string): void;
  revokeIfOpen(): void;
}

/**
 * An operation that is set up once, by an Init method of a communicator, and then started as often as one likes:
 *
 * ```ts
 * const request = world.allreduceInit(send, recv, SUM);
 * for (let step = 0; step < 1000; step++) {
 *   request.start();
 *   await request;
 * }
 * request.free();
 * ```
 *
 * It is _active_ from `start()` until it has ended; in between it counts as complete: `test()` is true, `wait()` and
 * `await` return. Its buffers belong to it while it is active; in between the program may write and read them.
 *
 * The Init methods return at once. An Init counts as a call of a collective of the communicator: all ranks make these
 * calls in the same order, plain and persistent ones. They may start persistent ones in any order, each equally often.
 *
 * A request that failed can be started again; that it failed is forgotten then.
 */
export class PersistentRequest extends Request {
  /** Its slot, whether active or not; -1 after {@link free}. */
  private home: number;
  private readonly origin: Origin;
  private buffers: readonly Held[];
  /** What `length` is after a start. */
  private readonly lengthAtStart: number;

  private constructor(
    world: World,
    origin: Origin,
    operation: string,
    slot: number,
    buffers: readonly Held[],
    length: number,
  ) {
    super(world, operation, -1, null, null, NO_MESSAGE);
    this.home = slot;
    this.origin = origin;
    this.buffers = buffers;
    this.lengthAtStart = length;
    abandoned.register(this, { world, slot }, this);
    world.prepared(this);
  }

  /** @internal The only way to make one, for what native code has prepared in the slot. */
  static prepared(
    world: World,
    origin: Origin,
    operation: string,
    slot: number,
    buffers: readonly Held[],
    length: number,
  ): PersistentRequest {
    return new PersistentRequest(world, origin, operation, slot, buffers, length);
  }

  /**
   * Starts the operation, and returns at once.
   *
   * @param options a signal of this start. If it has fired already, the request fails, and nothing is started
   * @throws {ActiveError} if it is active: wait for it first
   * @throws {ClosedError} after {@link free}, or after its communicator was closed
   * @throws {ArgumentError} naming a buffer that was detached (transferred) since the Init method
   */
  start(options?: OperationOptions): void {
    this.checkStart('start');
    const signal = options?.signal;
    if (signal !== undefined) checkSignal(signal, this.context());
    this.startUnchecked(signal);
  }

  /**
   * Gives back what the request holds: its buffers and its place. It cannot be started afterwards. To free it twice
   * does nothing. A request that is dropped without this is freed by garbage collection.
   *
   * @throws {ActiveError} if it is active
   */
  free(): void {
    if (this.home < 0) return;
    this.requireInactive('free');
    abandoned.unregister(this);
    this.buffers = [];
    const slot = this.home;
    this.home = -1;
    this.world.unprepare(slot);
  }

  /** @internal */
  override get keepsSlot(): boolean {
    return true;
  }

  /** @internal Everything that can be wrong with a start. */
  checkStart(call: string): void {
    if (this.home < 0) throw new ClosedError(`${call}: the request was freed`, this.context());
    this.origin.requireOpen(this.operation);
    this.requireInactive(call);
    const { buffers } = this;
    for (let i = 0; i < buffers.length; i++) {
      if (bytesOf(buffers[i].view) !== buffers[i].bytes) this.refuseBuffer(buffers[i]);
    }
  }

  /** @internal After {@link checkStart}. Without a signal no object is made here. */
  startUnchecked(signal: SignalLike | undefined): void {
    if (signal?.aborted === true) {
      this.error = new AbortError(this.context(), signal.reason);
      return;
    }
    this.error = null;
    this.length = this.lengthAtStart;
    if (this.world.native.restart(this.home)) {
      if (this.length === LENGTH_AWAITED) this.length = this.world.lengthOf(this.home);
      this.world.startedComplete(this.operation);
      return;
    }
    this.slot = this.home;
    this.world.trackAgain(this);
    if (signal !== undefined) this.world.aborts.watch(this, signal, this.origin);
  }

  private requireInactive(call: string): void {
    if (this.slot < 0 || this.world.settleIfEnded(this)) return;
    throw new ActiveError(`${call}: ${this.operation} is active; wait until it has ended`, this.context());
  }

  private refuseBuffer({ view, bytes, argument }: Held): never {
    const now = checkView(view, argument, this.context());
    throw new ArgumentError(argument, `has ${now} bytes, and had ${bytes} when the request was made`, this.context());
  }

  private context(): ErrorContext {
    return this.world.contextOf(this);
  }
}

/** Requests that nobody can reach any more, and which were not freed. Active ones are reachable from the world. */
const abandoned = new FinalizationRegistry<{ world: World; slot: number }>(({ world, slot }) => {
  world.unprepare(slot);
});

/**
 * Starts all requests, in their order. None is started if one of them cannot be.
 *
 * Source: MPI_Startall.
 *
 * @param options a signal of this start, as in {@link PersistentRequest.start}: one for all
 * @throws as {@link PersistentRequest.start}
 */
export function startAll(requests: readonly PersistentRequest[], options?: OperationOptions): void {
  const operation = 'startAll';
  const list: unknown = requests;
  if (!Array.isArray(list)) throw new ArgumentError('requests', 'must be an array of requests', { operation });
  for (const [index, request] of requests.entries() as Iterable<[number, unknown]>) {
    if (request instanceof PersistentRequest) request.checkStart(operation);
    else throw new ArgumentError(`requests[${index}]`, 'is not a persistent request', { operation });
  }
  if (new Set(requests).size < requests.length) {
    throw new ArgumentError('requests', 'has a request twice', { operation });
  }
  const signal = options?.signal;
  if (signal !== undefined) checkSignal(signal, { operation });
  for (const request of requests) request.startUnchecked(signal);
}
