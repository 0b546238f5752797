/**
 * From what native code reports to the typed errors of this library. Native code names a code and what it knows: the
 * argument, the peer, sizes, errno. The sentences are made here.
 */
import {
  AbandonedError,
  addSentence,
  ArgumentError,
  ClosedError,
  type ErrorContext,
  ExhaustedError,
  MismatchError,
  NbcError,
  OperatorError,
  PeerClosedError,
  PeerLostError,
  RevokedError,
  ScheduleError,
  show,
  SystemError,
  tellPlaces,
  TruncatedError,
  UnreachableError,
} from './errors.js';
import { describeLeftOver, describeMismatch } from './signatures.js';

/** What native code knows about a failure: properties of the errors that it throws, and of {@link Native.explain}. */
export interface NativeFailure {
  /** `'ERR_NBC_…'` */
  code: string;
  /** ERR_NBC_ARGUMENT: which argument, and what is wrong with it: a key of {@link ARGUMENT_REASONS}. */
  argument?: string;
  reason?: string;
  /** World rank of the peer. */
  peer?: number;
  /** ERR_NBC_TRUNCATED: size of the message on this rank, and on the peer. */
  bytesHere?: number;
  bytesThere?: number;
  /** Sizes of arguments: what was given, and what is the least or the most. */
  bytes?: number;
  least?: number;
  most?: number;
  /** ERR_NBC_SCHEDULE: index of the word that is wrong. */
  word?: number;
  /** Of the system call that failed. */
  errno?: number;
  /** What the part of native code that failed says about it. */
  detail?: string;
  /** ERR_NBC_ABANDONED: world rank where the failure began, and the code of its error there. */
  origin?: number;
  cause?: string;
  /** ERR_NBC_OPERATOR: what the function threw. */
  thrown?: { readonly value: unknown };
  /**
   * ERR_NBC_MISMATCH, where calls differ: world ranks of the two, the signatures of their calls (signatures.ts), and
   * the size that the first one has named. Equal calls: of a message that is left over. otherCall 0: not called.
   */
  oneRank?: number;
  oneCall?: number;
  oneBytes?: number;
  otherRank?: number;
  otherCall?: number;
  /** 1: a peer that does not answer may still use the buffers of the request. */
  buffersInUse?: number;
}

/**
 * What native code has found when it closed. A rank may close when it likes, so that others are in calls that it has
 * not made is worth a warning only: an error would hide the one for which the program closes.
 *
 * @param calledAt where it has closed, with option `debug`
 */
export function throwMismatch(failure: NativeFailure, context: ErrorContext, calledAt: string | undefined): void {
  const error = errorFromFailure(failure, 'close: ', context);
  tellPlaces(error, calledAt, undefined);
  if (failure.otherCall !== 0) throw error;
  process.emitWarning(error.message, 'MismatchWarning');
}

/** What can be wrong with an argument: ends the sentence that begins with its name. native/addon/errors.h: Reason. */
export const ARGUMENT_REASONS: Readonly<Record<string, ((failure: NativeFailure) => string) | undefined>> = {
  notAView: () => 'must be a typed array, a DataView or a Buffer',
  detached: () => 'its ArrayBuffer is detached',
  resizable: () => 'resizable buffers are not supported: their memory can go away',
  tooSmall: ({ bytes, least }) => `holds ${bytes} bytes, the schedule needs ${least}`,
  overlapsSend: () => 'overlaps send in memory; use IN_PLACE or two buffers',
  notAPlan: () => 'is not a plan of this world',
  notACommunicator: () => 'is not open',
  notInRange: () => 'is out of range',
  notAPeer: () => 'is not a rank of this communicator',
  notATag: () => 'must be 0 to 32767',
  notANumber: () => 'must be a whole number from 0 to 2^32 - 1',
  tooLarge: ({ most }) => `must be at most ${most}`,
  notBytes: () => 'must be a number of bytes',
  notAList: () => 'must be a Uint32Array',
  notAMember: () => 'names a rank that is not in the world',
  notThisProcess: () => 'is not this process in members',
  notAnObject: () => 'must be objects, with a function',
  notAnOption: () => 'is missing, or has a value that native code does not know',
};

const ALREADY_OPEN =
  'init: this process has an open world, perhaps in another thread, and all its threads can have one together. ' +
  'Communicate in the thread that called init() and pass data to it, or start more ranks; or close that world first';

const BUFFERS_IN_USE =
  '; a peer does not answer, and may still read or write the buffers of this request: do not use them again';

const ENDED = 'all ranks of a communicator must call the same collectives, so this one can be used no more';

type Maker = (failure: NativeFailure, prefix: string, context: ErrorContext) => NbcError;

/** The error for each code. `prefix` is the operation that failed, or empty. native/addon/errors.cc: code_of. */
export const ERROR_OF_CODE: Readonly<Record<string, Maker | undefined>> = {
  ERR_NBC_ARGUMENT: (failure, _, context) => {
    const { argument = 'argument', reason = '' } = failure;
    return new ArgumentError(argument, ARGUMENT_REASONS[reason]?.(failure) ?? reason, context);
  },
  ERR_NBC_TRUNCATED: ({ bytesHere, bytesThere, peer }, prefix, context) => {
    const what = `${worldRank(peer)} and this rank disagree about the size of a message`;
    const text = `${prefix}${what}: ${bytesHere} bytes here, ${bytesThere} there`;
    return new TruncatedError(text, { ...context, bytesHere, bytesThere });
  },
  ERR_NBC_CLOSED: (_, prefix, context) => new ClosedError(`${prefix}the world was closed`, context),
  ERR_NBC_NOT_OPEN: (_, __, context) =>
    new ClosedError('there is no open world: call init() first, and not after close()', context),
  ERR_NBC_ALREADY_OPEN: ({ code }, _, context) => new NbcError(code, ALREADY_OPEN, context),
  ERR_NBC_PEER_CLOSED: ({ peer }, prefix, context) =>
    new PeerClosedError(
      `${prefix}${worldRank(peer)} closed its world, or ended, while this request still needed it`,
      context,
    ),
  ERR_NBC_MISMATCH: (failure, prefix, context) => {
    const { detail = '', oneRank, otherRank } = failure;
    if (oneRank === undefined || otherRank === undefined) return new MismatchError(prefix + detail, context);
    const one = { rank: oneRank, signature: failure.oneCall!, bytes: failure.oneBytes };
    const ranks = [oneRank, otherRank] as const;
    const other = { rank: otherRank, signature: failure.otherCall! };
    if (other.signature === 0 || other.signature === one.signature) {
      return new MismatchError(prefix + describeLeftOver(one, other), { ...context, ranks });
    }
    return new MismatchError(`${prefix}${describeMismatch(one, other)}; ${ENDED}`, { ...context, ranks });
  },
  ERR_NBC_SYSTEM: ({ peer, detail }, prefix, context) => {
    const why = detail ?? 'that rank could not; its own error says what was refused, and what to do';
    return new SystemError(`${prefix}moving data between this rank and ${worldRank(peer)} failed: ${why}`, context);
  },
  ERR_NBC_UNREACHABLE: ({ detail = '' }, prefix, context) => new UnreachableError(prefix + detail, context),
  ERR_NBC_ABANDONED: ({ peer, origin, cause }, prefix, context) => {
    const where = origin === undefined ? 'there' : `on ${worldRank(origin)} (${cause})`;
    const what = `gave up a message of this request, because the operation had failed ${where}`;
    return new AbandonedError(`${prefix}${worldRank(peer)} ${what}`, { ...context, origin, reason: cause });
  },
  ERR_NBC_REVOKED: ({ peer = 0 }, prefix, context) =>
    new RevokedError(`${prefix}${worldRank(peer)} has revoked the communicator: close it`, peer, context),
  ERR_NBC_COUNTED_LOST: ({ code, peer }, prefix, context) => {
    const silent = 'this rank did not answer for as long as option peerTimeout says';
    const what = `${prefix}${silent}, so ${worldRank(peer)} has given it up: it can only end`;
    return new PeerLostError(code, 'unreachable', what, context);
  },
  ERR_NBC_OPERATOR: ({ detail = '', thrown }, prefix, context) => {
    const cause = thrown?.value;
    const why = thrown === undefined ? detail : cause instanceof Error ? cause.message : show(cause);
    return new OperatorError(`${prefix}the function of its operator failed: ${why}`, context, thrown && { cause });
  },
  ERR_NBC_TOO_MANY_REQUESTS: ({ code }, prefix, context) =>
    new ExhaustedError(code, `${prefix}more messages are pending than a rank can tell apart (2^22)`, context),
  ERR_NBC_MEMORY: ({ code, detail = '' }, prefix, context) => new ExhaustedError(code, prefix + detail, context),
  ERR_NBC_NO_MEMORY: ({ code, bytes, detail = '' }, _, context) =>
    new ExhaustedError(code, bytes === undefined ? detail : `no ${bytes} bytes of exposed memory: ${detail}`, context),
  ERR_NBC_DESCRIPTORS: ({ detail = '', most }, prefix, context) => outOfDescriptors(prefix + detail, most, context),
  ERR_NBC_SCHEDULE: ({ word, detail }, _, context) => new ScheduleError(`word ${word}: ${detail}`, context),
  ERR_NBC_OPEN: ({ code, detail = '' }, _, context) => new NbcError(code, detail, context),
  ERR_NBC_TRANSPORT: ({ code, detail = '' }, _, context) => new NbcError(code, detail, context),
};

/** The typed error for what native code reports. `prefix` is what the sentence begins with, or empty. */
export function errorFromFailure(failure: NativeFailure, prefix: string, context: ErrorContext = {}): NbcError {
  const { code, peer, errno } = failure;
  const known = { ...context, peer, errno };
  const error =
    ERROR_OF_CODE[code]?.(failure, prefix, known) ?? new NbcError(code, prefix + (failure.detail ?? code), known);
  if (failure.buffersInUse) {
    addSentence(error, BUFFERS_IN_USE);
    Object.assign(error, { buffersInUse: true });
  }
  return error;
}

/** Gives what native code threw its type. What is not an error of this library comes back unchanged. */
export function errorFromNative(thrown: unknown, context?: ErrorContext): unknown {
  if (thrown instanceof NbcError || !(thrown instanceof Error)) return thrown;
  const { code } = thrown as { code?: unknown };
  if (typeof code !== 'string' || !code.startsWith('ERR_NBC_')) return thrown;
  return errorFromFailure(thrown as unknown as NativeFailure, '', context);
}

/** The typed error where the system says that descriptors have run out; what else was thrown comes back unchanged. */
export function errorFromSystem(thrown: unknown, limit: number, context: ErrorContext): unknown {
  const code = thrown instanceof Error ? (thrown as NodeJS.ErrnoException).code : undefined;
  if (code !== 'EMFILE' && code !== 'ENFILE') return thrown;
  return outOfDescriptors((thrown as Error).message, limit, context);
}

function outOfDescriptors(detail: string, limit: number | undefined, context: ErrorContext): NbcError {
  const advice = `this process may have ${limit} descriptors open (ulimit -n), which is too few: raise the limit, to 1024 for example`;
  return new ExhaustedError('ERR_NBC_DESCRIPTORS', `${detail}; ${advice}`, context);
}

function worldRank(peer: number | undefined): string {
  return `rank ${peer} of the world`;
}
