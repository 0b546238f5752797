/** What the caller of runRanks() and its threads tell each other. */
import type { MessagePort } from 'node:worker_threads';
import type { RankErrorCode } from './errors.js';
import type { ToldError } from './told-errors.js';
import type { Settings } from './transport/options.js';

/** What a worker is told. */
export interface RankJob {
  readonly rank: number;
  readonly size: number;
  readonly jobFd: number;
  readonly settings: Settings;
  readonly module: string;
  readonly data: unknown;
  readonly port: MessagePort;
  /** Words that the threads of the run share: {@link FAILURES}, {@link STOP}. */
  readonly words: Int32Array;
}

/** Counts the failures that ranks tell of: each is told before the rank's end makes others fail. */
export const FAILURES = 0;
/** 1: a rank that has loaded its module ends instead of running it. */
export const STOP = 1;
export const WORDS = 2;

/** What a worker tells of its end. */
export type Told =
  | { readonly result: unknown }
  | { readonly code: RankErrorCode; readonly error: ToldError; readonly order: number }
  | { readonly stopped: true };

/** And before that, where it has loaded its module. */
export type Loaded = 'loaded';
