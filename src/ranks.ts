/**
 * Ranks that are threads of this process: {@link runRanks}. Each is a worker (rank-worker.ts) with a world of its own;
 * all share one file (docs/architecture/threads.md).
 */
import { checkSignal, type SignalLike } from './aborts.js';
import type { Communicator } from './communicator.js';
import { AbortError, ArgumentError, type ErrorContext, show } from './errors.js';
import type { ModuleUrl } from './operators.js';
import { native } from './native.js';
import { Run } from './rank-run.js';
import { type InitOptions, resolveOptions, type Settings } from './transport/options.js';

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
  /**
   * `core`: rank i stays on the i-th of the processors that this process may use, in turn. `none`, the default: the
   * system decides.
   */
  bind?: 'core' | 'none' | undefined;
}

const CONTEXT: ErrorContext = { operation: 'runRanks' };
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
  const href = checkModule(module, CONTEXT);
  checkObject('options', options, 'with a size', CONTEXT);
  const { size, data, signal, options: ofInit, bind } = options;
  checkSize(size, CONTEXT);
  if (signal !== undefined) checkSignal(signal, CONTEXT);
  const settings = settingsOf(ofInit, CONTEXT);
  const processors = processorsOf(bind, CONTEXT);
  if (signal?.aborted === true) throw new AbortError(CONTEXT, signal.reason);
  const run = new Run({ context: CONTEXT, module: href, size, data, settings, processors, signal, pool: undefined });
  return (await run.results()) as Result[];
}

/** @throws {ArgumentError} */
export function checkModule(given: unknown, context: ErrorContext): string {
  if (given instanceof URL) return given.href;
  if (typeof given === 'string' && URL.canParse(given)) return new URL(given).href;
  const message = `must be a module's URL, as new URL('./kernel.mjs', import.meta.url), not ${show(given)}`;
  throw new ArgumentError('module', message, context);
}

/** @throws {ArgumentError} */
export function checkObject(argument: string, given: unknown, what: string, context: ErrorContext): void {
  if (typeof given === 'object' && given !== null) return;
  throw new ArgumentError(argument, `must be an object ${what}, not ${show(given)}`, context);
}

/** @throws {ArgumentError} */
export function checkSize(size: unknown, context: ErrorContext): void {
  if (Number.isInteger(size) && (size as number) >= 1 && (size as number) <= MOST_RANKS) return;
  throw new ArgumentError('size', `must be a whole number from 1 to ${MOST_RANKS}, not ${show(size)}`, context);
}

/** Those that ranks are bound to, in turn. None: they are not bound. @throws {ArgumentError} */
export function processorsOf(bind: unknown, context: ErrorContext): readonly number[] {
  if (bind === undefined || bind === 'none') return [];
  if (bind === 'core') return native.allowedProcessors();
  throw new ArgumentError('bind', `must be 'core' or 'none', not ${show(bind)}`, context);
}

/** Of all ranks, by the options of init(). @throws {ArgumentError | OptionError} */
export function settingsOf(given: RunOptions['options'] = {}, context: ErrorContext): Settings {
  checkObject('options', given, 'with options of init()', context);
  if ('transport' in given)
    throw new ArgumentError('options.transport', 'cannot be chosen: ranks of one process share memory', context);
  return { ...resolveOptions({ ...given, transport: 'shm' }), transport: 'shm' };
}
