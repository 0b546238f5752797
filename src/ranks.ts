/**
 * Ranks that are threads of this process: {@link runRanks}. Each is a worker (rank-worker.ts) with a world of its own;
 * all share one file (docs/architecture/threads.md).
 */
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { checkSignal, type SignalLike } from './aborts.js';
import type { Communicator } from './communicator.js';
import {
  AbortError,
  ArgumentError,
  type ErrorContext,
  NbcError,
  RankError,
  type RankErrorCode,
  show,
} from './errors.js';
import { native } from './native.js';
import { errorFromNative, errorFromSystem } from './native-errors.js';
import type { ModuleUrl } from './operators.js';
import { type InitOptions, resolveOptions, type Settings } from './transport/options.js';
import { type Loaded, type RankJob, STOP, type Told, WORDS } from './rank-job.js';
import { valueOf } from './told-errors.js';

/** What the module's default export is. */
export type RankFunction<Data = unknown, Result = unknown> = (
  world: Communicator,
  data: Data,
) => Result | PromiseLike<Result>;

/** Options of {@link runRanks}. */
export interface RunOptions<Data = unknown> {
  /** How many ranks. */
  size: number;
  /** Each rank gets a copy, as by `postMessage()`; a SharedArrayBuffer is shared by all. */
  data?: Data | undefined;
  /** An AbortSignal that ends the run. */
  signal?: SignalLike | undefined;
  /** As of `init()`; the transport is shared memory. */
  options?: Omit<InitOptions, 'transport'> | undefined;
}

const OPERATION = 'runRanks';
const CONTEXT: ErrorContext = { operation: OPERATION };
/**
 * Node.js loses the descriptors of files that a thread reads when it is terminated. So a thread that loads its module
 * gets some time to come to an end of that.
 */
const LOAD_MS = 1000;
/** As native/job/segment.h has it: kMaxRanks. */
const MOST_RANKS = 4096;

/**
 * Runs a module on threads of this process, each a rank of one job. Its default export, `async (world, data) =>
 * result`, gets the open communicator of all ranks, which is closed when it returns. Any thread may call this, several
 * times at once.
 *
 * ```ts
 * const sums = await runRanks<number>(new URL('./kernel.mjs', import.meta.url), { size: 8, data: { steps: 100 } });
 * ```
 *
 * @param module the URL of the module: `new URL('./kernel.mjs', import.meta.url)`
 * @returns what the ranks returned, by rank, copied as by `postMessage()`
 * @throws {RankError} of the first rank that failed; the others are ended before
 * @throws {AbortError} if `signal` has fired; all ranks are ended before
 * @throws {ArgumentError}
 */
export async function runRanks<Result = unknown, Data = unknown>(
  module: ModuleUrl | string,
  options: RunOptions<Data>,
): Promise<Result[]> {
  const { href } = checkModule(module);
  const given: unknown = options;
  if (typeof given !== 'object' || given === null)
    throw new ArgumentError('options', `must be an object with a size, not ${show(given)}`, CONTEXT);
  const { size, data, signal, options: ofInit = {} } = options;
  if (!Number.isInteger(size) || size < 1 || size > MOST_RANKS)
    throw new ArgumentError('size', `must be a whole number from 1 to ${MOST_RANKS}, not ${show(size)}`, CONTEXT);
  if (signal !== undefined) checkSignal(signal, CONTEXT);
  const initOptions: unknown = ofInit;
  if (typeof initOptions !== 'object' || initOptions === null)
    throw new ArgumentError('options', `of init() must be an object, not ${show(initOptions)}`, CONTEXT);
  if ('transport' in initOptions)
    throw new ArgumentError('options.transport', 'cannot be chosen: ranks of one process share memory', CONTEXT);
  const settings = { ...resolveOptions({ ...ofInit, transport: 'shm' }), transport: 'shm' as const };
  if (signal?.aborted === true) throw new AbortError(CONTEXT, signal.reason);
  return (await new Run(href, size, data, settings, signal).results()) as Result[];
}

function checkModule(given: unknown): URL {
  if (given instanceof URL) return given;
  if (typeof given === 'string' && URL.canParse(given)) return new URL(given);
  const message = `must be a module's URL, as new URL('./kernel.mjs', import.meta.url), not ${show(given)}`;
  throw new ArgumentError('module', message, CONTEXT);
}

/** How a rank has ended that did not tell. */
interface Ended {
  readonly exitCode: number;
  /** An uncaught exception, if that was it. */
  uncaught?: { readonly value: unknown };
}

class Run {
  private readonly words = new Int32Array(new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT));
  private readonly workers: Worker[] = [];
  private readonly loaded = new Set<number>();
  private readonly told = new Map<number, Told>();
  /** Ranks that have ended without having told. */
  private readonly silent = new Map<number, Ended>();
  /** One of these, if its end is the reason for that of the run. */
  private firstSilent: number | undefined;
  private jobFd = -1;
  private ending = false;
  private lateLoaders: NodeJS.Timeout | undefined;
  /** Of this thread: a worker could not be started. */
  private failure: unknown;

  constructor(
    private readonly module: string,
    private readonly size: number,
    private readonly data: unknown,
    private readonly settings: Settings,
    private readonly signal: SignalLike | undefined,
  ) {}

  /** Settles when all threads of the run have ended. */
  async results(): Promise<unknown[]> {
    const abort = (): void => this.end();
    this.signal?.addEventListener('abort', abort);
    try {
      this.jobFd = this.createJob();
      await Promise.all(this.start());
    } finally {
      this.signal?.removeEventListener('abort', abort);
      clearTimeout(this.lateLoaders);
      if (this.jobFd >= 0) native.closeDescriptor(this.jobFd);
    }
    if (this.failure !== undefined) throw this.failure as Error;
    const failure = this.firstFailure();
    if (this.signal?.aborted === true && (failure !== undefined || this.ending))
      throw new AbortError(CONTEXT, this.signal.reason);
    if (failure !== undefined) throw failure;
    return Array.from({ length: this.size }, (_, rank) => (this.told.get(rank) as { result: unknown }).result);
  }

  private createJob(): number {
    try {
      return native.createJob(this.size, this.settings.exposedBytes);
    } catch (thrown) {
      throw errorFromSystem(errorFromNative(thrown, CONTEXT), native.descriptorLimit(), CONTEXT);
    }
  }

  /** The end of each thread. */
  private start(): Promise<void>[] {
    const ends: Promise<void>[] = [];
    for (let rank = 0; rank < this.size && !this.ending; rank++) {
      try {
        ends.push(this.launch(rank));
      } catch (error) {
        this.failure = isUncloneable(error)
          ? new ArgumentError('data', `cannot be copied: ${(error as Error).message}`, CONTEXT)
          : errorFromSystem(error, native.descriptorLimit(), CONTEXT);
        this.end();
      }
    }
    return ends;
  }

  private launch(rank: number): Promise<void> {
    const { size, jobFd, settings, module, data, words } = this;
    const { port1, port2 } = new MessageChannel();
    const workerData: RankJob = { rank, size, jobFd, settings, module, data, port: port2, words };
    let worker: Worker;
    try {
      const name = `rank ${rank}`;
      worker = new Worker(new URL('./rank-worker.js', import.meta.url), { workerData, transferList: [port2], name });
    } catch (error) {
      port1.close();
      throw error;
    }
    this.workers.push(worker);
    let uncaught: Ended['uncaught'];
    port1.on('message', (told: Told | Loaded) => this.hear(rank, told));
    worker.on('error', (value) => (uncaught = { value }));
    return new Promise((resolve) => {
      worker.on('exit', (exitCode) => {
        // What it has told may not have come by an event yet.
        for (let last; (last = receiveMessageOnPort(port1)) !== undefined;)
          this.hear(rank, last.message as Told | Loaded);
        port1.close();
        if (!this.told.has(rank)) this.fall(rank, { exitCode, ...(uncaught && { uncaught }) });
        resolve();
      });
    });
  }

  private hear(rank: number, told: Told | Loaded): void {
    if (told === 'loaded') {
      this.loaded.add(rank);
      if (this.ending) void this.workers[rank].terminate();
      return;
    }
    this.told.set(rank, told);
    if ('error' in told) this.end();
  }

  /** A rank has ended without a word. If its world was open, that has told the others; if not, nobody has. */
  private fall(rank: number, ended: Ended): void {
    this.silent.set(rank, ended);
    if (!this.ending) this.firstSilent = rank;
    try {
      native.rankEnded(this.jobFd, rank);
    } catch {
      // They are ended anyway.
    }
    this.end();
  }

  private end(): void {
    if (this.ending) return;
    this.ending = true;
    Atomics.store(this.words, STOP, 1);
    for (const rank of this.loaded) void this.workers[rank].terminate();
    if (this.loaded.size === this.workers.length) return;
    this.lateLoaders = setTimeout(() => {
      for (const worker of this.workers) void worker.terminate();
    }, LOAD_MS);
  }

  private firstFailure(): NbcError | undefined {
    if (this.firstSilent !== undefined) return endedEarly(this.firstSilent, this.silent.get(this.firstSilent)!);
    let first: { rank: number; code: RankErrorCode; cause: unknown; order: number } | undefined;
    for (const [rank, told] of this.told) {
      if (!('error' in told) || (first !== undefined && first.order < told.order)) continue;
      first = { rank, code: told.code, cause: valueOf(told.error), order: told.order };
    }
    if (first === undefined) return undefined;
    const { rank, code, cause } = first;
    // A rank that has ended without a word may be heard of later than a peer that failed because of that.
    const lost = lostPeer(cause);
    const ended = lost === undefined ? undefined : this.silent.get(lost);
    if (lost !== undefined && ended !== undefined) return endedEarly(lost, ended);
    const what = code === 'ERR_NBC_RANK_RESULT' ? 'its result cannot be copied: ' : '';
    const why = what + (cause instanceof Error ? cause.message : show(cause));
    return new RankError(code, `${OPERATION}: rank ${rank} failed: ${why}`, { ...CONTEXT, rank }, { cause });
  }
}

function endedEarly(rank: number, { exitCode, uncaught }: Ended): RankError {
  const context = { ...CONTEXT, rank };
  if (uncaught === undefined) {
    const what = `its thread has ended with exit code ${exitCode} before its function returned`;
    return new RankError('ERR_NBC_RANK_ENDED', `${OPERATION}: rank ${rank} failed: ${what}`, context);
  }
  const { value } = uncaught;
  const why = value instanceof Error ? value.message : show(value);
  const message = `${OPERATION}: rank ${rank} failed: uncaught: ${why}`;
  return new RankError('ERR_NBC_RANK_FAILED', message, context, { cause: value });
}

/** The rank by whose end another one failed. */
function lostPeer(cause: unknown): number | undefined {
  if (!(cause instanceof NbcError)) return undefined;
  const { origin } = cause as { origin?: number };
  return origin ?? cause.peer;
}

function isUncloneable(error: unknown): boolean {
  return error instanceof Error && error.name === 'DataCloneError';
}
