/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Communicators: a group of ranks, and the operations they do together.
 *
 * All ranks of a communicator start its collectives in the same order, with matching sizes, as MPI demands. The methods
 * here check arguments, look up the plan for the shape of the call, and start it: schedules/ says what a plan does.
 */
import { checkSignal, type OperationOptions, type SignalLike } from './aborts.js';
import { type Outcome, Purpose } from './agreement.js';
import { OFFSET } from './contexts.js';
import type { Stats } from './counters.js';
import {
  AbortError,
  ArgumentError,
  ClosedError,
  type ErrorContext,
  MismatchError,
  nameCall,
  NbcError,
  requireObject,
  show,
  tellPlaces,
} from './errors.js';
import { connect, type Context, type Derive, duplicate, splitByColor } from './groups.js';
import type { Network } from './native.js';
import { errorFromNative, throwMismatch } from './native-errors.js';
import { type AlgorithmOf, OPERATIONS, type OperationName } from './operations/index.js';
import { type Data, isLayout } from './layouts.js';
import { type End, MessagePlans } from './messages.js';
import { NEIGHBOR_OPERATIONS, type NeighborOperationName } from './operations/neighbor.js';
import type { Counts } from './operations/operation.js';
import { type Parts, type Peers, place } from './operations/parts.js';
import type { Op } from './operators.js';
import { type Hints, NO_LISTS, OwnPlans, PlanCache } from './plans.js';
import { PersistentRequest } from './persistent.js';
import { NO_MESSAGE, Request } from './request.js';
import type { Schedule } from './schedules/schedule.js';
import type { Compound } from './signatures.js';
import { Survivors } from './survivors.js';
import { type Utilization, utilizationSince } from './utilization.js';
import { Values } from './values.js';
import {
  checkGraph,
  checkGrid,
  disagreementOnGraph,
  disagreementOnGrid,
  type Grid,
  type Neighbors,
} from './topologies.js';
import { checkView, IN_PLACE, type InPlace, overlap } from './views.js';
import { LENGTH_AWAITED, type World } from './world.js';

const inspect = Symbol.for('nodejs.util.inspect.custom');

/** Options of the collective of that name: `CollectiveOptions<'ibcast'>`. */
export interface CollectiveOptions<Name extends OperationName> extends OperationOptions {
  /** Default: chosen by size and number of ranks. Equal on all ranks. docs/algorithms.md lists them. */
  algorithm?: AlgorithmOf<Name> | undefined;
}

/** The method that makes a persistent request of what another one starts: the same arguments. */
export type PersistentForm<Method extends (...args: never[]) => Request> = (
  ...args: Parameters<Method>
) => PersistentRequest;

/** Methods whose one buffer is called so. */
const BUFFER_ONLY = new Set(['ibcast', 'bcastInit', 'isend', 'sendInit', 'irecv', 'recvInit']);

/** Methods of which a buffer is a list of parts. */
const PARTS_ONLY = new Set(['alltoallwInit', 'neighborAlltoallwInit']);

/** What {@link Communicator.agree} gives, the same on all ranks. */
export interface Agreed {
  /** The bitwise AND over the values of all ranks that are not in `lost`: a signed 32-bit number. */
  readonly value: number;
  /** Ranks of the communicator that have ended, ascending: at least those that had when the first rank called. */
  readonly lost: readonly number[];
}

/** Methods that work on a communicator that is revoked. */
const WORKS_REVOKED = new Set(['agree', 'shrink']);

const INT32_MIN = -(2 ** 31);
const UINT32_MAX = 2 ** 32 - 1;

/** Highest tag of a point-to-point message. */
export const MAX_TAG = 32767;

/** How a rank reaches another one: {@link Communicator.peers}. */
export interface PeerNetwork {
  network: Network;
  /** Why it is not reached by verbs, with `transport: 'auto'` on several hosts. */
  why?: string;
}

/**
 * A group of ranks. `init()` returns the one that has all of them; `dup` and `split` make others.
 *
 * Buffers are views: typed arrays of any kind, Buffer, DataView; or layouts of them ({@link strided}). A buffer belongs
 * to the operation until that has ended; see {@link Request}. Wrong arguments throw an {@link ArgumentError} that names
 * the argument, before anything is sent.
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
  /** @internal The host of each rank; undefined: all ranks are on one. */
  readonly hosts: readonly number[] | undefined;
  /** @internal Whether ranks share processors: see {@link World.crowded}. */
  readonly crowded: boolean;
  /** @internal */ readonly context: Context;

  /** @internal The last dup or split that was called: the next one starts when it has ended. */
  lastControl: Promise<unknown> = Promise.resolve();

  private closed = false;
  /** Calls that give a promise, and are under way. */
  private calls = 0;
  private ownControl: Communicator | null = null;
  private whatPrepares: Communicator | null = null;
  /** Its collectives are prepared instead of started. */
  private readonly prepares: boolean = false;
  private readonly ownPlans: OwnPlans;
  private ownValues: Values | null = null;
  private ownSurvivors: Survivors | null = null;
  /** @internal What the collectives of this communicator have been compiled to. */
  plans: Plans;
  /** The same for what {@link begin} has begun. */
  private readonly compounds = new Map<Compound, Plans>();
  private messages: MessagePlans | null = null;

  // The persistent forms, which {@link addPersistentForms} makes from the others.

  /** Persistent {@link ibarrier}. Source: MPI_Barrier_init. */
  declare readonly barrierInit: PersistentForm<Communicator['ibarrier']>;
  /** Persistent {@link ibcast}. Source: MPI_Bcast_init. */
  declare readonly bcastInit: PersistentForm<Communicator['ibcast']>;
  /** Persistent {@link iscatter}. Source: MPI_Scatter_init. */
  declare readonly scatterInit: PersistentForm<Communicator['iscatter']>;
  /** Persistent {@link iscatterv}. Source: MPI_Scatterv_init. */
  declare readonly scattervInit: PersistentForm<Communicator['iscatterv']>;
  /** Persistent {@link igather}. Source: MPI_Gather_init. */
  declare readonly gatherInit: PersistentForm<Communicator['igather']>;
  /** Persistent {@link igatherv}. Source: MPI_Gatherv_init. */
  declare readonly gathervInit: PersistentForm<Communicator['igatherv']>;
  /** Persistent {@link iallgather}. Source: MPI_Allgather_init. */
  declare readonly allgatherInit: PersistentForm<Communicator['iallgather']>;
  /** Persistent {@link iallgatherv}. Source: MPI_Allgatherv_init. */
  declare readonly allgathervInit: PersistentForm<Communicator['iallgatherv']>;
  /** Persistent {@link ialltoall}. Source: MPI_Alltoall_init. */
  declare readonly alltoallInit: PersistentForm<Communicator['ialltoall']>;
  /** Persistent {@link ialltoallv}. Source: MPI_Alltoallv_init. */
  declare readonly alltoallvInit: PersistentForm<Communicator['ialltoallv']>;
  /** Persistent {@link ialltoallw}; parts must lie in one ArrayBuffer each way. Source: MPI_Alltoallw_init. */
  declare readonly alltoallwInit: PersistentForm<Communicator['ialltoallw']>;
  /** Persistent {@link ireduce}. Source: MPI_Reduce_init. */
  declare readonly reduceInit: PersistentForm<Communicator['ireduce']>;
  /** Persistent {@link iallreduce}. Source: MPI_Allreduce_init. */
  declare readonly allreduceInit: PersistentForm<Communicator['iallreduce']>;
  /** Persistent {@link ireduceScatterBlock}. Source: MPI_Reduce_scatter_block_init. */
  declare readonly reduceScatterBlockInit: PersistentForm<Communicator['ireduceScatterBlock']>;
  /** Persistent {@link ireduceScatter}. Source: MPI_Reduce_scatter_init. */
  declare readonly reduceScatterInit: PersistentForm<Communicator['ireduceScatter']>;
  /** Persistent {@link iscan}. Source: MPI_Scan_init. */
  declare readonly scanInit: PersistentForm<Communicator['iscan']>;
  /** Persistent {@link iexscan}. Source: MPI_Exscan_init. */
  declare readonly exscanInit: PersistentForm<Communicator['iexscan']>;

  /** Not for programs: {@link init}, {@link dup} and others make communicators. */
  protected constructor(world: World, members: Uint32Array, rank: number, context: Context) {
    // A program in JavaScript can call private constructors.
    if ((world as World | undefined) === undefined) {
      const message = 'Communicator: init() makes the first one, dup() and split() make others, new does not';
      throw new NbcError('ERR_NBC_CONSTRUCTOR', message);
    }
    this.world = world;
    this.members = members;
    this.rank = rank;
    this.size = members.length;
    this.hosts = world.hosts && Array.from(members, (member) => world.hosts![member]);
    this.crowded = world.crowded;
    this.context = context;
    try {
      this.handle = world.native.createCommunicator(members, rank, context.high, context.low);
    } catch (thrown) {
      throw errorFromNative(thrown, { rank: world.rank });
    }
    world.communicators.add(this);
    this.plans = this.makePlans();
    this.ownPlans = new OwnPlans(this);
  }

  private makePlans(compound?: Compound): Plans {
    const plans: Partial<Plans> = {};
    for (const operation of OPERATIONS) plans[operation.name] = new PlanCache(this, operation, compound);
    return plans as Plans;
  }

  /** @internal On a communicator that carries them: what the calls from now on are parts of. */
  begin(compound: Compound): void {
    let plans = this.compounds.get(compound);
    if (plans === undefined) this.compounds.set(compound, (plans = this.makePlans(compound)));
    this.plans = plans;
  }

  /** @internal The only way to make one. */
  static of(world: World, members: Uint32Array, rank: number, context: Context): Communicator {
    return new Communicator(world, members, rank, context);
  }

  /**
   * A barrier: the request ends when every rank has started it.
   *
   * Source: MPI_Ibarrier.
   */
  ibarrier(options?: CollectiveOptions<'ibarrier'>): Request {
    return this.launch(this.plans.ibarrier, null, null, 0, options);
  }

  /**
   * Broadcasts the root's buffer: when complete, every rank's buffer holds the same bytes. All pass buffers of the same
   * size.
   *
   * Source: MPI_Ibcast.
   */
  ibcast(buffer: Data, root: number, options?: CollectiveOptions<'ibcast'>): Request {
    return this.launch(this.plans.ibcast, null, buffer, root, options);
  }

  /**
   * Gives each rank a block of the root's buffer: when complete, `recv` of rank i is what was block i of `send` there.
   *
   * @param send at the root, `size` blocks; ignored at other ranks, usually null
   * @param recv this rank's block, of the same size everywhere, without overlap with `send`. At the root also
   *   `IN_PLACE`: its block stays in `send`
   *
   * Source: MPI_Iscatter.
   */
  iscatter(send: Data | null, recv: Data | InPlace, root: number, options?: CollectiveOptions<'iscatter'>): Request {
    return this.launch(this.plans.iscatter, root === this.rank ? send : null, recv, root, options);
  }

  /**
   * Gives each rank a block of the root's buffer, each of a size of its own: when complete, `recv` of rank i is what
   * was `counts[i]` elements of `send` there, from element `displs[i]` on.
   *
   * @param send at the root, the buffer with all blocks; ignored at other ranks, usually null
   * @param counts at the root, the size of each rank's block, in elements of `send`; ignored at other ranks
   * @param displs at the root, where each block begins, in elements of `send`; null: one behind the other
   * @param recv this rank's block. At the root also `IN_PLACE`: its block stays in `send`
   *
   * Source: MPI_Iscatterv.
   */
  iscatterv(
    send: Data | null,
    counts: Counts | null,
    displs: Counts | null,
    recv: Data | InPlace,
    root: number,
    options?: CollectiveOptions<'iscatterv'>,
  ): Request {
    if (root !== this.rank) return this.launchListed(this.plans.iscatterv, null, recv, root, NO_LISTS, options);
    return this.launchListed(this.plans.iscatterv, send, recv, root, [counts, displs], options);
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
  igather(send: Data | InPlace, recv: Data | null, root: number, options?: CollectiveOptions<'igather'>): Request {
    return this.launch(this.plans.igather, send, root === this.rank ? recv : null, root, options);
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
    send: Data | InPlace,
    recv: Data | null,
    counts: Counts | null,
    displs: Counts | null,
    root: number,
    options?: CollectiveOptions<'igatherv'>,
  ): Request {
    if (root !== this.rank) return this.launchListed(this.plans.igatherv, send, null, root, NO_LISTS, options);
    return this.launchListed(this.plans.igatherv, send, recv, root, [counts, displs], options);
  }

  /**
   * Gathers a block from every rank at every rank: when complete, block i of `recv` is `send` of rank i.
   *
   * @param send this rank's block, of the same size everywhere; or `IN_PLACE`: it stands at its place in `recv`
   * @param recv `size` blocks that don't overlap `send`
   *
   * Source: MPI_Iallgather.
   */
  iallgather(send: Data | InPlace, recv: Data, options?: CollectiveOptions<'iallgather'>): Request {
    return this.launch(this.plans.iallgather, send, recv, 0, options);
  }

  /**
   * Gathers a block from every rank at every rank, each of a size of its own: when complete, `counts[i]` elements of
   * `recv`, from element `displs[i]` on, are `send` of rank i. All ranks pass the same counts.
   *
   * @param send this rank's block; or `IN_PLACE`: it stands at its place in `recv`
   * @param counts the size of each rank's block, in elements of `recv`
   * @param displs where each block begins, in elements of `recv`; null: one behind the other. Blocks don't overlap
   *
   * Source: MPI_Iallgatherv.
   */
  iallgatherv(
    send: Data | InPlace,
    recv: Data,
    counts: Counts,
    displs: Counts | null,
    options?: CollectiveOptions<'iallgatherv'>,
  ): Request {
    return this.launchListed(this.plans.iallgatherv, send, recv, 0, [counts, displs], options);
  }

  /**
   * Exchanges blocks between all ranks: when complete, block i of `recv` is what was block `rank` of `send` at rank i.
   *
   * @param send `size` blocks; or `IN_PLACE`: they stand in `recv`, and are replaced by those received
   * @param recv `size` blocks, as large as `send`, without overlap
   *
   * Source: MPI_Ialltoall.
   */
  ialltoall(send: Data | InPlace, recv: Data, options?: CollectiveOptions<'ialltoall'>): Request {
    return this.launch(this.plans.ialltoall, send, recv, 0, options);
  }

  /**
   * Exchanges blocks between all ranks, each of a size of its own: `sendCounts[i]` elements of `send`, from element
   * `sendDispls[i]` on, go to rank i; what comes from rank i goes to `recv`, from element `recvDispls[i]` on, and has
   * `recvCounts[i]` elements there.
   *
   * @param send or `IN_PLACE`, with null as `sendCounts` and `sendDispls`: the blocks to send stand in `recv`, and are
   *   replaced by those received. Two ranks then have blocks of the same size for each other
   * @param sendDispls null: one behind the other; so `recvDispls`. Blocks of `recv` don't overlap
   *
   * Source: MPI_Ialltoallv.
   */
  ialltoallv(
    send: Data | InPlace,
    sendCounts: Counts | null,
    sendDispls: Counts | null,
    recv: Data,
    recvCounts: Counts,
    recvDispls: Counts | null,
    options?: CollectiveOptions<'ialltoallv'>,
  ): Request {
    const lists = [sendCounts, sendDispls, recvCounts, recvDispls];
    return this.launchListed(this.plans.ialltoallv, send, recv, 0, lists, options);
  }

  /**
   * Exchanges parts between all ranks, each with a buffer of its own: `sends[i]` goes to rank i; what comes from rank i
   * goes to `recvs[i]`, and has exactly its size. The parts are views, or layouts ({@link strided}), or null: no bytes.
   *
   * Views of one ArrayBuffer are sent from and received into their places. If those to send, or those to receive into,
   * are in several, they are copied on this thread: the former in this call, the latter when the request is first seen
   * to be complete.
   *
   * @param sends or `IN_PLACE`: what is to be sent stands in `recvs`, and is replaced by what is received
   * @param recvs don't overlap each other, nor `sends`
   *
   * Source: MPI_Ialltoallw.
   */
  ialltoallw(sends: Parts | InPlace, recvs: Parts, options?: CollectiveOptions<'ialltoallw'>): Request {
    return this.launchParts(this.plans.ialltoallw, sends, recvs, { sends: this.members, recvs: this.members }, options);
  }

  /**
   * Combines a contribution of every rank, element by element: when complete, `recv` at the root holds the result.
   *
   * @param send this rank's contribution, of the same length everywhere. At the root also `IN_PLACE`: it
   * stands in `recv`
   * @param recv at the root, as long as `send`; ignored at other ranks, usually null
   * @param op an operator: `SUM`, `MAX`, …
   *
   * Source: MPI_Ireduce.
   */
  ireduce(
    send: Data | InPlace,
    recv: Data | null,
    op: Op,
    root: number,
    options?: CollectiveOptions<'ireduce'>,
  ): Request {
    return this.launch(this.plans.ireduce, send, root === this.rank ? recv : null, root, options, op);
  }

  /**
   * Combines a contribution of every rank, element by element: when complete, `recv` of every rank holds the result.
   *
   * @param send this rank's contribution, of the same length everywhere; or `IN_PLACE`: it stands in `recv`
   *
   * Source: MPI_Iallreduce.
   */
  iallreduce(send: Data | InPlace, recv: Data, op: Op, options?: CollectiveOptions<'iallreduce'>): Request {
    return this.launch(this.plans.iallreduce, send, recv, 0, options, op);
  }

  /**
   * Combines a contribution of every rank, element by element: when complete, `recv` of rank i holds block i of the
   * result.
   *
   * @param send `size` blocks; or `IN_PLACE`: they stand in `recv`, whose first block then holds the result
   * @param recv one block; in place, `size` blocks
   *
   * Source: MPI_Ireduce_scatter_block.
   */
  ireduceScatterBlock(
    send: Data | InPlace,
    recv: Data,
    op: Op,
    options?: CollectiveOptions<'ireduceScatterBlock'>,
  ): Request {
    return this.launch(this.plans.ireduceScatterBlock, send, recv, 0, options, op);
  }

  /**
   * As {@link ireduceScatterBlock}, with blocks of different sizes: `counts[i]` elements for rank i, one block behind
   * the other. All ranks pass the same counts.
   *
   * @param send all blocks; or `IN_PLACE`: they stand in `recv`, which then begins with the result
   * @param recv this rank's block; in place, all blocks
   *
   * Source: MPI_Ireduce_scatter.
   */
  ireduceScatter(
    send: Data | InPlace,
    recv: Data,
    counts: Counts,
    op: Op,
    options?: CollectiveOptions<'ireduceScatter'>,
  ): Request {
    return this.launchListed(this.plans.ireduceScatter, send, recv, 0, [counts], options, op);
  }

  /**
   * Combines contributions, element by element: when complete, `recv` of rank i holds the result of ranks 0 to i.
   *
   * @param send this rank's contribution, of the same length everywhere; or `IN_PLACE`: it stands in `recv`
   *
   * Source: MPI_Iscan.
   */
  iscan(send: Data | InPlace, recv: Data, op: Op, options?: CollectiveOptions<'iscan'>): Request {
    return this.launch(this.plans.iscan, send, recv, 0, options, op);
  }

  /**
   * As {@link iscan}, without the rank's own contribution: ranks 0 to i − 1. `recv` of rank 0 stays as it was.
   *
   * @param send this rank's contribution, of the same length everywhere; or `IN_PLACE`: it stands in `recv`
   *
   * Source: MPI_Iexscan.
   */
  iexscan(send: Data | InPlace, recv: Data, op: Op, options?: CollectiveOptions<'iexscan'>): Request {
    return this.launch(this.plans.iexscan, send, recv, 0, options, op);
  }

  /**
   * Sends a message to rank `dest`, which receives it with {@link irecv}. Messages with one tag arrive in the order in
   * which they were sent.
   *
   * @param tag 0 to 32767, the same on both sides
   */
  isend(buffer: Data, dest: number, tag = 0, options?: OperationOptions): Request {
    if (options?.signal !== undefined) {
      return this.withSignal('isend', options.signal, () => this.isend(buffer, dest, tag));
    }
    this.checkMessage('isend', 'dest', dest, tag);
    if (isLayout(buffer)) {
      return this.startMessages('isend', { argument: 'buffer', data: buffer, peer: dest, tag }, null);
    }
    const { world } = this;
    const slot = world.nextSlot >= 0 ? world.nextSlot : world.findSlot('isend');
    let complete: boolean;
    try {
      complete = world.native.isend(this.handle, slot, buffer, dest, tag);
    } catch (thrown) {
      throw this.explain(thrown, 'isend', buffer, null);
    }
    const { byteLength } = buffer;
    return complete ? this.ended('isend', byteLength) : this.pending('isend', slot, buffer, null, byteLength);
  }

  /**
   * Receives the message that rank `source` sends with {@link isend} and the same tag.
   *
   * @param buffer for the message, which may be shorter: the request's `bytes` then say how long it was, and the rest
   *   of the buffer stays as it was. A longer message is a {@link TruncatedError}. A layout with gaps has exactly the
   *   size of the message
   */
  irecv(buffer: Data, source: number, tag = 0, options?: OperationOptions): Request {
    if (options?.signal !== undefined) {
      return this.withSignal('irecv', options.signal, () => this.irecv(buffer, source, tag));
    }
    this.checkMessage('irecv', 'source', source, tag);
    if (isLayout(buffer)) {
      return this.startMessages('irecv', null, { argument: 'buffer', data: buffer, peer: source, tag });
    }
    const { world } = this;
    const slot = world.nextSlot >= 0 ? world.nextSlot : world.findSlot('irecv');
    let complete: boolean;
    try {
      complete = world.native.irecv(this.handle, slot, buffer, source, tag);
    } catch (thrown) {
      throw this.explain(thrown, 'irecv', null, buffer);
    }
    if (complete) return this.ended('irecv', world.lengthOf(slot));
    return this.pending('irecv', slot, null, buffer, LENGTH_AWAITED);
  }

  /**
   * Runs a schedule of the program's own, as the next collective of this communicator: all ranks start theirs, in the
   * same order as all other collectives. `checkSchedules` of node-nbc/schedules says whether the schedules of all ranks
   * fit together; docs/schedules.md shows how to write them.
   *
   * A buffer with a layout ({@link strided}) is packed for the schedule, which sees its elements one behind the other.
   *
   * @param schedule of this rank. One that is started again, unchanged and with the same layouts, is not compiled again
   * @param send holds at least the bytes that the schedule reads of it; null if it reads none. It is not written
   * @param recv holds at least the bytes that the schedule uses of it; null if it uses none. No overlap with `send`
   * @throws {ScheduleError} if the schedule cannot run: a rank that the communicator does not have, elements of one
   *   round that touch the same bytes while one writes
   */
  start(schedule: Schedule, send: Data | null, recv: Data | null, options?: OperationOptions): Request {
    if (options?.signal !== undefined) {
      return this.withSignal('start', options.signal, () => this.start(schedule, send, recv));
    }
    return this.run('start', this.ownPlans.find(schedule, send, recv), memoryOf(send), memoryOf(recv));
  }

  /** Operations on values of any kind: see {@link Values}. Their messages never meet those of this communicator. */
  get values(): Values {
    this.requireOpen('values');
    const { high, low } = this.context;
    this.ownValues ??= new Values(this.derive(this.members, this.rank, { high, low: low + OFFSET.values }), this);
    return this.ownValues;
  }

  /**
   * Prepares a message to rank `dest`, as {@link isend}: each start sends what the buffer then holds.
   *
   * Source: MPI_Send_init.
   */
  sendInit(buffer: Data, dest: number, tag = 0): PersistentRequest {
    this.checkMessage('sendInit', 'dest', dest, tag);
    if (isLayout(buffer)) {
      return this.prepareMessages('sendInit', { argument: 'buffer', data: buffer, peer: dest, tag }, null);
    }
    return this.prepare('sendInit', buffer, null, (slot) => {
      this.world.native.prepareSend(this.handle, slot, buffer, dest, tag);
      return buffer.byteLength;
    });
  }

  /**
   * Prepares the receive of a message from rank `source`, as {@link irecv}.
   *
   * Source: MPI_Recv_init.
   */
  recvInit(buffer: Data, source: number, tag = 0): PersistentRequest {
    this.checkMessage('recvInit', 'source', source, tag);
    if (isLayout(buffer)) {
      return this.prepareMessages('recvInit', null, { argument: 'buffer', data: buffer, peer: source, tag });
    }
    return this.prepare('recvInit', null, buffer, (slot) => {
      this.world.native.prepareRecv(this.handle, slot, buffer, source, tag);
      return LENGTH_AWAITED;
    });
  }

  /**
   * Sends a message and receives another one: one request, which is complete when both are. The messages are as those
   * of {@link isend} and {@link irecv}, and meet them.
   *
   * @param dest the rank to send to; null: nothing is sent, and `send` is ignored
   * @param recv for the message, as the buffer of {@link irecv}, without overlap with `send`
   * @param source the rank to receive from; null: nothing is received, and `recv` stays as it is
   * @returns a request whose `bytes` are those of the message that was received; 0 if there was none to receive
   *
   * Source: MPI_Isendrecv, with null for MPI_PROC_NULL.
   */
  isendrecv(
    send: Data | null,
    dest: number | null,
    recv: Data | null,
    source: number | null,
    sendTag = 0,
    recvTag = 0,
    options?: OperationOptions,
  ): Request {
    const operation = 'isendrecv';
    if (options?.signal !== undefined) {
      const again = (): Request => this.isendrecv(send, dest, recv, source, sendTag, recvTag);
      return this.withSignal(operation, options.signal, again);
    }
    this.checkMessage(operation, 'dest', dest ?? this.rank, sendTag, 'sendTag');
    this.checkMessage(operation, 'source', source ?? this.rank, recvTag, 'recvTag');
    return this.startMessages(
      operation,
      dest === null ? null : { argument: 'send', data: send!, peer: dest, tag: sendTag },
      source === null ? null : { argument: 'recv', data: recv!, peer: source, tag: recvTag },
    );
  }

  private startMessages(operation: string, send: End | null, recv: End | null): Request {
    const { plan, from, into } = this.planMessages(operation, send, recv);
    const { world } = this;
    const slot = world.nextSlot >= 0 ? world.nextSlot : world.findSlot(operation);
    let complete: boolean;
    try {
      complete = world.native.startMessages(plan, slot, from, into, send?.tag ?? 0, recv?.tag ?? 0);
    } catch (thrown) {
      throw this.explain(thrown, operation, from, into);
    }
    // Of a message that is only sent, its own length.
    const known = operation === 'isend' ? bytesOfData(send!.data) : 0;
    if (recv === null) {
      return complete ? this.ended(operation, known) : this.pending(operation, slot, from, into, known);
    }
    if (complete) return this.ended(operation, world.lengthOf(slot));
    return this.pending(operation, slot, from, into, LENGTH_AWAITED);
  }

  /** A persistent request of what {@link startMessages} starts: one message. */
  private prepareMessages(operation: string, send: End | null, recv: End | null): PersistentRequest {
    const { plan, from, into } = this.planMessages(operation, send, recv);
    return this.prepare(operation, from, into, (slot) => {
      this.world.native.prepareMessages(plan, slot, from, into, send?.tag ?? 0, recv?.tag ?? 0);
      return send === null ? LENGTH_AWAITED : bytesOfData(send.data);
    });
  }

  /** The plan of messages, and the memory that native code is given. */
  private planMessages(operation: string, send: End | null, recv: End | null): PlannedMessages {
    this.messages ??= new MessagePlans(this);
    const plan = this.messages.find(operation, send, recv);
    return { plan, from: memoryOf(send?.data ?? null), into: memoryOf(recv?.data ?? null) };
  }

  /**
   * A communicator of the same ranks, whose messages never meet those of this one. Collective: all ranks call `dup` and
   * `split` in the same order; other operations may go on meanwhile.
   */
  dup(options?: OperationOptions): Promise<Communicator> {
    return this.duplicate(options, (members, rank, context) => this.derive(members, rank, context));
  }

  /** @internal */
  protected duplicate<Child extends Communicator>(
    options: OperationOptions | undefined,
    derive: Derive<Child>,
  ): Promise<Child> {
    return this.call('dup', options, () => duplicate(this, derive));
  }

  /**
   * Divides the ranks into groups, one for each color, ordered by key and then by rank. Collective, as {@link dup}.
   *
   * @param color a whole number from 0 to 2³¹ − 1, or undefined: this rank is in no group
   * @param key where in the group: a 32-bit number, default 0
   * @returns this rank's group, or null
   */
  split(color: number | undefined, key = 0, options?: OperationOptions): Promise<Communicator | null> {
    return this.call('split', options, () =>
      splitByColor(this, color, key, (members, rank, context) => this.derive(members, rank, context)),
    );
  }

  /**
   * Arranges the ranks in a grid, the last dimension fastest. Collective, as {@link dup}; all ranks pass the same grid.
   *
   * @returns a communicator of the ranks in the grid, which have the same order as here; null: this rank is not in it
   * @throws {ArgumentError} also, on all ranks, where grids differ
   *
   * Source: MPI_Cart_create.
   */
  cart(options: CartOptions): Promise<CartCommunicator | null> {
    const context = this.during('cart');
    return this.call('cart', options, async () => {
      requireObject(options, 'options', context);
      const grid = checkGrid(options.dims, options.periods, this.size, context);
      return connect(
        this,
        'cart',
        grid.ranks,
        (control) => disagreementOnGrid(control, grid, context),
        (members, rank, id) => CartCommunicator.on(this.world, members, rank, id, grid),
      );
    });
  }

  /**
   * Tells which ranks this one receives from and sends to. A rank may be there several times, and this one, too.
   * Collective, as {@link dup}. The ranks tell each other how often they name each other: one number for each pair.
   *
   * @throws {ArgumentError} also, on all ranks, where a rank sends to another that does not name it as a source
   *
   * Source: MPI_Dist_graph_create_adjacent.
   */
  distGraph(options: GraphOptions): Promise<GraphCommunicator> {
    const context = this.during('distGraph');
    return this.call('distGraph', options, async () => {
      requireObject(options, 'options', context);
      const neighbors = checkGraph(options.sources, options.destinations, this.size, this.rank, context);
      const made = await connect(
        this,
        'distGraph',
        this.size,
        (control) => disagreementOnGraph(control, neighbors, context),
        (members, rank, id) => new GraphCommunicator(this.world, members, rank, id, neighbors),
      );
      return made!;
    });
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
   * What carries messages to each rank of this communicator, itself included, in the order of ranks; and why not verbs.
   * Once known, it does not change.
   */
  peers(): PeerNetwork[] {
    this.requireOpen('peers');
    const networks = this.world.native.networks();
    return Array.from(this.members, (rank) => {
      const why = this.world.reasons?.[rank];
      return { network: networks[rank], ...(why ? { why } : {}) };
    });
  }

  /**
   * How much of its time this rank waits, in the shape of `performance.eventLoopUtilization()`: since the first call,
   * which returns zeros and from which on waits are measured; since an earlier result; or from the second result to the
   * first. The same on all communicators.
   */
  utilization(one?: Utilization, two?: Utilization): Utilization {
    this.requireOpen('utilization');
    for (const [name, given] of Object.entries({ one, two })) {
      if (given !== undefined) requireObject(given, name, this.during('utilization'));
    }
    if (one !== undefined && two !== undefined) return utilizationSince(one, two);
    const now = this.world.utilization();
    return one === undefined ? now : utilizationSince(now, one);
  }

  /**
   * Ends this communicator: later calls fail with a {@link ClosedError}, operations in progress complete as usual, or
   * fail if a rank that has not closed it revokes it. So do calls of `dup`, `agree`, `values` and the like. On the
   * communicator from `init()` it ends them all, and the whole world with them: then operations in progress fail with a
   * ClosedError, too.
   *
   * Each rank closes when it likes, but who still needs something from it gets a {@link PeerClosedError}. To close
   * twice does nothing.
   *
   * @throws {MismatchError} (rejects) where ranks have called different collectives and no request has told, or where
   *   a message of a collective has come that its schedule did not receive; it is closed all the same
   */
  async close(): Promise<void> {
    if (this.closed) return;
    if (this.context.high === 0 && this.context.low === 0) {
      this.world.close();
      return;
    }
    this.closed = true;
    const calledAt = this.world.placeOfCall();
    for (const plans of this.caches()) plans.release();
    this.messages?.release();
    this.ownPlans.release();
    const failure = this.world.native.freeCommunicator(this.handle);
    this.world.communicators.delete(this);
    // Else the last call that is under way closes them.
    const ended = this.calls === 0 ? this.closeOwn() : Promise.resolve();
    await ended.catch((error: unknown) => {
      if (failure === undefined) throw error;
    });
    if (failure !== undefined) throwMismatch(failure, this.during('close'), calledAt);
  }

  /** Closes what carries the calls that give a promise. */
  private async closeOwn(): Promise<void> {
    const own = [this.ownControl, this.ownValues, this.ownSurvivors];
    const ends = await Promise.allSettled(own.map(async (each) => each?.close()));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }

  /**
   * Ends this communicator on all its ranks, whatever they do: operations that are pending there fail with a
   * {@link RevokedError}, and so do all that are started later, with those of `values`, `dup` and `split`. Any rank
   * may call it, at any time, several times or at the same time as others. Communicators that were made from this one
   * go on. Only {@link agree} and {@link shrink} still work here. It still has to be closed.
   *
   * It returns at once. A rank that computes learns of it from its next call.
   *
   * Source: MPIX_Comm_revoke of User Level Failure Mitigation (ULFM).
   */
  revoke(): void {
    this.requireOpen('revoke');
    this.endEverywhere();
    this.control.endEverywhere();
    this.values.revoke();
  }

  /**
   * Agrees with all ranks that are left on a number and on who has ended: the same result on every rank, even if ranks
   * end in the middle of the call. Collective: it ends when each rank has called `agree`, or has ended. So ranks call
   * it, and {@link shrink}, in the same order; other operations may go on meanwhile. It works after {@link revoke},
   * too. Neither option `timeout` nor {@link revoke} ends it.
   *
   * A signal that fires ends the wait of this rank, and revokes nothing. Its call counts as made: the others come to
   * their result as without the signal. A later call waits for this one to end first; it may have a signal of its own.
   *
   * @param value a whole number of 32 bits, signed or not. The result is the bitwise AND: with 0 and 1, whether all
   *   ranks say 1
   * @throws {MismatchError} (rejects, on all ranks) where others call `shrink`
   * @throws {PeerLostError} (rejects) ERR_NBC_COUNTED_LOST: others have lost this rank, since it did not answer, and go
   *   on without it
   *
   * Source: MPIX_Comm_agree of User Level Failure Mitigation (ULFM).
   */
  agree(value: number, options?: OperationOptions): Promise<Agreed> {
    const context = this.during('agree');
    return this.call('agree', options, async () => {
      if (!Number.isInteger(value) || value < INT32_MIN || value > UINT32_MAX) {
        throw new ArgumentError('value', `must be a whole number of 32 bits, not ${show(value)}`, context);
      }
      const { value: agreed, lost } = await this.agreeOn(Purpose.AGREE, value, context);
      return { value: agreed, lost };
    });
  }

  /**
   * A communicator of the ranks that are left, in the order that they have here; none that has ended before the first
   * rank called is in it. One that ends later may be: then shrink again. Collective, as {@link agree}, with the same
   * errors; it works after {@link revoke}, too.
   *
   * A signal that fires ends the wait of this rank, as with {@link agree}. The communicator that the others then get
   * has this rank, which revokes it.
   *
   * Source: MPIX_Comm_shrink of User Level Failure Mitigation (ULFM).
   */
  shrink(options?: OperationOptions): Promise<Communicator> {
    return this.call('shrink', options, async () => {
      const outcome = await this.agreeOn(Purpose.SHRINK, 0, this.during('shrink'));
      const lost = new Set(outcome.lost);
      const members = this.members.filter((_, rank) => !lost.has(rank));
      return this.derive(members, members.indexOf(this.members[this.rank]), outcome.context);
    });
  }

  private async agreeOn(purpose: Purpose, value: number, context: ErrorContext): Promise<Outcome> {
    const operation = context.operation!;
    const { high, low } = this.context;
    this.ownSurvivors ??= new Survivors(this.derive(this.members, this.rank, { high, low: low + OFFSET.survivors }));
    const outcome = await this.ownSurvivors.agree(operation, purpose, value);
    if (outcome.purpose === purpose) return outcome;
    throw new MismatchError(`${operation}: some ranks called agree, and others shrink; nothing is agreed`, context);
  }

  /** @internal After close() what is in progress goes on. */
  revokeIfOpen(): void {
    if (!this.closed) this.revoke();
  }

  /** @internal One of the communicators that {@link revoke} ends. */
  endEverywhere(): void {
    this.world.native.revokeCommunicator(this.handle);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal A communicator of the same ranks for the needs of dup and split, apart from all that users send. */
  get control(): Communicator {
    const { high, low } = this.context;
    this.ownControl ??= this.derive(this.members, this.rank, { high, low: low + OFFSET.control });
    return this.ownControl;
  }

  /** @internal A communicator of other members or another context, of the same world. */
  derive(members: Uint32Array, rank: number, context: Context): Communicator {
    if (!this.world.open) this.requireOpen('derive');
    return new Communicator(this.world, members, rank, context);
  }

  /** @internal The world is gone: every later call must notice. */
  forget(): void {
    this.closed = true;
    for (const plans of this.caches()) plans.forget();
  }

  /** @internal */
  protected caches(): PlanCache[] {
    return [this.plans, ...this.compounds.values()].flatMap((plans) => Object.values(plans));
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

  /** @internal The one way in which a collective starts; those with counts come by {@link launchListed}. */
  launch(
    plans: PlanCache,
    send: Data | InPlace | null,
    recv: Data | InPlace | null,
    root: number,
    options: LaunchOptions | undefined,
    op?: Op,
  ): Request {
    if (options?.signal !== undefined) {
      return this.launchWithSignal(options.signal, plans, send, recv, root, NO_LISTS, hintsOf(options), op);
    }
    const plan = plans.find(send, recv, root, NO_LISTS, options, op);
    return this.run(plans.name, plan, viewOf(send), viewOf(recv), op);
  }

  /** @internal */
  launchListed(
    plans: PlanCache,
    send: Data | InPlace | null,
    recv: Data | InPlace | null,
    root: number,
    lists: readonly (Counts | null)[],
    options: LaunchOptions | undefined,
    op?: Op,
  ): Request {
    const called = this.called(plans);
    if (options?.signal !== undefined) {
      return this.launchWithSignal(options.signal, plans, send, recv, root, lists, hintsOf(options), op);
    }
    const plan = plans.find(send, recv, root, lists, options, op, called);
    return this.run(called, plan, viewOf(send), viewOf(recv), op);
  }

  /** @internal */
  launchParts(
    plans: PlanCache,
    sends: unknown,
    recvs: unknown,
    peers: Peers,
    options: LaunchOptions | undefined,
  ): Request {
    const called = this.called(plans);
    if (options?.signal !== undefined) return this.launchPartsWithSignal(plans, sends, recvs, peers, options);
    const { recentParts } = plans;
    const algorithm = options?.algorithm;
    const found = recentParts.find(sends, recvs, algorithm);
    if (found !== null) return this.run(called, found.plan, found.send, found.recv);
    this.requireOpen(called);
    const context = this.during(called);
    const placement = place(sends, recvs, peers, context);
    if (this.prepares && placement.copied !== null) {
      throw new ArgumentError(placement.copied, 'must lie in one ArrayBuffer; starts copy nothing', context);
    }
    const plan = plans.lookUp(called, placement, null, 0, NO_LISTS, algorithm);
    recentParts.remember(sends, recvs, placement, algorithm, plan);
    const request = this.run(called, plan, placement.send, placement.recv);
    if (request.slot >= 0) request.arrived = placement.arrived;
    else placement.arrived?.();
    return request;
  }

  /** Apart from the others: to make a function takes memory of every call, also of those that don't. */
  private launchWithSignal(signal: SignalLike, ...call: Parameters<Communicator['launchListed']>): Request {
    return this.withSignal(this.called(call[0]), signal, () => this.launchListed(...call));
  }

  private launchPartsWithSignal(
    plans: PlanCache,
    sends: unknown,
    recvs: unknown,
    peers: Peers,
    options: LaunchOptions,
  ): Request {
    const start = (): Request => this.launchParts(plans, sends, recvs, peers, hintsOf(options));
    return this.withSignal(this.called(plans), options.signal!, start);
  }

  /** Starts an operation that a signal ends; one that has fired keeps it from being started. */
  private withSignal(operation: string, signal: SignalLike, start: () => Request): Request {
    const context = this.during(operation);
    checkSignal(signal, context);
    if (this.prepares) {
      throw new ArgumentError('signal', 'belongs to start() of the persistent request, not to its Init', context);
    }
    this.requireOpen(operation);
    if (signal.aborted) {
      const refused = this.ended(operation, NO_MESSAGE);
      refused.error = new AbortError(context, signal.reason);
      return refused;
    }
    const request = start();
    if (request.slot >= 0) this.world.aborts.watch(request, signal, this);
    return request;
  }

  /**
   * @internal The one way in which a call that gives a promise is made: a signal ends it, and its errors name it.
   *
   * @throws {AbortError} (rejects) if the signal has fired, or fires meanwhile. Then the communicator is revoked, but
   *   for {@link agree} and {@link shrink}, which work on one that is
   */
  async call<T>(operation: string, options: OperationOptions | undefined, run: () => Promise<T>): Promise<T> {
    const signal = options?.signal;
    const calledAt = this.world.placeOfCall();
    const context = this.during(operation);
    try {
      if (signal !== undefined) checkSignal(signal, context);
      this.requireOpen(operation);
      if (signal === undefined) return await this.underWay(run);
      const abort = (): void => {
        if (!WORKS_REVOKED.has(operation)) this.revokeIfOpen();
      };
      return await this.world.aborts.call<T>(signal, { context, run: () => this.underWay(run), abort, discard });
    } catch (error) {
      if (error instanceof NbcError) {
        nameCall(error, operation);
        tellPlaces(error, calledAt, undefined);
      }
      throw error;
    }
  }

  /** Other ranks count on a call that has begun: it goes on when this communicator is closed. */
  private async underWay<T>(run: () => Promise<T>): Promise<T> {
    this.calls++;
    try {
      return await run();
    } finally {
      this.calls--;
      // Nobody awaits the end of this; an error of it is what close() would have said.
      if (this.closed && this.calls === 0)
        this.closeOwn().catch((error: unknown) => process.emitWarning(error as Error));
    }
  }

  /** The method that was called: for errors. */
  private called({ name }: PlanCache): string {
    return this.prepares ? initNameOf(name) : name;
  }

  private run(
    operation: string,
    plan: number,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
    op?: Op,
  ): Request {
    const { world } = this;
    const slot = world.nextSlot >= 0 ? world.nextSlot : world.findSlot(operation);
    let complete: boolean;
    try {
      complete = world.native.start(plan, slot, send, receive);
    } catch (thrown) {
      throw this.explain(thrown, operation, send, receive);
    }
    if (complete) return this.ended(operation, NO_MESSAGE);
    if (op !== undefined) world.functions.use(slot, op);
    return this.pending(operation, slot, send, receive, NO_MESSAGE);
  }

  /**
   * This communicator, with another end of all its collectives: they are prepared instead of started. What the methods
   * check, look up and hand over is the same.
   */
  private get preparing(): Communicator {
    this.whatPrepares ??= Object.create(this, {
      prepares: { value: true },
      // The short way of a start knows one name; a look-up is told which method was called.
      launch: {
        value(this: Communicator, ...[plans, send, recv, root, options, op]: Parameters<Communicator['launch']>) {
          return this.launchListed(plans, send, recv, root, NO_LISTS, options, op);
        },
      },
      run: {
        value: (...[operation, plan, send, receive, op]: Parameters<Communicator['run']>) =>
          this.prepare(operation, send, receive, (slot) => {
            this.world.native.prepare(plan, slot, send, receive);
            if (op !== undefined) this.world.functions.use(slot, op);
            return NO_MESSAGE;
          }),
      },
    }) as Communicator;
    return this.whatPrepares;
  }

  /** @param take has native code prepare the slot, and says what the request's length is after a start */
  private prepare(
    operation: string,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
    take: (slot: number) => number,
  ): PersistentRequest {
    const { world } = this;
    const slot = world.reserveSlot(operation);
    let length: number;
    try {
      length = take(slot);
    } catch (thrown) {
      world.giveBackSlot(slot);
      throw this.explain(thrown, operation, send, receive);
    }
    const one = receive === null || send === null ? bufferNameOf(operation) : null;
    const s = PARTS_ONLY.has(operation) ? 's' : '';
    const held = [];
    if (send !== null) held.push({ view: send, bytes: send.byteLength, argument: one ?? `send${s}` });
    if (receive !== null) held.push({ view: receive, bytes: receive.byteLength, argument: one ?? `recv${s}` });
    return PersistentRequest.prepared(world, this, operation, slot, held, length);
  }

  /** @internal Gives a class the persistent form of each operation of a table that it has a method for. */
  static addPersistentForms(prototype: Communicator, operations: readonly { name: string }[]): void {
    for (const { name } of operations) {
      if (!(name in prototype)) continue;
      const form = function (this: Communicator, ...args: unknown[]): Request {
        return (this.preparing as unknown as Record<string, (...args: unknown[]) => Request>)[name](...args);
      };
      Object.defineProperty(prototype, initNameOf(name), { value: form, writable: true, configurable: true });
    }
  }

  /** What native code would not start, in terms of the arguments. */
  private explain(
    thrown: unknown,
    operation: string,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
  ): unknown {
    const context = this.during(operation);
    const one = bufferNameOf(operation);
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
  private ended(operation: string, length: number): Request {
    this.world.startedComplete(operation);
    return Request.of(this.world, operation, -1, null, null, length);
  }

  private pending(
    operation: string,
    slot: number,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
    length: number,
  ): Request {
    const request = Request.of(this.world, operation, slot, send, receive, length);
    this.world.track(request);
    return request;
  }

  private checkMessage(operation: string, argument: string, peer: number, tag: number, tagArgument = 'tag'): void {
    if (this.closed || !this.isRank(peer) || !isTag(tag)) {
      this.refuseMessage(operation, argument, peer, tag, tagArgument);
    }
  }

  private refuseMessage(operation: string, argument: string, peer: number, tag: number, tagArgument: string): never {
    this.requireOpen(operation);
    const context = this.during(operation);
    this.checkRank(peer, argument, context);
    throw new ArgumentError(tagArgument, `must be a whole number from 0 to ${MAX_TAG}, not ${show(tag)}`, context);
  }

  private isRank(value: number): boolean {
    return Number.isInteger(value) && value >= 0 && value < this.size;
  }

  /** @internal */
  protected checkRank(value: number, argument: string, context: ErrorContext): void {
    if (this.isRank(value)) return;
    const message = `must be a rank of the communicator, 0 to ${this.size - 1}, not ${show(value)}`;
    throw new ArgumentError(argument, message, context);
  }

  /** @internal */
  protected during(operation: string): ErrorContext {
    return { operation, rank: this.world.rank };
  }
}

type Plans = Record<OperationName, PlanCache>;

interface PlannedMessages {
  plan: number;
  from: ArrayBufferView | null;
  into: ArrayBufferView | null;
}

/** A grid of ranks. */
export interface CartOptions extends OperationOptions {
  /** Ranks in each dimension; see {@link dimsCreate}. */
  dims: readonly number[];
  /** Whether the last rank of a dimension is a neighbour of the first; default: none. */
  periods?: readonly boolean[];
  /** Whether ranks may have other numbers in the grid. They keep theirs. */
  reorder?: boolean;
}

/** The neighbours of a rank. */
export interface GraphOptions extends OperationOptions {
  /** Ranks that it receives from. */
  sources: readonly number[];
  /** Ranks that it sends to. */
  destinations: readonly number[];
}

/**
 * A communicator whose ranks have neighbours: sources and destinations. Blocks are in the order of these lists. A
 * neighbour that is listed several times has a block for each time; messages between two ranks match in the order of
 * the lists. Where a grid ends (null in the lists) nothing is sent, and the block of `recv` stays as it was.
 *
 * A rank without sources may pass null as `recv`, and one without destinations null as `send`.
 */
export class NeighborCommunicator extends Communicator {
  private readonly neighborPlans: Record<NeighborOperationName, PlanCache>;

  /** Persistent {@link ineighborAllgather}. Source: MPI_Neighbor_allgather_init. */
  declare readonly neighborAllgatherInit: PersistentForm<NeighborCommunicator['ineighborAllgather']>;
  /** Persistent {@link ineighborAllgatherv}. Source: MPI_Neighbor_allgatherv_init. */
  declare readonly neighborAllgathervInit: PersistentForm<NeighborCommunicator['ineighborAllgatherv']>;
  /** Persistent {@link ineighborAlltoall}. Source: MPI_Neighbor_alltoall_init. */
  declare readonly neighborAlltoallInit: PersistentForm<NeighborCommunicator['ineighborAlltoall']>;
  /** Persistent {@link ineighborAlltoallv}. Source: MPI_Neighbor_alltoallv_init. */
  declare readonly neighborAlltoallvInit: PersistentForm<NeighborCommunicator['ineighborAlltoallv']>;
  /**
   * Persistent {@link ineighborAlltoallw}; parts must lie in one ArrayBuffer each way. Source:
   * MPI_Neighbor_alltoallw_init.
   */
  declare readonly neighborAlltoallwInit: PersistentForm<NeighborCommunicator['ineighborAlltoallw']>;

  /** @internal */
  constructor(
    world: World,
    members: Uint32Array,
    rank: number,
    context: Context,
    /** @internal */ readonly neighbors: Neighbors,
  ) {
    super(world, members, rank, context);
    const plans = NEIGHBOR_OPERATIONS.map((operation) => [operation.name, new PlanCache(this, operation)]);
    this.neighborPlans = Object.fromEntries(plans) as Record<NeighborOperationName, PlanCache>;
  }

  /** Ranks that this one receives from; null: none, where a grid ends. */
  get sources(): readonly (number | null)[] {
    return this.neighbors.sources;
  }

  /** Ranks that this one sends to; null: none, where a grid ends. */
  get destinations(): readonly (number | null)[] {
    return this.neighbors.destinations;
  }

  /**
   * Sends one block to all destinations, and collects a block of each source.
   *
   * @param recv blocks as large as `send`, one for each source, without overlap with it
   *
   * Source: MPI_Ineighbor_allgather.
   */
  ineighborAllgather(send: Data | null, recv: Data | null, options?: OperationOptions): Request {
    return this.launch(this.neighborPlans.ineighborAllgather, send, recv, 0, options);
  }

  /**
   * As {@link ineighborAllgather}; `counts[i]` elements come from source i, and go to element `displs[i]` of `recv`.
   *
   * @param displs null: one block behind the other
   *
   * Source: MPI_Ineighbor_allgatherv.
   */
  ineighborAllgatherv(
    send: Data | null,
    recv: Data | null,
    counts: Counts,
    displs: Counts | null,
    options?: OperationOptions,
  ): Request {
    const plans = this.neighborPlans.ineighborAllgatherv;
    return this.launchListed(plans, send, recv, 0, [counts, displs], options);
  }

  /**
   * Sends a block to each destination, and collects a block of each source.
   *
   * @param send equal blocks, one for each destination
   * @param recv blocks of the same size, one for each source, without overlap with `send`
   *
   * Source: MPI_Ineighbor_alltoall.
   */
  ineighborAlltoall(send: Data | null, recv: Data | null, options?: OperationOptions): Request {
    return this.launch(this.neighborPlans.ineighborAlltoall, send, recv, 0, options);
  }

  /**
   * As {@link ineighborAlltoall}; each block has a size and a place of its own, as in {@link ialltoallv}.
   *
   * Source: MPI_Ineighbor_alltoallv.
   */
  ineighborAlltoallv(
    send: Data | null,
    sendCounts: Counts,
    sendDispls: Counts | null,
    recv: Data | null,
    recvCounts: Counts,
    recvDispls: Counts | null,
    options?: OperationOptions,
  ): Request {
    const lists = [sendCounts, sendDispls, recvCounts, recvDispls];
    return this.launchListed(this.neighborPlans.ineighborAlltoallv, send, recv, 0, lists, options);
  }

  /**
   * Sends a part to each destination, and collects a part of each source: views, layouts or null, as in
   * {@link ialltoallw}. Ghost layers and the layers inside them may be parts of one array.
   *
   * Source: MPI_Ineighbor_alltoallw.
   */
  ineighborAlltoallw(sends: Parts, recvs: Parts, options?: OperationOptions): Request {
    const peers = { sends: this.destinations, recvs: this.sources };
    return this.launchParts(this.neighborPlans.ineighborAlltoallw, sends, recvs, peers, options);
  }

  /** @internal */
  protected override caches(): PlanCache[] {
    return [...super.caches(), ...Object.values(this.neighborPlans)];
  }
}

/** A communicator with neighbours from lists: {@link Communicator.distGraph}. */
export class GraphCommunicator extends NeighborCommunicator {
  /** A communicator of the same ranks with the same neighbours. Collective. */
  override dup(options?: OperationOptions): Promise<GraphCommunicator> {
    const { world, neighbors } = this;
    return this.duplicate(options, (members, rank, id) => new GraphCommunicator(world, members, rank, id, neighbors));
  }
}

/**
 * A communicator whose ranks are in a grid: {@link Communicator.cart}. Its neighbours are, for each dimension, the
 * lower one and then the upper one. What a rank sends to its lower neighbour arrives there as coming from the upper
 * one, also where both are the same rank.
 */
export class CartCommunicator extends NeighborCommunicator {
  private constructor(
    world: World,
    members: Uint32Array,
    rank: number,
    context: Context,
    private readonly grid: Grid,
  ) {
    super(world, members, rank, context, grid.neighbors(rank));
  }

  /** @internal */
  static on(world: World, members: Uint32Array, rank: number, context: Context, grid: Grid): CartCommunicator {
    return new CartCommunicator(world, members, rank, context, grid);
  }

  /** Ranks in each dimension. */
  get dims(): readonly number[] {
    return this.grid.dims;
  }

  /** Whether a dimension wraps round. */
  get periods(): readonly boolean[] {
    return this.grid.periods;
  }

  /** Where a rank is in the grid; default: this one. */
  coords(rank = this.rank): number[] {
    this.checkRank(rank, 'rank', this.during('coords'));
    return this.grid.coords(rank);
  }

  /** The rank at these coordinates, which wrap round in periodic dimensions; null: there is none. */
  rankAt(coords: readonly number[]): number | null {
    const { length } = this.dims;
    if (!Array.isArray(coords) || coords.length !== length || !coords.every((at) => Number.isSafeInteger(at))) {
      const message = `must be ${length} whole numbers, not ${show(coords)}`;
      throw new ArgumentError('coords', message, this.during('rankAt'));
    }
    return this.grid.rankAt(coords);
  }

  /**
   * The ranks that are `displacement` away in a dimension: with these, every rank sends to `dest` and receives from
   * `source` in an {@link isendrecv}. null: outside of the grid.
   *
   * Source: MPI_Cart_shift.
   */
  shift(dimension: number, displacement: number): { source: number | null; dest: number | null } {
    const context = this.during('shift');
    if (!Number.isInteger(dimension) || dimension < 0 || dimension >= this.dims.length) {
      const message = `must be a whole number below ${this.dims.length}, not ${show(dimension)}`;
      throw new ArgumentError('dimension', message, context);
    }
    if (!Number.isSafeInteger(displacement)) {
      throw new ArgumentError('displacement', `must be a whole number, not ${show(displacement)}`, context);
    }
    const moved = (by: number): number | null => this.grid.moved(this.rank, dimension, by);
    return { source: moved(-displacement), dest: moved(displacement) };
  }

  /**
   * Cuts the grid into grids of fewer dimensions: the ranks that differ only in dimensions that are kept. Collective.
   *
   * @param keep for each dimension, whether it is kept
   *
   * Source: MPI_Cart_sub.
   */
  sub(keep: readonly boolean[], options?: OperationOptions): Promise<CartCommunicator> {
    return this.call('sub', options, () => this.subgrid(keep));
  }

  private async subgrid(keep: readonly boolean[]): Promise<CartCommunicator> {
    const { world, grid } = this;
    const { length } = grid.dims;
    if (!Array.isArray(keep) || keep.length !== length || !keep.every((value) => typeof value === 'boolean')) {
      const message = `must have true or false for each of ${length} dimensions, not ${show(keep)}`;
      throw new ArgumentError('keep', message, this.during('sub'));
    }
    const [kept, dropped] = [grid.only(keep), grid.only(keep.map((value) => !value))];
    const coords = grid.coords(this.rank);
    const color = dropped.rankAt(coords.filter((_, dimension) => !keep[dimension]))!;
    const key = kept.rankAt(coords.filter((_, dimension) => keep[dimension]))!;
    const made = await splitByColor(this, color, key, (members, rank, id) =>
      CartCommunicator.on(world, members, rank, id, kept),
    );
    return made!;
  }

  /** A communicator of the same ranks in the same grid. Collective. */
  override dup(options?: OperationOptions): Promise<CartCommunicator> {
    const { world, grid } = this;
    return this.duplicate(options, (members, rank, id) => CartCommunicator.on(world, members, rank, id, grid));
  }
}

Communicator.addPersistentForms(Communicator.prototype, OPERATIONS);
Communicator.addPersistentForms(NeighborCommunicator.prototype, NEIGHBOR_OPERATIONS);

/** What {@link Communicator.launch} and its like are given as options. */
type LaunchOptions = Hints & OperationOptions;

/** What a plan depends on. */
function hintsOf({ algorithm }: Hints): Hints | undefined {
  return algorithm === undefined ? undefined : { algorithm };
}

/** 'bcastInit' for 'ibcast'. */
function initNameOf(operation: string): string {
  return `${operation.slice(1)}Init`;
}

/** What the documentation of a method with one buffer calls it; null: 'send' or 'recv'. */
function bufferNameOf(operation: string): string | null {
  return BUFFER_ONLY.has(operation) ? 'buffer' : null;
}

/** What a call has made after its signal had fired. A communicator that other ranks have, too, is revoked there. */
function discard(made: unknown): void {
  if (!(made instanceof Communicator)) return;
  made.revokeIfOpen();
  made.close().catch(() => undefined);
}

/** What native code is given of a buffer. */
function viewOf(buffer: Data | InPlace | null): ArrayBufferView | null {
  return buffer === IN_PLACE ? null : memoryOf(buffer);
}

/** The same where nothing can be in place. */
function memoryOf(buffer: Data | null): ArrayBufferView | null {
  return isLayout(buffer) ? buffer.range : buffer;
}

function bytesOfData(data: Data): number {
  return isLayout(data) ? data.bytes : data.byteLength;
}

function isTag(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= MAX_TAG;
}

function checkApart(send: ArrayBufferView, recv: ArrayBufferView, context: ErrorContext): void {
  if (overlap(send, recv))
    throw new ArgumentError('recv', 'overlaps send in memory; use IN_PLACE or two buffers', context);
}
