/** Threads that stay for the next run: {@link createRankPool}. */
import { checkSignal, type SignalLike } from './aborts.js';
import { AbortError, ClosedError, type ErrorContext } from './errors.js';
import type { ModuleUrl } from './operators.js';
import { Run } from './rank-run.js';
import type { RankThread } from './rank-thread.js';
import { checkModule, checkObject, checkSize, processorsOf, type RunOptions, settingsOf } from './ranks.js';
import type { Settings } from './transport/options.js';

/** Options of {@link createRankPool}: those of all runs. */
export type RankPoolOptions = Pick<RunOptions, 'size' | 'options' | 'bind'>;

/** Options of {@link RankPool.run}. */
export type PoolRunOptions<Data = unknown> = Pick<RunOptions<Data>, 'data' | 'signal'>;

const CONTEXT: ErrorContext = { operation: 'RankPool.run' };

/**
 * Threads that are the ranks of one run after another: what {@link createRankPool} makes. The first run starts them.
 * Later ones find them with their modules loaded, and what those keep outside their functions.
 */
export class RankPool {
  readonly size: number;
  private readonly settings: Settings;
  private readonly processors: readonly number[];
  /** By rank; those that are not idle are replaced by the next run. */
  private readonly threads: RankThread[] = [];
  /** Settles when the runs that were asked for have ended. */
  private last: Promise<unknown> = Promise.resolve();
  private closed = false;

  /** @internal */
  constructor(size: number, settings: Settings, processors: readonly number[]) {
    this.size = size;
    this.settings = settings;
    this.processors = processors;
  }

  /**
   * As `runRanks()`, on the threads of this pool, in a world of its own. It begins when earlier runs of the pool have
   * ended. After a run that fails or is aborted, the next one starts new threads.
   *
   * @param module the URL of the module: `new URL('./kernel.mjs', import.meta.url)`
   * @returns what the ranks returned, by rank, copied as by `postMessage()`
   * @throws {RankError} of the first rank that failed; the others are ended before
   * @throws {AbortError} if `signal` has fired; all ranks are ended before
   * @throws {ClosedError} if the pool is closed
   * @throws {ArgumentError}
   */
  async run<Result = unknown, Data = unknown>(
    module: ModuleUrl | string,
    options: PoolRunOptions<Data> = {},
  ): Promise<Result[]> {
    const href = checkModule(module, CONTEXT);
    checkObject('options', options, 'with data or a signal', CONTEXT);
    const { data, signal } = options;
    if (signal !== undefined) checkSignal(signal, CONTEXT);
    if (this.closed) throw new ClosedError('RankPool.run: the pool is closed', CONTEXT);
    const { size, settings, processors, threads } = this;
    const run = new Run({ context: CONTEXT, module: href, size, data, settings, processors, signal, pool: threads });
    const before = this.last;
    const results = before.then(() => {
      if (signal?.aborted === true) throw new AbortError(CONTEXT, signal.reason);
      return run.results();
    });
    this.last = results.catch(() => undefined);
    return (await unlessAborted(before, signal).then(() => results)) as Result[];
  }

  /** Ends the threads, when the runs that were asked for have ended. Idempotent. */
  async close(): Promise<void> {
    this.closed = true;
    await this.last;
    await Promise.all(this.threads.splice(0).map((thread) => thread.terminate()));
  }

  /** As {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Rejects at once where the signal fires while that is awaited. @throws {AbortError} */
async function unlessAborted(awaited: Promise<unknown>, signal: SignalLike | undefined): Promise<void> {
  if (signal === undefined) {
    await awaited;
    return;
  }
  let abort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(new AbortError(CONTEXT, signal.reason));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort);
  });
  try {
    await Promise.race([awaited, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/**
 * Makes a pool of threads, on which runs of modules begin without the time to start them. It starts them with its first
 * run. Idle threads do not keep the program from ending.
 *
 * ```ts
 * await using pool = createRankPool({ size: 8 });
 * for (const steps of [10, 100]) await pool.run(new URL('./kernel.mjs', import.meta.url), { data: { steps } });
 * ```
 *
 * @throws {ArgumentError | OptionError}
 */
export function createRankPool(options: RankPoolOptions): RankPool {
  const context: ErrorContext = { operation: 'createRankPool' };
  checkObject('options', options, 'with a size', context);
  checkSize(options.size, context);
  return new RankPool(options.size, settingsOf(options.options, context), processorsOf(options.bind, context));
}
