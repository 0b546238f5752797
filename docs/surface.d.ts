// node-nbc

export class AbandonedError extends NbcError {
  readonly origin: number | undefined;
  readonly reason: string | undefined;
  constructor(message: string, context?: AbandonedContext);
}

export class AbortError extends NbcError {
  constructor(context: ErrorContext, cause: unknown);
}

export class ActiveError extends NbcError {
  constructor(message: string, context?: ErrorContext);
}

export interface Agreed {
  readonly value: number;
  readonly lost: readonly number[];
}

export type AlgorithmOf<Name extends OperationName> = Extract<
  Entry,
  {
    name: Name;
  }
>['algorithms'][number]['name'];

export class ArgumentError extends NbcError {
  readonly argument: string;
  constructor(argument: string, message: string, context?: ErrorContext, code?: string);
}

export const BAND: Op;

export const BOR: Op;

export const BXOR: Op;

export class BootstrapError extends NbcError {
  constructor(message: string, rank: number);
}

export interface BufferConstructor<View> {
  isBuffer(value: unknown): boolean;
  allocUnsafe(size: number): View;
}

export class CartCommunicator extends NeighborCommunicator {
  private constructor();
  get dims(): readonly number[];
  get periods(): readonly boolean[];
  coords(rank?: number): number[];
  rankAt(coords: readonly number[]): number | null;
  shift(
    dimension: number,
    displacement: number,
  ): {
    source: number | null;
    dest: number | null;
  };
  sub(keep: readonly boolean[], options?: OperationOptions): Promise<CartCommunicator>;
  dup(options?: OperationOptions): Promise<CartCommunicator>;
}

export interface CartOptions extends OperationOptions {
  dims: readonly number[];
  periods?: readonly boolean[];
  reorder?: boolean;
}

export class ClosedError extends NbcError {
  constructor(message: string, context?: ErrorContext);
}

export interface CollectiveOptions<Name extends OperationName> extends OperationOptions {
  algorithm?: AlgorithmOf<Name> | undefined;
}

export class Communicator {
  readonly rank: number;
  readonly size: number;
  readonly barrierInit: PersistentForm<Communicator['ibarrier']>;
  readonly bcastInit: PersistentForm<Communicator['ibcast']>;
  readonly scatterInit: PersistentForm<Communicator['iscatter']>;
  readonly scattervInit: PersistentForm<Communicator['iscatterv']>;
  readonly gatherInit: PersistentForm<Communicator['igather']>;
  readonly gathervInit: PersistentForm<Communicator['igatherv']>;
  readonly allgatherInit: PersistentForm<Communicator['iallgather']>;
  readonly allgathervInit: PersistentForm<Communicator['iallgatherv']>;
  readonly alltoallInit: PersistentForm<Communicator['ialltoall']>;
  readonly alltoallvInit: PersistentForm<Communicator['ialltoallv']>;
  readonly alltoallwInit: PersistentForm<Communicator['ialltoallw']>;
  readonly reduceInit: PersistentForm<Communicator['ireduce']>;
  readonly allreduceInit: PersistentForm<Communicator['iallreduce']>;
  readonly reduceScatterBlockInit: PersistentForm<Communicator['ireduceScatterBlock']>;
  readonly reduceScatterInit: PersistentForm<Communicator['ireduceScatter']>;
  readonly scanInit: PersistentForm<Communicator['iscan']>;
  readonly exscanInit: PersistentForm<Communicator['iexscan']>;
  protected constructor();
  ibarrier(options?: CollectiveOptions<'ibarrier'>): Request;
  ibcast(buffer: Data, root: number, options?: CollectiveOptions<'ibcast'>): Request;
  iscatter(send: Data | null, recv: Data | InPlace, root: number, options?: CollectiveOptions<'iscatter'>): Request;
  iscatterv(
    send: Data | null,
    counts: Counts | null,
    displs: Counts | null,
    recv: Data | InPlace,
    root: number,
    options?: CollectiveOptions<'iscatterv'>,
  ): Request;
  igather(send: Data | InPlace, recv: Data | null, root: number, options?: CollectiveOptions<'igather'>): Request;
  igatherv(
    send: Data | InPlace,
    recv: Data | null,
    counts: Counts | null,
    displs: Counts | null,
    root: number,
    options?: CollectiveOptions<'igatherv'>,
  ): Request;
  iallgather(send: Data | InPlace, recv: Data, options?: CollectiveOptions<'iallgather'>): Request;
  iallgatherv(
    send: Data | InPlace,
    recv: Data,
    counts: Counts,
    displs: Counts | null,
    options?: CollectiveOptions<'iallgatherv'>,
  ): Request;
  ialltoall(send: Data | InPlace, recv: Data, options?: CollectiveOptions<'ialltoall'>): Request;
  ialltoallv(
    send: Data | InPlace,
    sendCounts: Counts | null,
    sendDispls: Counts | null,
    recv: Data,
    recvCounts: Counts,
    recvDispls: Counts | null,
    options?: CollectiveOptions<'ialltoallv'>,
  ): Request;
  ialltoallw(sends: Parts | InPlace, recvs: Parts, options?: CollectiveOptions<'ialltoallw'>): Request;
  ireduce(
    send: Data | InPlace,
    recv: Data | null,
    op: Op,
    root: number,
    options?: CollectiveOptions<'ireduce'>,
  ): Request;
  iallreduce(send: Data | InPlace, recv: Data, op: Op, options?: CollectiveOptions<'iallreduce'>): Request;
  ireduceScatterBlock(
    send: Data | InPlace,
    recv: Data,
    op: Op,
    options?: CollectiveOptions<'ireduceScatterBlock'>,
  ): Request;
  ireduceScatter(
    send: Data | InPlace,
    recv: Data,
    counts: Counts,
    op: Op,
    options?: CollectiveOptions<'ireduceScatter'>,
  ): Request;
  iscan(send: Data | InPlace, recv: Data, op: Op, options?: CollectiveOptions<'iscan'>): Request;
  iexscan(send: Data | InPlace, recv: Data, op: Op, options?: CollectiveOptions<'iexscan'>): Request;
  isend(buffer: Data, dest: number, tag?: number, options?: OperationOptions): Request;
  irecv(buffer: Data, source: number, tag?: number, options?: OperationOptions): Request;
  start(schedule: Schedule, send: Data | null, recv: Data | null, options?: OperationOptions): Request;
  get values(): Values;
  sendInit(buffer: Data, dest: number, tag?: number): PersistentRequest;
  recvInit(buffer: Data, source: number, tag?: number): PersistentRequest;
  isendrecv(
    send: Data | null,
    dest: number | null,
    recv: Data | null,
    source: number | null,
    sendTag?: number,
    recvTag?: number,
    options?: OperationOptions,
  ): Request;
  dup(options?: OperationOptions): Promise<Communicator>;
  split(color: number | undefined, key?: number, options?: OperationOptions): Promise<Communicator | null>;
  cart(options: CartOptions): Promise<CartCommunicator | null>;
  distGraph(options: GraphOptions): Promise<GraphCommunicator>;
  stats(): Stats;
  peers(): PeerNetwork[];
  utilization(one?: Utilization, two?: Utilization): Utilization;
  close(): Promise<void>;
  revoke(): void;
  agree(value: number, options?: OperationOptions): Promise<Agreed>;
  shrink(options?: OperationOptions): Promise<Communicator>;
  [Symbol.asyncDispose](): Promise<void>;
}

export type Counts = ArrayLike<number>;

export type Data = ArrayBufferView | Layout;

export class ExhaustedError extends NbcError {}

export class GraphCommunicator extends NeighborCommunicator {
  dup(options?: OperationOptions): Promise<GraphCommunicator>;
}

export interface GraphOptions extends OperationOptions {
  sources: readonly number[];
  destinations: readonly number[];
}

export const IN_PLACE: unique symbol;

export type InPlace = typeof IN_PLACE;

export interface InitOptions extends Given<typeof COMMON> {
  tcp?: TcpOptions | undefined;
  verbs?: VerbsOptions | undefined;
}

export const LAND: Op;

export const LOR: Op;

export const LXOR: Op;

export class Layout {
  readonly view: ArrayBufferView;
  readonly offset: number;
  readonly length: number;
}

export const MAX: Op;

export const MAXLOC: Op;

export const MAX_TAG = 32767;

export const MIN: Op;

export const MINLOC: Op;

export class MismatchError extends NbcError {
  readonly ranks: readonly [number, number] | undefined;
  constructor(message: string, context?: MismatchContext);
}

export interface ModuleUrl {
  readonly href: string;
}

export class NbcError extends Error {
  readonly code: string;
  readonly rank: number | undefined;
  readonly operation: string | undefined;
  readonly peer?: number;
  readonly errno?: number;
  readonly buffersInUse?: true;
  readonly calledAt?: string;
  readonly awaitedAt?: string;
  constructor(code: string, message: string, context?: ErrorContext, options?: ErrorOptions);
}

export class NeighborCommunicator extends Communicator {
  readonly neighborAllgatherInit: PersistentForm<NeighborCommunicator['ineighborAllgather']>;
  readonly neighborAllgathervInit: PersistentForm<NeighborCommunicator['ineighborAllgatherv']>;
  readonly neighborAlltoallInit: PersistentForm<NeighborCommunicator['ineighborAlltoall']>;
  readonly neighborAlltoallvInit: PersistentForm<NeighborCommunicator['ineighborAlltoallv']>;
  readonly neighborAlltoallwInit: PersistentForm<NeighborCommunicator['ineighborAlltoallw']>;
  get sources(): readonly (number | null)[];
  get destinations(): readonly (number | null)[];
  ineighborAllgather(send: Data | null, recv: Data | null, options?: OperationOptions): Request;
  ineighborAllgatherv(
    send: Data | null,
    recv: Data | null,
    counts: Counts,
    displs: Counts | null,
    options?: OperationOptions,
  ): Request;
  ineighborAlltoall(send: Data | null, recv: Data | null, options?: OperationOptions): Request;
  ineighborAlltoallv(
    send: Data | null,
    sendCounts: Counts,
    sendDispls: Counts | null,
    recv: Data | null,
    recvCounts: Counts,
    recvDispls: Counts | null,
    options?: OperationOptions,
  ): Request;
  ineighborAlltoallw(sends: Parts, recvs: Parts, options?: OperationOptions): Request;
}

export type NeighborOperationName = Entry['name'];

export type Network = 'shm' | 'tcp' | 'ucx' | 'unknown' | 'verbs';

export const OPERATORS: readonly Op[];

export class Op {
  #private;
  readonly name: string;
  readonly commutes: boolean;
  private constructor();
}

export interface OpOptions {
  commutative?: boolean | undefined;
}

export interface OperationEvent {
  readonly operation: string;
  readonly rank: number;
  readonly start: number;
  readonly end?: number;
  readonly error?: NbcError;
}

export type OperationName = Entry['name'];

export interface OperationOptions {
  signal?: SignalLike | undefined;
}

export class OperatorError extends NbcError {
  constructor(message: string, context?: ErrorContext, options?: ErrorOptions);
}

export class OptionError extends ArgumentError {
  constructor(option: string, message: string, context?: ErrorContext);
}

export const PROD: Op;

export type Parts = ArrayLike<Data | null>;

export class PeerClosedError extends PeerLostError {
  constructor(message: string, context?: ErrorContext);
}

export class PeerLostError extends NbcError {
  readonly reason: 'closed' | 'unreachable';
  constructor(code: string, reason: PeerLostError['reason'], message: string, context?: ErrorContext);
}

export interface PeerNetwork {
  network: Network;
  why?: string;
}

export type PersistentForm<Method extends (...args: never[]) => Request> = (
  ...args: Parameters<Method>
) => PersistentRequest;

export class PersistentRequest extends Request {
  private constructor();
  start(options?: OperationOptions): void;
  free(): void;
}

export type PoolRunOptions<Data = unknown> = Pick<RunOptions<Data>, 'data' | 'signal'>;

export class RankError extends NbcError {
  readonly code: RankErrorCode;
}

export type RankErrorCode =
  'ERR_NBC_RANK_ENDED' | 'ERR_NBC_RANK_FAILED' | 'ERR_NBC_RANK_MODULE' | 'ERR_NBC_RANK_RESULT';

export type RankFunction<Data = unknown, Result = unknown> = (
  world: Communicator,
  data: Data,
) => Result | PromiseLike<Result>;

export class RankPool {
  readonly size: number;
  run<Result = unknown, Data = unknown>(module: ModuleUrl | string, options?: PoolRunOptions<Data>): Promise<Result[]>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export type RankPoolOptions = Pick<RunOptions, 'bind' | 'options' | 'size'>;

export class Request implements PromiseLike<void> {
  protected constructor();
  get bytes(): number | undefined;
  get done(): boolean;
  test(): boolean;
  wait(timeoutMs?: number): void;
  then<Fulfilled = void, Rejected = never>(
    onFulfilled?: ((value: void) => Fulfilled | PromiseLike<Fulfilled>) | null,
    onRejected?: ((reason: unknown) => Rejected | PromiseLike<Rejected>) | null,
  ): Promise<Fulfilled | Rejected>;
}

export class RevokedError extends NbcError {
  readonly revokedBy: number;
  constructor(message: string, revokedBy: number, context?: ErrorContext);
}

export interface RunOptions<Data = unknown> {
  size: number;
  data?: Data | undefined;
  signal?: SignalLike | undefined;
  options?: Omit<InitOptions, 'transport'> | undefined;
  bind?: 'core' | 'none' | undefined;
}

export const SUM: Op;

export class ScheduleError extends NbcError {
  constructor(message: string, context?: ErrorContext);
}

export interface SignalLike {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

export type Stats = Readonly<Record<Common, number>> & Readonly<Partial<Record<Exclude<CounterName, Common>, number>>>;

export interface StridedOptions {
  shape: readonly number[];
  strides: readonly number[];
  offset?: number;
}

export class SystemError extends NbcError {
  constructor(message: string, context?: ErrorContext);
}

export type TcpOptions = Given<typeof TCP>;

export class TimeoutError extends NbcError {
  readonly timeoutMs: number;
  readonly waitsFor: readonly number[];
  readonly round: number | undefined;
  constructor(timeoutMs: number, context: ErrorContext, awaited: NativeAwaited);
}

export class TruncatedError extends NbcError {
  readonly bytesHere: number | undefined;
  readonly bytesThere: number | undefined;
  constructor(message: string, context: TruncatedContext);
}

export class UnreachableError extends PeerLostError {
  constructor(message: string, context?: ErrorContext);
}

export interface Utilization {
  idle: number;
  active: number;
  utilization: number;
}

export class ValueError extends NbcError {
  constructor(message: string, context?: ErrorContext, options?: ErrorOptions);
}

export class Values {
  bcast<T>(value: T, root: number, options?: OperationOptions): Promise<T>;
  gather<T>(value: T, root: number, options?: OperationOptions): Promise<T[] | null>;
  scatter<T>(values: readonly T[] | null, root: number, options?: OperationOptions): Promise<T>;
  allgather<T>(value: T, options?: OperationOptions): Promise<T[]>;
  alltoall<T>(values: readonly T[], options?: OperationOptions): Promise<T[]>;
  reduce<T>(value: T, fn: (a: T, b: T) => T, root: number, options?: OperationOptions): Promise<T | null>;
  allreduce<T>(value: T, fn: (a: T, b: T) => T, options?: OperationOptions): Promise<T>;
  send(value: unknown, dest: number, tag?: number, options?: OperationOptions): Promise<void>;
  recv(source: number, tag?: number, options?: OperationOptions): Promise<unknown>;
}

export type VerbsOptions = Given<typeof VERBS>;

export interface ViewConstructor<View extends ArrayBufferView> {
  new (buffer: ArrayBuffer, byteOffset: number, length: number): View;
  readonly BYTES_PER_ELEMENT?: number;
}

export function alloc<View extends ArrayBufferView>(
  constructor: BufferConstructor<View> | ViewConstructor<View>,
  length: number,
): View;

export function bfloat16(bits: Uint16Array): Uint16Array;

export function createOp<View extends ArrayBufferView>(
  functionOrModule: ((a: View, b: View) => void) | ModuleUrl | string,
  options?: OpOptions,
): Op;

export function createRankPool(options: RankPoolOptions): RankPool;

export function dimsCreate(ranks: number, dimensions: number | readonly number[]): number[];

export function float16(bits: Uint16Array): Uint16Array;

export function init(
  options?: InitOptions & {
    signal?: SignalLike | undefined;
  },
): Promise<Communicator>;

export function runRanks<Result = unknown, Data = unknown>(
  module: ModuleUrl | string,
  options: RunOptions<Data>,
): Promise<Result[]>;

export function startAll(requests: readonly PersistentRequest[], options?: OperationOptions): void;

export function startall(requests: readonly Request[], microseconds?: number): void;

export function strided(view: ArrayBufferView, options: StridedOptions): Layout;

export function testAll(requests: readonly Request[]): boolean;

export function waitAll(requests: readonly Request[], timeoutMs?: number): void;

export function waitAny(requests: readonly Request[], timeoutMs?: number): number;

// node-nbc/schedules

export const ALLTOALLV_SLOT_BYTES = 256;

export interface Algorithm<Name extends string = string, S extends Shape = Shape> {
  readonly name: Name;
  readonly steps: string;
  readonly bytes: string;
  readonly when: string;
  readonly source: string;
  readonly reorders?: true;
  build(shape: S): Schedule;
}

export { AlgorithmOf };

export interface AllgathervShape extends Shape {
  readonly blocks: readonly Block[];
}

export interface AlltoallvShape extends Shape {
  readonly sendBlocks: readonly Block[];
  readonly recvBlocks: readonly Block[];
}

export const BCAST_MAX_SEGMENTS = 256;

export const BCAST_SEGMENT_BYTES: number;

export interface Block {
  readonly offset: number;
  readonly bytes: number;
}

export interface Box {
  readonly offset: number;
  readonly block: number;
  readonly steps: readonly Step[];
}

export const CIRCULANT_MAX_BLOCKS = 256;

export interface CopyElement {
  kind: 'copy';
  sourceRole: Role;
  sourceOffset: number;
  targetRole: Role;
  targetOffset: number;
  bytes: number;
}

export const DIMENSION: {
  readonly count: 'count';
  readonly sourceStride: 'stride';
  readonly targetStride: 'stride';
};

export interface DecodedSchedule {
  sendBytes: number;
  receiveBytes: number;
  tempBytes: number;
  rounds: ScheduleElement[][];
}

export interface Dimension {
  count: number;
  sourceStride: number;
  targetStride: number;
}

export interface DrawingOptions {
  title?: string;
}

export const ELEMENTS: {
  readonly SEND: {
    readonly peer: 'rank';
    readonly role: 'source';
    readonly offset: 'offset';
    readonly bytes: 'size';
  };
  readonly RECV: {
    readonly peer: 'rank';
    readonly role: 'target';
    readonly offset: 'offset';
    readonly bytes: 'size';
  };
  readonly COPY: {
    readonly sourceRole: 'source';
    readonly sourceOffset: 'offset';
    readonly targetRole: 'target';
    readonly targetOffset: 'offset';
    readonly bytes: 'size';
  };
  readonly REDUCE: {
    readonly operator: 'op';
    readonly type: 'type';
    readonly order: 'order';
    readonly sourceRole: 'source';
    readonly sourceOffset: 'offset';
    readonly targetRole: 'target';
    readonly targetOffset: 'offset';
    readonly bytes: 'size';
  };
  readonly STRIDED: {
    readonly sourceRole: 'source';
    readonly sourceOffset: 'offset';
    readonly targetRole: 'target';
    readonly targetOffset: 'offset';
    readonly blockBytes: 'size';
    readonly dimensions: 'dimensions';
  };
};

export interface Edge {
  readonly peer: number;
  readonly box: Box;
}

export const ElementKind: {
  readonly SEND: 1;
  readonly RECV: 2;
  readonly COPY: 3;
  readonly REDUCE: 4;
  readonly STRIDED: 5;
};
export type ElementKind = (typeof ElementKind)[keyof typeof ElementKind];

export const ElementType: {
  readonly INT8: 0;
  readonly UINT8: 1;
  readonly INT16: 2;
  readonly UINT16: 3;
  readonly INT32: 4;
  readonly UINT32: 5;
  readonly INT64: 6;
  readonly UINT64: 7;
  readonly FLOAT16: 8;
  readonly BFLOAT16: 9;
  readonly FLOAT32: 10;
  readonly FLOAT64: 11;
};
export type ElementType = (typeof ElementType)[keyof typeof ElementType];

export const FIELD_WORDS: {
  readonly rank: 1;
  readonly source: 1;
  readonly target: 1;
  readonly offset: 2;
  readonly size: 2;
  readonly count: 2;
  readonly stride: 2;
  readonly op: 1;
  readonly type: 1;
  readonly order: 1;
  readonly dimensions: 1;
  readonly rounds: 1;
  readonly magic: 1;
};

export type FieldType = keyof typeof FIELD_WORDS;

export type Fields = Readonly<Record<string, FieldType>>;

export interface GathervShape extends Shape {
  readonly blocks: readonly Block[];
}

export const HEADER: {
  readonly magic: 'magic';
  readonly rounds: 'rounds';
  readonly sendBytes: 'size';
  readonly receiveBytes: 'size';
  readonly tempBytes: 'size';
};

export const HIERARCHICAL_SLOT_BYTES = 1024;

export const MAX_DIMENSIONS = 16;

export const NEIGHBOR_OPERATIONS: readonly [
  import('./operation.js').Operation<'ineighborAllgather', 'linear', NeighborShape>,
  import('./operation.js').Operation<'ineighborAllgatherv', 'linear', NeighborShape>,
  import('./operation.js').Operation<'ineighborAlltoall', 'linear', NeighborShape>,
  import('./operation.js').Operation<'ineighborAlltoallv', 'linear', NeighborShape>,
  import('./operation.js').Operation<'ineighborAlltoallw', 'linear', NeighborShape>,
];

export const OPERATIONS: readonly [
  import('./operation.js').Operation<
    'ibarrier',
    'dissemination' | 'hierarchical' | 'linear',
    import('../schedules/shape.js').Shape
  >,
  import('./operation.js').Operation<
    'ibcast',
    'binomial' | 'chain' | 'circulant' | 'hierarchical' | 'linear' | 'scatter-allgather',
    import('../schedules/shape.js').Shape
  >,
  import('./operation.js').Operation<'iscatter', 'binomial' | 'linear', import('../schedules/shape.js').Shape>,
  import('./operation.js').Operation<'iscatterv', 'linear', import('../schedules/gatherv.js').GathervShape>,
  import('./operation.js').Operation<'igather', 'binomial' | 'linear', import('../schedules/shape.js').Shape>,
  import('./operation.js').Operation<'igatherv', 'linear', import('../schedules/gatherv.js').GathervShape>,
  import('./operation.js').Operation<
    'iallgather',
    'bruck' | 'central' | 'hierarchical' | 'linear' | 'neighbor-exchange' | 'recursive-doubling' | 'ring',
    import('../schedules/shape.js').Shape
  >,
  import('./operation.js').Operation<
    'iallgatherv',
    'bruck' | 'central' | 'linear' | 'ring',
    import('../schedules/allgather.js').AllgathervShape
  >,
  import('./operation.js').Operation<
    'ialltoall',
    'bruck' | 'central' | 'hierarchical' | 'linear' | 'pairwise',
    import('../schedules/shape.js').Shape
  >,
  import('./operation.js').Operation<
    'ialltoallv',
    'bruck' | 'hierarchical' | 'linear' | 'pairwise',
    import('../schedules/exchange.js').AlltoallvShape
  >,
  import('./operation.js').Operation<'ialltoallw', 'linear', import('./alltoallw.js').AlltoallwShape>,
  import('./operation.js').Operation<
    'ireduce',
    'binomial' | 'hierarchical' | 'linear' | 'rabenseifner',
    import('../schedules/combine.js').ReduceShape
  >,
  import('./operation.js').Operation<
    'iallreduce',
    'hierarchical' | 'linear' | 'rabenseifner' | 'recursive-doubling' | 'ring',
    import('../schedules/combine.js').ReduceShape
  >,
  import('./operation.js').Operation<
    'ireduceScatterBlock',
    'linear' | 'pairwise' | 'recursive-halving',
    import('../schedules/combine.js').ReduceShape
  >,
  import('./operation.js').Operation<
    'ireduceScatter',
    'linear' | 'pairwise' | 'recursive-halving',
    import('../schedules/reduce.js').ReduceScatterShape
  >,
  import('./operation.js').Operation<
    'iscan',
    'central' | 'linear' | 'recursive-doubling',
    import('../schedules/combine.js').ReduceShape
  >,
  import('./operation.js').Operation<
    'iexscan',
    'central' | 'linear' | 'recursive-doubling',
    import('../schedules/combine.js').ReduceShape
  >,
];

export interface Operation<Name extends string = string, Hint extends string = string, S extends Shape = Shape> {
  readonly name: Name;
  readonly mpi: string;
  readonly summary: string;
  readonly parameters: readonly string[];
  readonly algorithms: readonly Algorithm<Hint, S>[];
  shape(call: Call): S;
  check?(call: Call): void;
  sizes?(shape: S): readonly number[];
  choose(shape: S): NoInfer<Hint>;
}

export { OperationName };

export const Operator: {
  readonly SUM: 0;
  readonly PROD: 1;
  readonly MIN: 2;
  readonly MAX: 3;
  readonly LAND: 4;
  readonly LOR: 5;
  readonly LXOR: 6;
  readonly BAND: 7;
  readonly BOR: 8;
  readonly BXOR: 9;
  readonly MINLOC: 10;
  readonly MAXLOC: 11;
  readonly USER: 12;
};
export type Operator = (typeof Operator)[keyof typeof Operator];

export const Order: {
  readonly SOURCE_FIRST: 0;
  readonly TARGET_FIRST: 1;
};
export type Order = (typeof Order)[keyof typeof Order];

export interface RecvElement {
  kind: 'recv';
  peer: number;
  role: Role;
  offset: number;
  bytes: number;
}

export interface ReduceElement {
  kind: 'reduce';
  operator: Operator;
  type: ElementType;
  order: Order;
  sourceRole: Role;
  sourceOffset: number;
  targetRole: Role;
  targetOffset: number;
  bytes: number;
}

export interface ReduceScatterShape extends ReduceShape {
  readonly blocks: readonly {
    readonly offset: number;
    readonly bytes: number;
  }[];
}

export interface ReduceShape extends Shape {
  readonly operator: Operator;
  readonly type: ElementType;
  readonly unit: number;
  readonly commutes: boolean;
}

export const Role: {
  readonly SEND: 0;
  readonly RECEIVE: 1;
  readonly TEMP: 2;
};
export type Role = (typeof Role)[keyof typeof Role];

export const SCHEDULE_MAGIC = 843268686;

export interface ScattervShape extends Shape {
  readonly blocks: readonly Block[];
}

export class Schedule {
  send(peer: number, role: Role, offset: number, bytes: number): this;
  recv(peer: number, role: Role, offset: number, bytes: number): this;
  copy(sourceRole: Role, sourceOffset: number, targetRole: Role, targetOffset: number, bytes: number): this;
  reduce(
    operator: Operator,
    type: ElementType,
    sourceRole: Role,
    sourceOffset: number,
    targetRole: Role,
    targetOffset: number,
    bytes: number,
    order?: Order,
  ): this;
  strided(
    sourceRole: Role,
    sourceOffset: number,
    targetRole: Role,
    targetOffset: number,
    blockBytes: number,
    dimensions: readonly Dimension[],
  ): this;
  round(): this;
  encode(): Uint32Array;
  describe(): string;
  toString(): string;
}

export type ScheduleElement = SendElement | RecvElement | CopyElement | ReduceElement | StridedElement;

export { ScheduleError };

export interface ScheduleProblem {
  kind: 'cycle' | 'no receive' | 'no send' | 'rank' | 'sizes';
  rank: number;
  round: number;
  peer: number;
  message: string;
}

export interface SendElement {
  kind: 'send';
  peer: number;
  role: Role;
  offset: number;
  bytes: number;
}

export interface Shape {
  readonly rank: number;
  readonly size: number;
  readonly root: number;
  readonly bytes: number;
  readonly inPlace: boolean;
  readonly hosts?: readonly number[] | undefined;
  readonly crowded?: boolean | undefined;
  readonly detail?: string;
}

export interface Step {
  readonly count: number;
  readonly stride: number;
}

export interface StridedElement {
  kind: 'strided';
  sourceRole: Role;
  sourceOffset: number;
  targetRole: Role;
  targetOffset: number;
  blockBytes: number;
  dimensions: Dimension[];
}

export const TYPE_BYTES: readonly number[];

export function allgatherBruck(shape: Shape): Schedule;

export function allgatherCentral(shape: Shape): Schedule;

export function allgatherDoubling(shape: Shape): Schedule;

export function allgatherHierarchical(shape: Shape): Schedule;

export function allgatherLinear(shape: Shape): Schedule;

export function allgatherNeighbor(shape: Shape): Schedule;

export function allgatherRing(shape: Shape): Schedule;

export function allgathervBruck({ rank, size, inPlace, blocks }: AllgathervShape): Schedule;

export function allgathervCentral({ rank, size, inPlace, blocks }: AllgathervShape): Schedule;

export function allgathervLinear(shape: AllgathervShape): Schedule;

export function allgathervRing(shape: AllgathervShape): Schedule;

export function allreduceDoubling(shape: ReduceShape): Schedule;

export function allreduceHierarchical(shape: ReduceShape): Schedule;

export function allreduceLinear(shape: ReduceShape): Schedule;

export function allreduceRabenseifner(shape: ReduceShape): Schedule;

export function allreduceRing(shape: ReduceShape): Schedule;

export function alltoallBruck({ rank, size, bytes, inPlace }: Shape): Schedule;

export function alltoallCentral({ rank, size, bytes, inPlace }: Shape): Schedule;

export function alltoallHierarchical(shape: Shape): Schedule;

export function alltoallLinear({ rank, size, bytes, inPlace }: Shape): Schedule;

export function alltoallPairwise({ rank, size, bytes, inPlace }: Shape): Schedule;

export function alltoallvBruck(shape: AlltoallvShape): Schedule;

export function alltoallvHierarchical(shape: AlltoallvShape): Schedule;

export function alltoallvLinear(shape: AlltoallvShape): Schedule;

export function alltoallvPairwise(shape: AlltoallvShape): Schedule;

export function barrierDissemination({ rank, size }: Shape): Schedule;

export function barrierHierarchical(shape: Shape): Schedule;

export function barrierLinear({ rank, size }: Shape): Schedule;

export function bcastBinomial({ rank, size, root, bytes }: Shape): Schedule;

export function bcastChain({ rank, size, root, bytes }: Shape, segmentBytes?: number): Schedule;

export function bcastCirculant(shape: Shape, blocks?: number): Schedule;

export function bcastHierarchical(shape: Shape): Schedule;

export function bcastLinear({ rank, size, root, bytes }: Shape): Schedule;

export function bcastScatterAllgather({ rank, size, root, bytes }: Shape): Schedule;

export function bcastSegment(bytes: number): number;

export function bytesOfBox({ block, steps }: Box): number;

export function checkSchedules(schedules: readonly (Schedule | DecodedSchedule)[]): ScheduleProblem[];

export function circulantBlocks(size: number, bytes: number): number;

export function contiguous(offset: number, bytes: number): Box;

export function decodeSchedule(words: Uint32Array): DecodedSchedule;

export function describeElement(element: ScheduleElement): string;

export function describeSchedule(schedule: DecodedSchedule): string;

export function eachBlock({ offset, steps }: Box, visit: (offset: number) => void): void;

export function equalBlocks({ size, bytes }: Shape): Block[];

export function equalBoxes(a: Box, b: Box): boolean;

export function exchangeParts(
  rank: number,
  sends: readonly Edge[],
  recvs: readonly Edge[],
  from: Role,
  save?: boolean,
): Schedule;

export function exscanCentral(shape: ReduceShape): Schedule;

export function exscanDoubling(shape: ReduceShape): Schedule;

export function exscanLinear(shape: ReduceShape): Schedule;

export function extentOf({ block, steps }: Box): number;

export function gatherBinomial(shape: Shape): Schedule;

export function gatherLinear(shape: Shape): Schedule;

export function gathervLinear({ rank, size, root, bytes, inPlace, blocks }: GathervShape): Schedule;

export function isDefined(operator: Operator, type: ElementType): boolean;

export function isDistinct({ block, steps }: Box): boolean;

export function isPaired(operator: Operator): boolean;

export function reduceBinomial(shape: ReduceShape): Schedule;

export function reduceHierarchical(shape: ReduceShape): Schedule;

export function reduceLinear(shape: ReduceShape): Schedule;

export function reduceRabenseifner(shape: ReduceShape): Schedule;

export function reduceScatterHalving(shape: ReduceScatterShape): Schedule;

export function reduceScatterLinear(shape: ReduceScatterShape): Schedule;

export function reduceScatterPairwise(shape: ReduceScatterShape): Schedule;

export function scanCentral(shape: ReduceShape): Schedule;

export function scanDoubling(shape: ReduceShape): Schedule;

export function scanLinear(shape: ReduceShape): Schedule;

export function scatterBinomial(shape: Shape): Schedule;

export function scatterLinear(shape: Shape): Schedule;

export function scattervLinear({ rank, size, root, bytes, inPlace, blocks }: ScattervShape): Schedule;

export function simplified(offset: number, block: number, given: readonly Step[]): Box;

export function svg(schedules: readonly (Schedule | DecodedSchedule)[], { title }?: DrawingOptions): string;

export function textOfBox({ offset, block, steps }: Box): string;

export function withLayouts(schedule: Schedule, send: Box | null, recv: Box | null): Schedule;

export function wordsOf(fields: Fields): number;

// Not exported, and named by the types above.

interface AbandonedContext extends ErrorContext {
  origin?: number | undefined;
  reason?: string | undefined;
}

interface AlltoallwShape extends Shape {
  readonly from: Role;
  readonly sends: readonly Box[];
  readonly recvs: readonly Box[];
}

const COMMON: {
  transport: Rule<'auto' | 'shm' | 'tcp' | 'ucx' | 'verbs'>;
  joinTimeout: Rule<number>;
  peerTimeout: Rule<number>;
  progress: Rule<'manual' | 'thread'>;
  eagerLimit: Rule<number>;
  testOnInit: Rule<boolean>;
  waitOnSend: Rule<number>;
  startall: Rule<number>;
  awaitSpin: Rule<number>;
  timeout: Rule<number>;
  watchdog: Rule<number>;
  monitor: Rule<string>;
  crossMemory: Rule<'auto' | 'off'>;
  exposedBytes: Rule<number>;
  trace: Rule<string>;
  debug: Rule<boolean>;
  traceEvents: Rule<number>;
};

const COUNTERS: {
  started: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  rounds: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  eagerSent: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  eagerStalled: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  eagerUnexpected: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  acksPiggybacked: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  acksExplicit: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  rtrSent: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  rtrStalled: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  rtrEarly: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  rtsSent: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  dataSent: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  connections: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  progressWakeups: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  progressPasses: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  loopWakeups: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  moves: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  allocatedBytes: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  mailboxSlots: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  heldMessages: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  parks: Row<'shm' | 'tcp' | 'ucx' | 'verbs'>;
  events: Row<'tcp' | 'ucx' | 'verbs'>;
  mappedBytes: Row<'shm'>;
  crossMemoryBytes: Row<'shm'>;
  stagedBytes: Row<'shm'>;
  helpedPieces: Row<'shm'>;
  combinedBytes: Row<'shm'>;
  peersByMemory: Row<'shm'>;
  doorbells: Row<'shm'>;
  framesSent: Row<'tcp'>;
  framesReceived: Row<'tcp'>;
  socketWrites: Row<'tcp'>;
  socketReads: Row<'tcp'>;
  bytesSent: Row<'tcp'>;
  bytesReceived: Row<'tcp'>;
  bytesCopied: Row<'tcp'>;
  connectionsAccepted: Row<'tcp'>;
  peersByTcp: Row<'tcp'>;
  connectionsRefused: Row<'tcp'>;
  workRequests: Row<'verbs'>;
  chains: Row<'verbs'>;
  inlinedWrites: Row<'verbs'>;
  signalledWrites: Row<'verbs'>;
  sends: Row<'verbs'>;
  creditMessages: Row<'verbs'>;
  creditsReturned: Row<'verbs'>;
  creditWaits: Row<'verbs'>;
  receivesRefilled: Row<'verbs'>;
  peersByVerbs: Row<'verbs'>;
  probes: Row<'verbs'>;
  cacheHits: Row<'verbs'>;
  cacheMisses: Row<'verbs'>;
  cacheEvictions: Row<'verbs'>;
  cacheExpired: Row<'verbs'>;
  cacheStale: Row<'verbs'>;
  cacheBeside: Row<'verbs'>;
  ucxMessages: Row<'ucx'>;
  ucxPuts: Row<'ucx'>;
  peersByUcx: Row<'ucx'>;
};

class Call {
  readonly send: unknown;
  readonly recv: unknown;
  readonly root: number;
  readonly lists: readonly (Counts | null | undefined)[];
  readonly op?: unknown | undefined;
  readonly rank: number;
  readonly size: number;
  constructor(
    operation: string,
    caller: Caller,
    send: unknown,
    recv: unknown,
    root: number,
    lists: readonly (Counts | null | undefined)[],
    op?: unknown | undefined,
  );
  get neighbors(): Neighbors;
  get isRoot(): boolean;
  get sendInPlace(): boolean;
  shape(bytes: number, inPlace?: boolean): Shape;
  refuse(argument: string, message: string): never;
  get context(): ErrorContext;
  checkRoot(): void;
  view(argument: 'recv' | 'send', name?: string): Checked;
  block(argument: 'recv' | 'send', { bytes, width }: Checked, blocks?: number): number;
  checkPair(send: Checked, recv: Checked): void;
  checkWhole(argument: 'recv' | 'send', { width }: Checked, block: number): void;
}

interface Caller {
  readonly rank: number;
  readonly size: number;
  readonly world: {
    readonly rank: number;
  };
  readonly hosts: readonly number[] | undefined;
  readonly crowded: boolean;
  readonly neighbors?: Neighbors;
}

interface Checked {
  readonly view: ArrayBufferView;
  readonly bytes: number;
  readonly type: ElementType;
  readonly width: number;
}

type Common = {
  [Name in CounterName]: Fabric extends Table[Name]['fabrics'][number] ? Name : never;
}[CounterName];

type CounterName = keyof Table;

type Entry = (typeof OPERATIONS)[number];

type Entry = (typeof NEIGHBOR_OPERATIONS)[number];

interface ErrorContext {
  rank?: number | undefined;
  operation?: string | undefined;
  peer?: number | undefined;
  errno?: number | undefined;
}

type Fabric = 'shm' | 'tcp' | 'ucx' | 'verbs';

type Given<Rules> = {
  [Name in keyof Rules]?: Value<Rules[Name]> | undefined;
};

interface MismatchContext extends ErrorContext {
  ranks?: readonly [number, number];
}

interface NativeAwaited {
  round: number;
  rounds: number;
  function: boolean;
  peers: number[];
}

interface NeighborShape extends Shape {
  readonly neighbors: Neighbors;
  readonly from: Role;
  readonly sends: readonly Box[];
  readonly recvs: readonly Box[];
}

interface Neighbors {
  readonly sources: readonly (number | null)[];
  readonly destinations: readonly (number | null)[];
  readonly order: readonly number[];
}

interface Row<Where extends Fabric> {
  unit: string;
  fabrics: readonly Where[];
  description: string;
}

interface Rule<T> {
  variable: string;
  fallback: T;
  parse(text: string): unknown;
  accepts(value: unknown): boolean;
  expected: string;
  native: boolean;
  inTurn?: boolean;
}

const TCP: {
  address: {
    variable: string;
    fallback: string;
    native: boolean;
    parse: (text: string) => string;
    accepts: (value: unknown) => boolean;
    expected: string;
  };
  eagerLimit: Rule<number>;
};

type Table = typeof COUNTERS;

interface TruncatedContext extends ErrorContext {
  bytesHere: number | undefined;
  bytesThere: number | undefined;
}

const VERBS: {
  device: Rule<string>;
  port: Rule<number>;
  gidIndex: Rule<number>;
  partitionKey: Rule<number>;
  serviceLevel: Rule<number>;
  trafficClass: Rule<number>;
  timeout: Rule<number>;
  retries: Rule<number>;
  eager: Rule<'send' | 'write'>;
  cacheEntries: Rule<number>;
  cacheBytes: Rule<number>;
};

type Value<R> = R extends Rule<infer T> ? T : never;
