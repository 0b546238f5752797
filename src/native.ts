/**
 * The native surface, declared and documented in one place. This is the only file that loads the addon.
 *
 * Callers have checked arguments before, with readable errors. Native code checks them again, so that no call can crash
 * the process. Failures throw an `Error` with the properties of a {@link NativeFailure}.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ADDON, ROOT } from './binaries.js';
import type { Stats } from './counters.js';
import { NbcError, type NativeAwaited } from './errors.js';
import type { NativeFailure } from './native-errors.js';
import type { ElementType } from './schedules/encoding.js';

/** Values of one entry of the state table: what became of the request in that slot. Written by native code only. */
export const SlotState = {
  /** Started and not complete. */
  PENDING: 0,
  /** Complete; its buffers are the user's again. */
  DONE: 1,
  /** Any value from here on is an error: native/error.h has them, and {@link Native.explain} tells. */
  FIRST_ERROR: 2,
} as const;

/** The place of this process in its job. */
export interface NativeJob {
  rank: number;
  size: number;
  /** Descriptor of the job's anonymous shared file, or -1 for a job of one rank. Native code duplicates it. */
  jobFd: number;
  /** What carries messages between ranks; 'auto' decides for each pair of ranks. */
  transport: 'auto' | 'shm' | 'tcp' | 'verbs' | 'ucx';
  /** For 'auto': ranks with equal ones are on one host. Empty: this machine. At most 127 bytes. */
  host: string;
  /** How many ranks the process has, each of which is a thread; 0: the process is the rank. */
  threads?: number | undefined;
  /** A launcher started the job, and may ask what its ranks wait for. */
  launched: boolean;
  /**
   * Where all ranks are, if any rank is reached by TCP, or connects by it: with 'tcp', and in a job whose ranks met,
   * with 'verbs' and 'ucx', and with 'auto' on several hosts.
   */
  tcp?: NativeTcp | undefined;
  /** By which network each rank is reached, with 'auto' in a job on several hosts. */
  ways?: readonly Way[] | undefined;
  /** Why not by verbs, by rank; '': for no reason. Native code has no use for it. */
  reasons?: readonly string[] | undefined;
  /**
   * Process ids of ranks that share memory with this one, by rank; 0: not to be watched. When one ends, its rank has
   * left.
   */
  neighbours?: number[] | undefined;
}

/**
 * What carries messages to a rank, as option `transport` names it. 'unknown': with 'auto' its host decides, and it has
 * not opened its world yet.
 */
export type Network = 'shm' | 'tcp' | 'verbs' | 'ucx' | 'unknown';

/** 'none': this rank, and those of its host. */
export type Way = 'none' | 'tcp' | 'verbs';

/** Where all ranks are; lists have an element for each. */
export interface NativeTcp {
  /** This rank's listening socket, of {@link Native.listenTcp}. open() takes it over, also if it throws. */
  listener: number;
  /** Numeric addresses, without ports. */
  addresses: string[];
  ports: number[];
  /** On a rank that reaches some by TCP and others by verbs: where those listen, and its own socket for them. */
  cards?: { listener: number; ports: number[] } | undefined;
  /** Equal numbers: ranks on one machine. */
  hosts: number[];
  /** How many there are for the ranks on this machine. */
  processors: number;
  /** What connections prove that they know. */
  secret: string;
}

export type VerbsOffer = { device: string; offer: string; why?: undefined } | { offer?: undefined; why: string };

/** Options that native code reads, by their names in the table of transport/options.ts. It must have all of them. */
export type NativeOptions = Record<string, string | number | boolean>;

/** A piece of a reduction, for the function of an operator. */
export interface Reduction {
  ticket: number;
  /** Slot of the request. */
  slot: number;
  /** {@link Op.id} */
  operator: number;
  type: ElementType;
  /** Copies of the operands. The result goes into `b`. */
  a: ArrayBuffer;
  b: ArrayBuffer;
}

/** What has happened in a world: the lists of native/engine/trace.h, eight numbers an event. */
export interface NativeTrace {
  /** Calls of the library's thread. */
  calls: Float64Array;
  /** Operations, messages, and what the progress thread did. */
  events: Float64Array;
  /** Of operations; events have their places in this list. */
  names: string[];
  /** Events for which there was no room. */
  leftOut: number;
}

/** Names that native code shares with tables in TypeScript; tests compare them. */
export interface NativeNames {
  /** Options that it reads: transport/options.ts. */
  options: string[];
  /** Counters: counters.ts. */
  counters: string[];
  /** What can be wrong with an argument: ARGUMENT_REASONS in native-errors.ts. */
  reasons: string[];
  /** Codes of failed requests: ERROR_OF_CODE in native-errors.ts. */
  errors: string[];
}

export interface Native {
  /**
   * Creates the anonymous shared file of a job of `size` ranks; returns its descriptor (for nbcrun to hand to its
   * ranks). `exposedBytes`: what each rank can expose; 0: what the machine and the limit of address space allow.
   * `members`: the ranks that share it, ascending (default: all). `processors`: how many they have (default: as many as
   * this thread may use, within the quota).
   */
  createJob(size: number, exposedBytes: number, members?: readonly number[], processors?: number): number;
  /** What the ranks of a job's file have: processors together, as its maker knew, and each this exposed memory. */
  jobSharing(jobFd: number): { processors: number; exposedBytes: number };
  /** The numbers of those that the process may use, ascending. Empty if the system does not say. */
  allowedProcessors(): number[];
  /** So many the control groups let the process keep busy, at least one. Very many: there is no limit. */
  processorQuota(): number;
  /** Called by a process that saw a rank end: marks the rank closed in the job, and wakes the waiting ranks. */
  rankEnded(jobFd: number, rank: number): void;
  /**
   * Says in the job's file that this rank is reached without it. Returns a rank that has opened in the file and is
   * reached by it, or -1 if none has yet.
   */
  declareElsewhere(jobFd: number, rank: number): number;
  /** Closes a descriptor that native code has opened. (In Deno, `node:fs` closes only those that it has opened.) */
  closeDescriptor(fd: number): void;
  /** How many descriptors this process may have open. */
  descriptorLimit(): number;
  /**
   * Throws ERR_NBC_ALREADY_OPEN if this thread has an open world, or, unless the thread is a rank by itself, this
   * process.
   */
  checkNoneOpen(thread: boolean): void;
  /** From now on the calling thread, and those it starts, run on that processor only. */
  bindThread(processor: number): void;
  /**
   * The PMIx client of this process: its rank and the size of the job; what all ranks tell under a name, each once; the
   * ranks that have not told anything under it, as far as can be found out in a time; and its end, which is refused
   * while another call waits.
   *
   * Each returns the descriptor of a socket, which the caller closes, from which the answer comes, which may be never:
   * '+' and texts with '\0' behind each, or '-' and a message.
   */
  pmixOpen(): number;
  pmixExchange(name: string, value: string, seconds: number): number;
  pmixMissing(name: string, seconds: number): number;
  pmixClose(): number;
  /**
   * The device that this rank would take with transport 'verbs', and a text by which others know whether they reach it;
   * or why there is none. `turn`: the number of the rank on its machine.
   */
  verbsOffer(options: NativeOptions, turn: number): VerbsOffer;
  /** Why two ranks with these offers do not reach each other; '': they do. Both come to the same answer. */
  whyNotByVerbs(mine: string, theirs: string, peer: string, device: string): string;
  /** Listens at a numeric address, at a port that is free. Close the descriptor if no world takes it over. */
  listenTcp(address: string): { fd: number; port: number };
  /**
   * Opens this process's rank. One world per process at a time (ERR_NBC_ALREADY_OPEN). `onCompletions` is called from
   * the event loop when watched requests may have ended: look. Returns the state table: entry i is the state of the
   * request in slot i. Its ArrayBuffer has two more tables behind it: the exchange of `look` (numbers of slots, uint32
   * each) and, for each slot, how many bytes the last receive in it has received (float64). Then come how many
   * reductions `takeReduction` has (int32), and the number of the world in this process (uint32).
   */
  open(job: NativeJob, options: NativeOptions, onCompletions: () => void): Int32Array;
  /**
   * Ends the world: pending requests become CLOSED, the progress thread ends, later calls throw ERR_NBC_NOT_OPEN.
   * Idempotent. Returns a mismatch of calls that no request has told of (as {@link freeCommunicator} does).
   */
  close(): NativeFailure | undefined;
  /** An ArrayBuffer in this rank's exposed memory, zeroed. Freed by garbage collection. Throws ERR_NBC_NO_MEMORY. */
  alloc(bytes: number): ArrayBuffer;

  /**
   * Makes a communicator. `members[i]` is the world rank of rank i; `rank` is ours. `contextHigh/Low` (uint32 each) is
   * the id that all members agreed on; each communicator also owns the neighbouring point-to-point context. Returns a
   * handle.
   */
  createCommunicator(members: Uint32Array, rank: number, contextHigh: number, contextLow: number): number;
  freeCommunicator(communicator: number): NativeFailure | undefined;
  /** Ends it on all its ranks: what is pending fails there, and what is started later, with ERR_NBC_REVOKED. */
  revokeCommunicator(communicator: number): void;

  /**
   * Validates an encoded schedule completely (ERR_NBC_SCHEDULE names the word and the reason) and compiles it. Returns
   * a handle. `messages`: its transfers are point-to-point messages, at most one each way; for `startMessages` and
   * `prepareMessages`. `operator`: what the operator USER stands for; 0: it may not be used. `inWorker`: its function
   * runs in a worker, not on this thread. `name`: of the operation, for traces and reports. `signature`: what the ranks
   * that call it together must agree in (signatures.ts). `bytes`: what the caller names as its size, for texts.
   */
  compile(
    communicator: number,
    words: Uint32Array,
    messages?: boolean,
    operator?: number,
    inWorker?: boolean,
    name?: string,
    signature?: number,
    bytes?: number,
  ): number;
  /** Gives a plan back; operations in flight keep it until they end. */
  releasePlan(plan: number): void;
  /**
   * Another handle of a plan, which `start` and `prepare` run on these buffers whatever they are given. It holds their
   * memory until `releasePlan`, also if it is detached. -1: these buffers cannot be held.
   */
  bindPlan(plan: number, send: ArrayBufferView | null, receive: ArrayBufferView | null): number;

  /**
   * Starts a plan as the next collective of its communicator. `send`/`receive` are the buffers of those roles, or null
   * where the schedule does not use the role (views; each must hold at least the bytes that the schedule declares).
   * `slot` is a free slot chosen by the caller. Returns true if the operation is already complete (the slot is then
   * untouched and free at once).
   */
  start(plan: number, slot: number, send: ArrayBufferView | null, receive: ArrayBufferView | null): boolean;
  /** As `start`, of a plan for messages. They meet those of `isend` and `irecv` with the same tags. */
  startMessages(
    plan: number,
    slot: number,
    send: ArrayBufferView | null,
    receive: ArrayBufferView | null,
    sendTag: number,
    receiveTag: number,
  ): boolean;
  /** Point-to-point send to / receive from communicator rank `peer`, tag 0…32767. Return value as in `start`. */
  isend(communicator: number, slot: number, view: ArrayBufferView, peer: number, tag: number): boolean;
  irecv(communicator: number, slot: number, view: ArrayBufferView, peer: number, tag: number): boolean;

  /**
   * As `start`, `startMessages`, `isend` and `irecv`, but nothing starts: the slot is taken, and holds plan and buffers
   * until `release`. The plan of a collective gets its place among the persistent ones of its communicator.
   */
  prepare(plan: number, slot: number, send: ArrayBufferView | null, receive: ArrayBufferView | null): void;
  prepareMessages(...start: Parameters<Native['startMessages']>): void;
  prepareSend(communicator: number, slot: number, view: ArrayBufferView, peer: number, tag: number): void;
  prepareRecv(communicator: number, slot: number, view: ArrayBufferView, peer: number, tag: number): void;
  /** Starts what was prepared in the slot and is not active. True: it is complete already. */
  restart(slot: number): boolean;
  release(slot: number): void;
  /**
   * Whether operations use copies of plain buffers: this runtime does not let native code hold their memory. Then
   * `collect` writes what the ended request in a slot has received into its buffer. False: that has been detached, and
   * the data is lost. Once for each request, before anybody is told of its end.
   */
  readonly copiesBuffers: boolean;
  collect(slot: number): boolean;

  /** The next piece of a reduction whose function runs on this thread; null: none waits. */
  takeReduction(): Reduction | null;
  /** The threads of this process, as the kernel numbers them. */
  listThreads(): Int32Array;
  /**
   * The worker of an operator is one of the threads that were not there `before`. If those end before `serveOperator`,
   * the operator's reductions fail: calls that wait or test see it, without the event loop.
   */
  awaitThread(world: number, operator: number, before: Int32Array): void;
  /** From now on the function of an operator runs on this thread. When the thread ends, its reductions fail. */
  serveOperator(world: number, operator: number): void;
  /** Blocks until there is a piece of a reduction for this operator. Null: the world was closed. */
  awaitReduction(world: number, operator: number): Reduction | null;
  /**
   * The function has computed `b`; with a reason, it has failed. Detaches both operands. On the thread of the world
   * this is also a pass of progress.
   */
  endReduction(
    world: number,
    operator: number,
    ticket: number,
    a: ArrayBuffer,
    b: ArrayBuffer,
    reason: string | undefined,
  ): void;
  /** The function of an operator cannot be had: its reductions fail, now and later. */
  failOperator(world: number, operator: number, reason: string): void;
  /** Every awaitReduction() returns null, and what was taken fails: the process is about to end. */
  dismissOperators(): void;

  /** One pass of progress. Look at the state table afterwards. */
  test(): void;
  /**
   * Drives progress until the slot is not PENDING (true) or `timeoutMs` passed (false). Negative: no limit. Also false
   * if a reduction waits for `takeReduction`; so do the other two.
   */
  wait(slot: number, timeoutMs: number): boolean;
  /** Until at least one of the slots is not PENDING: true; time-out: false. */
  waitAny(slots: Int32Array, timeoutMs: number): boolean;
  /** Until none of the slots is PENDING: true; time-out: false. */
  waitAll(slots: Int32Array, timeoutMs: number): boolean;
  /**
   * LibOF's OF_Startall: drives the sends of these requests together until none waits for an RTR or `microseconds`
   * passed.
   */
  startall(slots: Int32Array, microseconds: number): void;

  /**
   * Watches the requests in the first `count` slots of the exchange (see `open`), then makes progress until a watched
   * request has ended, at most so long; 0: one pass. Writes slots of watched requests that have ended into the
   * exchange, and returns how many; if it is full, there may be more.
   */
  look(count: number, microseconds: number): number;
  /**
   * Before control goes back to the event loop: whatever ends from now on calls `onCompletions`. False: something has
   * ended, so look again instead.
   */
  rest(): boolean;
  /** Whether the world keeps the event loop alive. Initially not. */
  setKeepAlive(on: boolean): void;
  /** Why the request in a slot failed. Valid until the slot is used again. */
  explain(slot: number): NativeFailure;
  /** What the request in a slot waits for. */
  awaited(slot: number): NativeAwaited;

  /** What has happened since open(), if option `traceEvents` is not 0. */
  trace(): NativeTrace;
  /** Counters since open(). */
  stats(): Stats;
  /** What carries messages to each rank of the world. */
  networks(): Network[];
  /**
   * A clock, and how long this thread was in calls that wait since the first call of this, in milliseconds. From that
   * call on, waits read the clock.
   */
  metered(): { time: number; waited: number };
  names(): NativeNames;
}

/** What to do when the addon cannot be loaded. */
const ADVICE =
  'the native part of node-nbc is missing or does not run here.\n' +
  '  The package brings it for Linux with glibc 2.28 or newer, on x64 and arm64. Elsewhere build it, with g++ and make:\n' +
  `  make -C ${join(ROOT, 'native')}`;

export const native = load();

function load(): Native {
  try {
    // What an addon exports is a dictionary to V8, and each call would look its function up there. A prototype is not:
    // a start and a wait of one rank took 275 ns, and take 232 (ibcast).
    return Object.create(createRequire(import.meta.url)(ADDON) as Native) as Native;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ERR_DLOPEN_DISABLED')
      throw new NbcError(
        'ERR_NBC_NO_ADDON',
        'node-nbc has a native part, which the permission model of Node.js keeps from being loaded: allow it with ' +
          '--allow-addons.',
        {},
        { cause },
      );
    throw new NbcError('ERR_NBC_NO_ADDON', `${ADVICE}\n  ${message.split('\n')[0]}`, {}, { cause });
  }
}
