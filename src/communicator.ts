/**
 * Communicators: a group of ranks, and the operations they do together.
 *
 * All ranks of a communicator start its collectives in the same order, with matching sizes, as MPI demands. The methods
 * here check arguments, look up the plan for the shape of the call, and start it: schedules/ says what a plan does.
 */
import { bytesOf, checkView, elementBytes, IN_PLACE, type InPlace, overlap } from './views.js';
import type { Stats } from './counters.js';
import { ArgumentError, ClosedError, type ErrorContext, NbcError, show } from './errors.js';
import { type Context, duplicate, splitByColor } from './groups.js';
import { errorFromNative } from './native-errors.js';
import { PlanCache, type PlanSource, PlanStore } from './plans.js';
import { Request } from './request.js';
import {
  chooseIalltoall,
  IALLTOALL_ALGORITHMS,
  type IalltoallAlgorithm,
  ialltoallSchedule,
} from './schedules/ialltoall.js';
import { chooseIbcast, IBCAST_ALGORITHMS, type IbcastAlgorithm, ibcastSchedule } from './schedules/ibcast.js';
import { chooseIgather, IGATHER_ALGORITHMS, type IgatherAlgorithm, igatherSchedule } from './schedules/igather.js';
import { igathervRoot, igathervSend } from './schedules/igatherv.js';
import { blocksOf, type Counts } from './vectors.js';
import type { World } from './world.js';

const inspect = Symbol.for('nodejs.util.inspect.custom');

export interface IbcastOptions {
  /** Default: chosen by size and number of ranks. Equal on all ranks. */
  algorithm?: IbcastAlgorithm | undefined;
}
export interface IgatherOptions {
  /** Default: chosen by size and number of ranks. Equal on all ranks. */
  algorithm?: IgatherAlgorithm | undefined;
}
export interface IalltoallOptions {
  /** Default: chosen by size and number of ranks. Equal on all ranks. */
  algorithm?: IalltoallAlgorithm | undefined;
}

/** Highest tag of a point-to-point message. */
export const MAX_TAG = 32767;

const ibcastPlans: PlanSource = {
  operation: 'ibcast',
  algorithms: IBCAST_ALGORITHMS,
  build: ({ rank, size }, algorithm, root, bytes) =>
    ibcastSchedule((algorithm as IbcastAlgorithm | undefined) ?? chooseIbcast(bytes, size), rank, size, root, bytes),
};

/** Looked up by the bytes of one block. */
function igatherPlans(inPlace: boolean): PlanSource {
  return {
    operation: 'igather',
    algorithms: IGATHER_ALGORITHMS,
    build: ({ rank, size }, algorithm, root, bytes) =>
      igatherSchedule(
        (algorithm as IgatherAlgorithm | undefined) ?? chooseIgather(bytes, size),
        rank,
        size,
        root,
        bytes,
        inPlace,
      ),
  };
}

/** Looked up by the bytes of the whole buffer, so that the hot path need not divide. */
function ialltoallPlans(inPlace: boolean): PlanSource {
  return {
    operation: 'ialltoall',
    algorithms: IALLTOALL_ALGORITHMS,
    build: ({ rank, size }, algorithm, _root, bytes) => {
      const block = bytes / size;
      const chosen = (algorithm as IalltoallAlgorithm | undefined) ?? chooseIalltoall(block, size);
      return ialltoallSchedule(chosen, rank, size, block, inPlace);
    },
  };
}

const igatherFromSend = igatherPlans(false);
const igatherInPlace = igatherPlans(true);
const ialltoallFromSend = ialltoallPlans(false);
const ialltoallInPlace = ialltoallPlans(true);

/**
 * A group of ranks. `init()` returns the one that has all of them; `dup` and `split` make others.
 *
 * Buffers are views: typed arrays of any kind, Buffer, DataView. A buffer belongs to the operation until that has
 * ended; see {@link Request}. Wrong arguments throw an {@link ArgumentError} that names the argument, before anything
 * is sent.
 */
export class Communicator {
  /** This process's rank in the communicator: 0 to size − 1. */
  readonly rank: number;
  /** Number of ranks. */
  readonly size: number;
  /** @internal */ readonly world: World;
  /** @internal What native code knows this communicator by. */
  readonly handle: number;
  /** @internal World rank of each rank. */
  readonly members: Uint32Array;
  /** @internal */ readonly context: Context;

  /** @internal The last dup or split that was called: the next one starts when it has ended. */
  lastControl: Promise<unknown> = Promise.resolve();

  private closed = false;
  private ownControl: Communicator | null = null;
  private readonly ibcastPlans: PlanCache;
  private readonly igatherPlans: PlanCache;
  private readonly igatherInPlacePlans: PlanCache;
  /** By a text that stands for the shape. */
  private readonly igathervPlans: PlanStore<string>;
  private readonly ialltoallPlans: PlanCache;
  private readonly ialltoallInPlacePlans: PlanCache;

  private constructor(world: World, members: Uint32Array, rank: number, context: Context) {
    // A program in JavaScript can call private constructors.
    if ((world as World | undefined) === undefined) {
      const message = 'Communicator: init() makes the first one, dup() and split() make others, new does not';
      throw new NbcError('ERR_NBC_CONSTRUCTOR', message);
    }
    this.world = world;
    this.members = members;
    this.rank = rank;
    this.size = members.length;
    this.context = context;
    try {
      this.handle = world.native.createCommunicator(members, rank, context.high, context.low);
    } catch (thrown) {
      throw errorFromNative(thrown, { rank: world.rank });
    }
    world.communicators.add(this);
    this.ibcastPlans = new PlanCache(this, ibcastPlans);
    this.igatherPlans = new PlanCache(this, igatherFromSend);
    this.igatherInPlacePlans = new PlanCache(this, igatherInPlace);
    this.igathervPlans = new PlanStore(this, 'igatherv');
    this.ialltoallPlans = new PlanCache(this, ialltoallFromSend);
    this.ialltoallInPlacePlans = new PlanCache(this, ialltoallInPlace);
  }

  /** @internal The only way to make one. */
  static of(world: World, members: Uint32Array, rank: number, context: Context): Communicator {
    return new Communicator(world, members, rank, context);
  }

  /**
   * Broadcasts the root's buffer: when complete, every rank's buffer holds the same bytes. All pass buffers of the same
   * size.
   *
   * Source: MPI_Ibcast.
   */
  ibcast(buffer: ArrayBufferView, root: number, options?: IbcastOptions): Request {
    const plans = this.ibcastPlans;
    const repeated = bytesOf(buffer) === plans.bytes && root === plans.root && options === undefined;
    const plan = repeated ? plans.plan : this.ibcastPlan(buffer, root, options);
    return this.start('ibcast', plan, null, buffer);
  }

  /**
   * Gathers a block from every rank at the root: when complete, block i of `recv` there is `send` of rank i.
   *
   * @param send this rank's block, of the same size everywhere. At the root also `IN_PLACE`: its block stands in `recv`
   *   already
   * @param recv at the root, `size` blocks that don't overlap `send`; ignored at other ranks, usually null
   *
   * Source: MPI_Igather.
   */
  igather(
    send: ArrayBufferView | InPlace,
    recv: ArrayBufferView | null,
    root: number,
    options?: IgatherOptions,
  ): Request {
    const inPlace = send === IN_PLACE;
    const source = inPlace ? null : send;
    const target = root === this.rank ? recv : null;
    const plans = inPlace ? this.igatherInPlacePlans : this.igatherPlans;
    const block = inPlace ? bytesOf(recv) / this.size : bytesOf(send);
    const repeated =
      block === plans.bytes &&
      root === plans.root &&
      options === undefined &&
      (target === null || bytesOf(target) === block * this.size);
    const plan = repeated ? plans.plan : this.igatherPlan(send, recv, root, options);
    return this.start('igather', plan, source, target);
  }

  /**
   * Gathers a block from every rank at the root, each of a size of its own: when complete, `counts[i]` elements of
   * `recv` there, from element `displs[i]` on, are `send` of rank i.
   *
   * @param send this rank's block. At the root also `IN_PLACE`: its block stands in `recv` already
   * @param recv at the root, where blocks go; ignored at other ranks, usually null
   * @param counts at the root, the size of each rank's block, in elements of `recv`; ignored at other ranks
   * @param displs at the root, where each block begins, in elements of `recv`; null: one behind the other. Blocks don't
   *   overlap
   *
   * Source: MPI_Igatherv.
   */
  igatherv(
    send: ArrayBufferView | InPlace,
    recv: ArrayBufferView | null,
    counts: Counts | null,
    displs: Counts | null,
    root: number,
  ): Request {
    const context = this.during('igatherv');
    this.checkRank(root, 'root', context);
    if (root !== this.rank) {
      if (send === IN_PLACE) throw new ArgumentError('send', 'IN_PLACE is for the root only', context);
      const bytes = checkView(send, 'send', context);
      const plan = this.igathervPlans.find(`${root} ${bytes}`, () => igathervSend(root, bytes));
      return this.start('igatherv', plan, send, null);
    }
    const inPlace = send === IN_PLACE;
    const all = checkView(recv, 'recv', context);
    const blocks = blocksOf(counts, displs, this.size, elementBytes(recv!), all, context);
    if (!inPlace) {
      const bytes = checkView(send, 'send', context);
      if (bytes !== blocks[root].bytes) {
        const message = `must have the bytes that counts gives its rank: ${blocks[root].bytes}, not ${bytes}`;
        throw new ArgumentError('send', message, context);
      }
      checkApart(send, recv!, context);
    }
    const key = `${inPlace} ${blocks.map(({ offset, bytes }) => `${offset}+${bytes}`).join(' ')}`;
    const plan = this.igathervPlans.find(key, () => igathervRoot(root, blocks, inPlace));
    return this.start('igatherv', plan, inPlace ? null : send, recv);
  }

  /**
   * Exchanges blocks between all ranks: when complete, block i of `recv` is what was block `rank` of `send` at rank i.
   *
   * @param send `size` blocks; or `IN_PLACE`: they stand in `recv`, and are replaced by those received
   * @param recv `size` blocks, as large as `send`, without overlap
   *
   * Source: MPI_Ialltoall.
   */
  ialltoall(send: ArrayBufferView | InPlace, recv: ArrayBufferView, options?: IalltoallOptions): Request {
    const inPlace = send === IN_PLACE;
    const source = inPlace ? null : send;
    const plans = inPlace ? this.ialltoallInPlacePlans : this.ialltoallPlans;
    const bytes = bytesOf(recv);
    const repeated = bytes === plans.bytes && options === undefined && (source === null || bytesOf(source) === bytes);
    const plan = repeated ? plans.plan : this.ialltoallPlan(send, recv, options);
    return this.start('ialltoall', plan, source, recv);
  }

  /**
   * Sends a message to rank `dest`, which receives it with {@link irecv}. Messages with one tag arrive in the order in
   * which they were sent.
   *
   * @param tag 0 to 32767, the same on both sides
   */
  isend(buffer: ArrayBufferView, dest: number, tag = 0): Request {
    this.checkMessage('isend', 'dest', dest, tag);
    const { world } = this;
    const slot = world.nextSlot >= 0 ? world.nextSlot : world.findSlot('isend');
    let complete: boolean;
    try {
      complete = world.native.isend(this.handle, slot, buffer, dest, tag);
    } catch (thrown) {
      throw this.explain(thrown, 'isend', buffer, null);
    }
    return complete ? this.ended('isend') : this.pending('isend', slot, buffer, null);
  }

  /**
   * Receives the message that rank `source` sends with {@link isend} and the same tag. The buffer has exactly its size.
   */
  irecv(buffer: ArrayBufferView, source: number, tag = 0): Request {
    this.checkMessage('irecv', 'source', source, tag);
    const { world } = this;
    const slot = world.nextSlot >= 0 ? world.nextSlot : world.findSlot('irecv');
    let complete: boolean;
    try {
      complete = world.native.irecv(this.handle, slot, buffer, source, tag);
    } catch (thrown) {
      throw this.explain(thrown, 'irecv', null, buffer);
    }
    return complete ? this.ended('irecv') : this.pending('irecv', slot, null, buffer);
  }

  /**
   * A communicator of the same ranks, whose messages never meet those of this one. Collective: all ranks call `dup` and
   * `split` in the same order; other operations may go on meanwhile.
   */
  dup(): Promise<Communicator> {
    return duplicate(this);
  }

  /**
   * Divides the ranks into groups, one for each color, ordered by key and then by rank. Collective, as {@link dup}.
   *
   * @param color a whole number from 0 to 2³¹ − 1, or undefined: this rank is in no group
   * @param key where in the group: a 32-bit number, default 0
   * @returns this rank's group, or null
   */
  split(color: number | undefined, key = 0): Promise<Communicator | null> {
    return splitByColor(this, color, key);
  }

  /**
   * Counters of this rank since `init()`; the same on all its communicators. Which there are depends on the transport:
   * {@link Stats}, and docs/counters.md.
   */
  stats(): Stats {
    this.requireOpen('stats');
    return this.world.native.stats();
  }

  /**
   * Ends this communicator: later calls fail with a {@link ClosedError}, operations in progress complete as usual. On
   * the communicator from `init()` it ends them all, and the whole world with them: then operations in progress fail
   * with a ClosedError, too.
   *
   * Each rank closes when it likes, but who still needs something from it gets a {@link PeerClosedError}. To close
   * twice does nothing.
   */
  async close(): Promise<void> {
    if (this.closed) return;
    if (this.context.high === 0 && this.context.low === 0) {
      this.world.close();
      return;
    }
    this.closed = true;
    for (const plans of this.planCaches()) plans.release();
    this.igathervPlans.release();
    this.world.native.freeCommunicator(this.handle);
    this.world.communicators.delete(this);
    await this.ownControl?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal A communicator of the same ranks for the needs of dup and split, apart from all that users send. */
  get control(): Communicator {
    const { high, low } = this.context;
    this.ownControl ??= this.derive(this.members, this.rank, { high, low: low + 2 });
    return this.ownControl;
  }

  /** @internal A communicator of other members or another context, of the same world. */
  derive(members: Uint32Array, rank: number, context: Context): Communicator {
    this.requireOpen('derive');
    return new Communicator(this.world, members, rank, context);
  }

  /** @internal The world is gone: every later call must notice. */
  forget(): void {
    this.closed = true;
    for (const plans of this.planCaches()) plans.forget();
  }

  /** @internal @throws {ClosedError} */
  requireOpen(operation: string): void {
    if (!this.closed) return;
    const context = { operation, rank: this.world.rank };
    throw new ClosedError(`${operation}: the communicator is closed`, context);
  }

  /** @internal */
  [inspect](): string {
    return `Communicator { rank ${this.rank} of ${this.size}${this.closed ? ', closed' : ''} }`;
  }

  // Plans for calls that don't repeat the last one: all arguments are checked.

  private ibcastPlan(buffer: ArrayBufferView, root: number, options: IbcastOptions | undefined): number {
    return this.ibcastPlans.find(checkView(buffer, 'buffer', this.during('ibcast')), root, options);
  }

  private igatherPlan(
    send: ArrayBufferView | InPlace,
    recv: ArrayBufferView | null,
    root: number,
    options: IgatherOptions | undefined,
  ): number {
    const context = this.during('igather');
    this.checkRank(root, 'root', context);
    if (root !== this.rank) {
      if (send === IN_PLACE) throw new ArgumentError('send', 'IN_PLACE is for the root only', context);
      return this.igatherPlans.find(checkView(send, 'send', context), root, options);
    }
    const all = checkView(recv, 'recv', context);
    if (send === IN_PLACE) return this.igatherInPlacePlans.find(this.blockOf(all, 'recv', context), root, options);
    const block = checkView(send, 'send', context);
    if (all !== block * this.size) {
      const message = `must hold ${this.size} blocks of ${block} bytes (as send has), which ${all} bytes are not`;
      throw new ArgumentError('recv', message, context);
    }
    checkApart(send, recv!, context);
    return this.igatherPlans.find(block, root, options);
  }

  private ialltoallPlan(
    send: ArrayBufferView | InPlace,
    recv: ArrayBufferView,
    options: IalltoallOptions | undefined,
  ): number {
    const context = this.during('ialltoall');
    const bytes = checkView(recv, 'recv', context);
    this.blockOf(bytes, 'recv', context);
    if (send === IN_PLACE) return this.ialltoallInPlacePlans.find(bytes, 0, options);
    const sendBytes = checkView(send, 'send', context);
    if (sendBytes !== bytes) {
      throw new ArgumentError('recv', `must be as large as send: ${sendBytes} bytes, not ${bytes}`, context);
    }
    checkApart(send, recv, context);
    return this.ialltoallPlans.find(bytes, 0, options);
  }

  private start(
    operation: string,
    plan: number,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
  ): Request {
    const { world } = this;
    const slot = world.nextSlot >= 0 ? world.nextSlot : world.findSlot(operation);
    let complete: boolean;
    try {
      complete = world.native.start(plan, slot, send, receive);
    } catch (thrown) {
      throw this.explain(thrown, operation, send, receive);
    }
    return complete ? this.ended(operation) : this.pending(operation, slot, send, receive);
  }

  /** What native code would not start, in terms of the arguments. */
  private explain(
    thrown: unknown,
    operation: string,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
  ): unknown {
    const context = this.during(operation);
    const one = operation === 'ibcast' || operation === 'isend' || operation === 'irecv' ? 'buffer' : null;
    try {
      if (send !== null) checkView(send, one ?? 'send', context);
      if (receive !== null) checkView(receive, one ?? 'recv', context);
      if (send !== null && receive !== null) checkApart(send, receive, context);
    } catch (better) {
      return better;
    }
    return errorFromNative(thrown, context);
  }

  /** The request of an operation that was complete when it had started. It needs no slot. */
  private ended(operation: string): Request {
    return Request.of(this.world, operation, -1, null, null);
  }

  private pending(
    operation: string,
    slot: number,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
  ): Request {
    const request = Request.of(this.world, operation, slot, send, receive);
    this.world.track(request);
    return request;
  }

  private checkMessage(operation: string, argument: string, peer: number, tag: number): void {
    if (this.closed || !this.isRank(peer) || !isTag(tag)) {
      this.refuseMessage(operation, argument, peer, tag);
    }
  }

  private refuseMessage(operation: string, argument: string, peer: number, tag: number): never {
    this.requireOpen(operation);
    const context = this.during(operation);
    this.checkRank(peer, argument, context);
    throw new ArgumentError('tag', `must be a whole number from 0 to ${MAX_TAG}, not ${show(tag)}`, context);
  }

  private isRank(value: number): boolean {
    return Number.isInteger(value) && value >= 0 && value < this.size;
  }

  /** @internal */
  checkRank(value: number, argument: string, context: ErrorContext): void {
    if (this.isRank(value)) return;
    const message = `must be a rank of the communicator, 0 to ${this.size - 1}, not ${show(value)}`;
    throw new ArgumentError(argument, message, context);
  }

  /** Bytes of one of `size` equal blocks. */
  private blockOf(bytes: number, argument: string, context: ErrorContext): number {
    if (bytes % this.size === 0) return bytes / this.size;
    const message = `must hold ${this.size} equal blocks, one per rank, which ${bytes} bytes are not`;
    throw new ArgumentError(argument, message, context);
  }

  private during(operation: string): ErrorContext {
    return { operation, rank: this.world.rank };
  }

  private planCaches(): PlanCache[] {
    const { ibcastPlans, igatherPlans, igatherInPlacePlans, ialltoallPlans, ialltoallInPlacePlans } = this;
    return [ibcastPlans, igatherPlans, igatherInPlacePlans, ialltoallPlans, ialltoallInPlacePlans];
  }
}

function isTag(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= MAX_TAG;
}

function checkApart(send: ArrayBufferView, recv: ArrayBufferView, context: ErrorContext): void {
  if (overlap(send, recv))
    throw new ArgumentError('recv', 'overlaps send in memory; use IN_PLACE or two buffers', context);
}
