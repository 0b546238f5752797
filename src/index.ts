/**
 * node-nbc: non-blocking collective operations. Ranks start a collective, go on computing, and it finishes by itself.
 *
 * ```ts
 * import { init } from 'node-nbc';
 *
 * const world = await init();
 * const request = world.ialltoall(send, recv); // starts; returns at once
 * compute(); // the collective progresses meanwhile
 * await request; // or request.wait(), which blocks
 * await world.close();
 * ```
 *
 * @module node-nbc
 */
export { init } from './init.js';
export { type RankFunction, runRanks, type RunOptions } from './ranks.js';
export { createRankPool, type PoolRunOptions, type RankPool, type RankPoolOptions } from './rank-pool.js';
export type { InitOptions, TcpOptions, VerbsOptions } from './transport/options.js';
export { alloc } from './buffers.js';
export type { BufferConstructor, ViewConstructor } from './buffers.js';
export { bfloat16, float16 } from './elements.js';
export {
  BAND,
  BOR,
  BXOR,
  createOp,
  LAND,
  LOR,
  LXOR,
  MAX,
  MAXLOC,
  MIN,
  MINLOC,
  type ModuleUrl,
  type Op,
  OPERATORS,
  type OpOptions,
  PROD,
  SUM,
} from './operators.js';
export { Values } from './values.js';
export { type Data, type Layout, strided, type StridedOptions } from './layouts.js';
export { IN_PLACE } from './views.js';
export type { InPlace } from './views.js';
export type { Stats } from './counters.js';
export type { OperationEvent } from './observed.js';
export type { Network } from './native.js';
export type { Utilization } from './utilization.js';
export { CartCommunicator, Communicator, GraphCommunicator, MAX_TAG, NeighborCommunicator } from './communicator.js';
export type {
  Agreed,
  CartOptions,
  CollectiveOptions,
  GraphOptions,
  PeerNetwork,
  PersistentForm,
} from './communicator.js';
export { dimsCreate } from './topologies.js';
export type { NeighborOperationName } from './operations/neighbor.js';
export type { Parts } from './operations/parts.js';
export type { AlgorithmOf, OperationName } from './operations/index.js';
export type { Counts } from './operations/operation.js';
export { PersistentRequest, startAll } from './persistent.js';
export { Request, startall, testAll, waitAll, waitAny } from './request.js';
export type { OperationOptions, SignalLike } from './aborts.js';
export {
  AbortError,
  ActiveError,
  ArgumentError,
  BootstrapError,
  ClosedError,
  ExhaustedError,
  MismatchError,
  NbcError,
  OperatorError,
  OptionError,
  PeerClosedError,
  PeerLostError,
  RankError,
  type RankErrorCode,
  RevokedError,
  ScheduleError,
  SystemError,
  UnreachableError,
  ValueError,
  AbandonedError,
  TimeoutError,
  TruncatedError,
} from './errors.js';
