/**
 * Every way in which node-nbc can fail, as classes. Each error has a `code` that starts with `ERR_NBC_`; where they are
 * known, also the world rank it happened on and the operation that failed. Messages say what to do about it.
 */

export interface ErrorContext {
  /** World rank of the process that reports the error. */
  rank?: number | undefined;
  /** The operation that failed, for example `'ibcast'`. */
  operation?: string | undefined;
  /** World rank of the other side. */
  peer?: number | undefined;
  /** The number of the error of the system call that failed. */
  errno?: number | undefined;
}

/** The base of all errors of this library. */
export class NbcError extends Error {
  /** Stable and machine-readable: `'ERR_NBC_…'`. */
  readonly code: string;
  /** World rank of the process that reports the error. */
  readonly rank: number | undefined;
  /** The operation that failed, for example `'ibcast'`. */
  readonly operation: string | undefined;
  /** World rank of the other side, where the error has to do with one. */
  declare readonly peer?: number;
  /** `errno` of the system call that failed, positive as in C: `util.getSystemErrorName(-errno)` has its name. */
  declare readonly errno?: number;
  /** `true` where a peer that does not answer may still read or write the buffers of the request: leave them alone. */
  declare readonly buffersInUse?: true;
  /**
   * With option `debug`: file, line and column of the program where the operation was started. A {@link MismatchError}
   * of a persistent request has those of its Init method, which is the call that ranks compare.
   */
  declare readonly calledAt?: string;
  /** The same of where the program awaits it, where it does. */
  declare readonly awaitedAt?: string;

  constructor(code: string, message: string, context: ErrorContext = {}, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.rank = context.rank;
    this.operation = context.operation;
    if (context.peer !== undefined) this.peer = context.peer;
    if (context.errno !== undefined) this.errno = context.errno;
  }

  static {
    // On the prototypes, as in Node's own errors: `name` then costs nothing per instance and does not show in
    // inspect().
    this.prototype.name = 'NbcError';
  }
}

/** An argument that cannot work. Thrown before anything has been sent, so the communicator stays usable. */
export class ArgumentError extends NbcError {
  /** Name of the argument, as in the documentation: `'root'`, `'send'`, `'recv'`, `'buffer'`, `'tag'`, … */
  readonly argument: string;

  constructor(argument: string, message: string, context?: ErrorContext, code = 'ERR_NBC_ARGUMENT') {
    super(code, `${argument}: ${message}`, context);
    this.argument = argument;
  }

  static {
    this.prototype.name = 'ArgumentError';
  }
}

/** @throws {ArgumentError} for an argument that should have properties, and cannot have any */
export function requireObject(value: unknown, argument: string, context: ErrorContext): void {
  if (typeof value === 'object' && value !== null) return;
  throw new ArgumentError(argument, `must be an object, not ${show(value)}`, context);
}

/**
 * An option of `init()`, or its environment variable, that cannot work; `argument` is the name of the one that was
 * given.
 */
export class OptionError extends ArgumentError {
  constructor(option: string, message: string, context?: ErrorContext) {
    super(option, message, context, 'ERR_NBC_OPTION');
  }

  static {
    this.prototype.name = 'OptionError';
  }
}

/** What a pending request waits for, as native code tells it. */
export interface NativeAwaited {
  /** Of a collective, the round that has begun, from 1 on. */
  round: number;
  /** 0: a message. */
  rounds: number;
  /** The function of its operator has not returned. */
  function: boolean;
  /** World ranks whose messages have not come, or who have not taken ours. */
  peers: number[];
}

/** So many ranks are named in a message. */
const MAX_NAMED = 8;

function describeAwaited({ round, rounds, function: computes, peers }: NativeAwaited): string {
  const where = rounds > 0 ? `round ${round} of ${rounds} ` : 'it ';
  if (computes) return `${where}waits for the function of its operator`;
  if (peers.length === 0) return `${where}waits for this rank's own work`;
  const named = peers.slice(0, MAX_NAMED).join(', ');
  const more = peers.length > MAX_NAMED ? ` and ${peers.length - MAX_NAMED} more` : '';
  return `${where}waits for ${peers.length === 1 ? 'rank' : 'ranks'} ${named}${more}`;
}

/**
 * The time limit passed. The request is still pending, and its buffers still belong to it: wait again, or close the
 * world.
 */
export class TimeoutError extends NbcError {
  /** The limit that passed, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * World ranks that the request waits for: their messages have not come, or they have not taken this rank's. Empty
   * where only this rank has something to do.
   */
  readonly waitsFor: readonly number[];
  /** Of a collective, the round that it is in, from 1 on; undefined for messages. */
  readonly round: number | undefined;

  constructor(timeoutMs: number, context: ErrorContext, awaited: NativeAwaited) {
    const what = context.operation ?? 'the operation';
    const why = describeAwaited(awaited);
    super(
      'ERR_NBC_TIMEOUT',
      `${what} is not complete after ${timeoutMs} ms: ${why}; the request stays pending`,
      context,
    );
    this.timeoutMs = timeoutMs;
    this.waitsFor = awaited.peers;
    this.round = awaited.rounds > 0 ? awaited.round : undefined;
  }

  static {
    this.prototype.name = 'TimeoutError';
  }
}

/** The world or communicator was closed before the operation started, or while it was pending. */
export class ClosedError extends NbcError {
  constructor(message: string, context?: ErrorContext) {
    super('ERR_NBC_CLOSED', message, context);
  }

  static {
    this.prototype.name = 'ClosedError';
  }
}

/** A persistent request is active, and the call is for one that is not. */
export class ActiveError extends NbcError {
  constructor(message: string, context?: ErrorContext) {
    super('ERR_NBC_ACTIVE', message, context);
  }

  static {
    this.prototype.name = 'ActiveError';
  }
}

/**
 * A rank has revoked the communicator: `communicator.revoke()`. Nothing can be done with it but to close it, and
 * `agree()` and `shrink()`.
 */
export class RevokedError extends NbcError {
  /** World rank of the one that has called it first, as far as this rank knows. */
  readonly revokedBy: number;

  constructor(message: string, revokedBy: number, context?: ErrorContext) {
    super('ERR_NBC_REVOKED', message, context);
    this.revokedBy = revokedBy;
  }

  static {
    this.prototype.name = 'RevokedError';
  }
}

/** The signal of an operation has fired; `cause` is its reason. */
export class AbortError extends NbcError {
  constructor(context: ErrorContext, cause: unknown) {
    const why = cause instanceof Error ? cause.message : show(cause);
    super('ERR_NBC_ABORTED', `${context.operation} was aborted by its signal: ${why}`, context, { cause });
  }

  static {
    this.prototype.name = 'AbortError';
  }
}

/**
 * What became of a rank that is a thread. FAILED: its function threw, or something that nobody caught was thrown.
 * MODULE: its module could not be imported, or has no function as its default export. RESULT: its result cannot be
 * copied. ENDED: the thread has ended before.
 */
export type RankErrorCode =
  'ERR_NBC_RANK_FAILED' | 'ERR_NBC_RANK_MODULE' | 'ERR_NBC_RANK_RESULT' | 'ERR_NBC_RANK_ENDED';

/** A rank of `runRanks()` has failed, the first of all: `rank` says which. `cause` is what was thrown there, a copy. */
export class RankError extends NbcError {
  declare readonly code: RankErrorCode;

  static {
    this.prototype.name = 'RankError';
  }
}

interface TruncatedContext extends ErrorContext {
  bytesHere: number | undefined;
  bytesThere: number | undefined;
}

/**
 * A message was longer than the buffer posted for it: the ranks disagree about a size, or about the order of their
 * calls.
 */
export class TruncatedError extends NbcError {
  /** Size of the message on this rank. */
  readonly bytesHere: number | undefined;
  /** Size of the message on the peer. */
  readonly bytesThere: number | undefined;

  constructor(message: string, context: TruncatedContext) {
    super('ERR_NBC_TRUNCATED', message, context);
    this.bytesHere = context.bytesHere;
    this.bytesThere = context.bytesThere;
  }

  static {
    this.prototype.name = 'TruncatedError';
  }
}

/**
 * A rank that this operation needs is lost for good: `peer`, a rank of the world. Either it has closed its world or
 * ended ({@link PeerClosedError}), or there is no way to it ({@link UnreachableError}).
 */
export class PeerLostError extends NbcError {
  /** `'closed'`, or `'unreachable'`, also where it has been silent for longer than option `peerTimeout` says. */
  readonly reason: 'closed' | 'unreachable';

  constructor(code: string, reason: PeerLostError['reason'], message: string, context?: ErrorContext) {
    super(code, message, context);
    this.reason = reason;
  }

  static {
    this.prototype.name = 'PeerLostError';
  }
}

/** A peer closed its world, or ended, while this operation still depended on it. */
export class PeerClosedError extends PeerLostError {
  constructor(message: string, context?: ErrorContext) {
    super('ERR_NBC_PEER_CLOSED', 'closed', message, context);
  }

  static {
    this.prototype.name = 'PeerClosedError';
  }
}

/** The ranks of a job did not find each other: one is missing, is there twice, or has another secret. */
export class BootstrapError extends NbcError {
  constructor(message: string, rank: number) {
    super('ERR_NBC_BOOTSTRAP', message, { rank, operation: 'init' });
  }

  static {
    this.prototype.name = 'BootstrapError';
  }
}

interface MismatchContext extends ErrorContext {
  ranks?: readonly [number, number];
}

/**
 * Ranks do not agree. Two ranks of a communicator have called different collectives, or one collective with another
 * root, size, element type, operator or algorithm: the message names both calls. Which calls belong together is not
 * known any more. So every rank gets this error from its pending collectives of the communicator and from all later
 * ones; a rank on which none is pending gets it at the latest from `close()`. Or a peer runs with other settings:
 * another eager limit or another version.
 */
export class MismatchError extends NbcError {
  /** World ranks of the two calls; undefined where settings differ. */
  readonly ranks: readonly [number, number] | undefined;

  constructor(message: string, context: MismatchContext = {}) {
    super('ERR_NBC_MISMATCH', message, context);
    this.ranks = context.ranks;
  }

  static {
    this.prototype.name = 'MismatchError';
  }
}

/** The operating system refused a call that the operation needed. */
export class SystemError extends NbcError {
  constructor(message: string, context?: ErrorContext) {
    super('ERR_NBC_SYSTEM', message, context);
  }

  static {
    this.prototype.name = 'SystemError';
  }
}

/**
 * There is no way to a peer, for example because it is on another host and there is no network device; or the
 * connection to it broke, because it does not answer any more, or a network card gave up. It is not made again. A rank
 * that has been silent for longer than option `peerTimeout` says is unreachable, too.
 */
export class UnreachableError extends PeerLostError {
  constructor(message: string, context?: ErrorContext) {
    super('ERR_NBC_UNREACHABLE', 'unreachable', message, context);
  }

  static {
    this.prototype.name = 'UnreachableError';
  }
}

interface AbandonedContext extends ErrorContext {
  origin?: number | undefined;
  reason?: string | undefined;
}

/**
 * A peer gave up a message that this request needs, because the peer's operation had failed. The failure of a
 * collective travels along its messages. So `peer` may have learned of it from another rank; `origin` is where it
 * began.
 */
export class AbandonedError extends NbcError {
  /**
   * World rank where the failure began: the rank whose part of the operation failed first, or the one that has ended.
   * Undefined where the peer did not say.
   */
  readonly origin: number | undefined;
  /** The code of the error there: `'ERR_NBC_…'`. */
  readonly reason: string | undefined;

  constructor(message: string, context: AbandonedContext = {}) {
    super('ERR_NBC_ABANDONED', message, context);
    this.origin = context.origin;
    this.reason = context.reason;
  }

  static {
    this.prototype.name = 'AbandonedError';
  }
}

/** A schedule that is malformed: the message names the word or element and the reason. */
export class ScheduleError extends NbcError {
  constructor(message: string, context?: ErrorContext) {
    super('ERR_NBC_SCHEDULE', message, context);
  }

  static {
    this.prototype.name = 'ScheduleError';
  }
}

/** A value that the structured clone algorithm does not take, or a function that failed on values: on `peer`. */
export class ValueError extends NbcError {
  constructor(message: string, context?: ErrorContext, options?: ErrorOptions) {
    super('ERR_NBC_VALUE', message, context, options);
  }

  static {
    this.prototype.name = 'ValueError';
  }
}

/**
 * The function of an operator ({@link createOp}) failed on this rank: `cause` is what it threw. Or a call that waits
 * was made inside of such a function.
 */
export class OperatorError extends NbcError {
  constructor(message: string, context?: ErrorContext, options?: ErrorOptions) {
    super('ERR_NBC_OPERATOR', message, context, options);
  }

  static {
    this.prototype.name = 'OperatorError';
  }
}

/** More operations, more memory or more descriptors than one rank can have at a time. */
export class ExhaustedError extends NbcError {
  static {
    this.prototype.name = 'ExhaustedError';
  }
}

/** Tells where the program has made the call of a failed request, and where it awaits it, as far as that is known. */
export function tellPlaces(error: NbcError, calledAt: string | undefined, awaitedAt: string | undefined): void {
  const places: { calledAt?: string; awaitedAt?: string } = error;
  if (calledAt !== undefined && places.calledAt === undefined) {
    places.calledAt = calledAt;
    addSentence(error, `; the program called ${error.operation} at ${calledAt}`);
  }
  if (awaitedAt !== undefined && places.awaitedAt === undefined) {
    places.awaitedAt = awaitedAt;
    addSentence(error, `; it awaits it at ${awaitedAt}`);
  }
}

export function addSentence(error: NbcError, sentence: string): void {
  changeMessage(error, error.message + sentence);
}

/** Methods that start a request. */
const STARTS_REQUEST = /^i[a-z]/;

/** Tells which method the program has called, where a request has failed that this method has started. */
export function nameCall(error: NbcError, operation: string): void {
  const inner = error.operation;
  if (inner === undefined || !STARTS_REQUEST.test(inner)) return;
  Object.assign(error, { operation });
  changeMessage(
    error,
    error.message.replace(inner, () => operation),
  );
}

/** The stack begins with the message, and is what programs print. */
function changeMessage(error: NbcError, message: string): void {
  const { message: before, stack } = error;
  error.message = message;
  if (stack !== undefined) error.stack = stack.replace(before, () => message);
}

/** For messages: a value that is not what it should be. */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value === 'function') return 'a function';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
