/** What the caller of runRanks() and its threads tell each other. */
import type { MessagePort } from 'node:worker_threads';
import type { RankErrorCode } from './errors.js';
import type { ToldError } from './told-errors.js';
import type { Settings } from './transport/options.js';

/** What a worker is made with. */
export interface WorkerData {
  /** Brings a {@link RankJob}, and the next one when the worker is idle. */
  readonly port: MessagePort;
}

/** What a worker is told of a run. */
export interface RankJob {
  readonly rank: number;
  readonly size: number;
  readonly jobFd: number;
  readonly settings: Settings;
  /** That the thread stays on; undefined: on any. */
  readonly processor: number | undefined;
  readonly module: string;
  /** The same as a path that a thread may require which has loaded nothing else: `requirablePath()` of it. */
  readonly path: string | undefined;
  readonly data: unknown;
  /** The worker waits for another job after this one, if the function returns. */
  readonly stays: boolean;
  /** Words that the threads of the run share: {@link FAILURES}, {@link STOP}. */
  readonly words: Int32Array;
}

/** Counts the failures that ranks tell of: each is told before the rank's end makes others fail. */
export const FAILURES = 0;
/** 1: a rank that has loaded its module ends instead of running it. */
export const STOP = 1;
export const WORDS = 2;

/** What a worker tells of a rank's end. */
export type Told =
  | { readonly result: unknown }
  | { readonly code: RankErrorCode; readonly error: ToldError; readonly order: number }
  | { readonly stopped: true };

/** And before that, where it has loaded its module. */
export type Loaded = 'loaded';

/** And after that, where it waits for another job: the rank's world is closed. */
export type Idle = 'idle';
