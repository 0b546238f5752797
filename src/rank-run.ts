/** One run of ranks that are threads: from the job's file to the results, or the first failure. */
import type { SignalLike } from './aborts.js';
import { offerCode } from './code.cjs';
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
import { type Loaded, type RankJob, STOP, type Told, WORDS } from './rank-job.js';
import { requirablePath } from './rank-module.js';
import { type Ended, type RankListener, RankThread } from './rank-thread.js';
import { valueOf } from './told-errors.js';
import type { Settings } from './transport/options.js';

/**
 * Node.js loses the descriptors of files that a thread reads when it is terminated. So a thread that loads its module
 * gets some time to come to an end of that.
 */
const LOAD_MS = 1000;

/** What a run is made with. */
export interface RunSettings {
  /** What the caller has called, for errors. */
  readonly context: ErrorContext;
  readonly module: string;
  readonly size: number;
  readonly data: unknown;
  readonly settings: Settings;
  /** That the ranks are bound to, in turn; none: they are not bound. */
  readonly processors: readonly number[];
  readonly signal: SignalLike | undefined;
  /** Threads, by rank, that are used if they are idle, and that stay for the next run; undefined: none stays. */
  readonly pool: RankThread[] | undefined;
}

export class Run {
  private readonly words = new Int32Array(new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT));
  private readonly threads: RankThread[] = [];
  private readonly loaded = new Set<number>();
  private readonly told = new Map<number, Told>();
  /** Ranks that have ended without having told. */
  private readonly silent = new Map<number, Ended>();
  /** One of these, if its end is the reason for that of the run. */
  private firstSilent: number | undefined;
  private jobFd = -1;
  private path: string | undefined;
  private ending = false;
  private lateLoaders: NodeJS.Timeout | undefined;
  /** Of this thread: a worker could not be started. */
  private failure: unknown;

  constructor(private readonly run: RunSettings) {}

  /** Settles when all threads of the run have ended, or are idle if they stay. After a failure all have ended. */
  async results(): Promise<unknown[]> {
    const { size, signal, context } = this.run;
    const abort = (): void => this.end();
    signal?.addEventListener('abort', abort);
    try {
      this.jobFd = this.createJob();
      await Promise.all(this.start());
      // Those that became idle before they were to end.
      if (this.ending) await Promise.all(this.threads.map((thread) => thread.terminate()));
    } finally {
      signal?.removeEventListener('abort', abort);
      clearTimeout(this.lateLoaders);
      if (this.jobFd >= 0) native.closeDescriptor(this.jobFd);
    }
    if (this.failure !== undefined) throw this.failure as Error;
    const failure = this.firstFailure();
    if (signal?.aborted === true && (failure !== undefined || this.ending))
      throw new AbortError(context, signal.reason);
    if (failure !== undefined) throw failure;
    return Array.from({ length: size }, (_, rank) => (this.told.get(rank) as { result: unknown }).result);
  }

  private createJob(): number {
    const { size, settings, processors, context } = this.run;
    try {
      // The calling thread may be a rank that is bound.
      const bound = processors.length > 0 ? Math.min(processors.length, native.processorQuota()) : undefined;
      return native.createJob(size, settings.exposedBytes, undefined, bound);
    } catch (thrown) {
      throw errorFromSystem(errorFromNative(thrown, context), native.descriptorLimit(), context);
    }
  }

  /** Each settles when its thread is out of the run. */
  private start(): Promise<void>[] {
    const { size, context } = this.run;
    offerCode();
    this.path = requirablePath(this.run.module);
    const ends: Promise<void>[] = [];
    for (let rank = 0; rank < size && !this.ending; rank++) {
      try {
        ends.push(this.launch(rank));
      } catch (error) {
        this.failure = isUncloneable(error)
          ? new ArgumentError('data', `cannot be copied: ${(error as Error).message}`, context)
          : errorFromSystem(error, native.descriptorLimit(), context);
        this.end();
      }
    }
    return ends;
  }

  private launch(rank: number): Promise<void> {
    const { size, settings, module, data, processors, pool } = this.run;
    const { jobFd, path, words } = this;
    const processor = processors.length > 0 ? processors[rank % processors.length] : undefined;
    const place = { rank, size, jobFd, settings, processor };
    const job: RankJob = { ...place, module, path, data, words, stays: pool !== undefined };
    let leave!: () => void;
    const out = new Promise<void>((resolve) => (leave = resolve));
    const listener: RankListener = {
      hear: (told) => this.hear(rank, told),
      left: (ended) => {
        if (ended !== undefined && !this.told.has(rank)) this.fall(rank, ended);
        leave();
      },
    };
    this.threads.push(this.threadFor(job, listener));
    return out;
  }

  private threadFor(job: RankJob, listener: RankListener): RankThread {
    const { pool } = this.run;
    const known = pool?.[job.rank];
    if (known?.isIdle === true) {
      known.begin(job, listener);
      return known;
    }
    const thread = new RankThread(job, listener);
    if (pool !== undefined) pool[job.rank] = thread;
    return thread;
  }

  private hear(rank: number, told: Told | Loaded): void {
    if (told === 'loaded') {
      this.loaded.add(rank);
      if (this.ending) void this.threads[rank].terminate();
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
    for (const rank of this.loaded) void this.threads[rank].terminate();
    if (this.loaded.size === this.threads.length) return;
    this.lateLoaders = setTimeout(() => {
      for (const thread of this.threads) void thread.terminate();
    }, LOAD_MS);
  }

  private firstFailure(): NbcError | undefined {
    const { context } = this.run;
    const { operation } = context;
    if (this.firstSilent !== undefined)
      return endedEarly(context, this.firstSilent, this.silent.get(this.firstSilent)!);
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
    if (lost !== undefined && ended !== undefined) return endedEarly(context, lost, ended);
    const what = code === 'ERR_NBC_RANK_RESULT' ? 'its result cannot be copied: ' : '';
    const why = what + (cause instanceof Error ? cause.message : show(cause));
    return new RankError(code, `${operation}: rank ${rank} failed: ${why}`, { ...context, rank }, { cause });
  }
}

function endedEarly(run: ErrorContext, rank: number, { exitCode, uncaught }: Ended): RankError {
  const context = { ...run, rank };
  const failed = `${run.operation}: rank ${rank} failed`;
  if (uncaught === undefined) {
    const what = `its thread has ended with exit code ${exitCode} before its function returned`;
    return new RankError('ERR_NBC_RANK_ENDED', `${failed}: ${what}`, context);
  }
  const { value } = uncaught;
  const why = value instanceof Error ? value.message : show(value);
  const message = `${failed}: uncaught: ${why}`;
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
