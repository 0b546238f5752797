/**
 * Limits of time that find hangs: scripts/test/limit.mjs, with its types, and how long they are in tests. They are
 * shorter than the limit of mocha (.mocharc.json). So the helper's limit is hit first, and says what each rank did.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

interface Limits {
  slowness: () => number;
  Limit: new (seconds: number, hit: () => void) => { stop: () => void };
}

const root = dirname(createRequire(import.meta.url).resolve('node-nbc/package.json'));
export const { slowness, Limit } = (await import(join(root, 'scripts/test/limit.mjs'))) as Limits;

/** Seconds of an idle machine. */
export const LIMIT_S = {
  /** until(): something that another process does. */
  wait: 60,
  /** run(): a command. */
  command: 60,
  /** runJob(): a job of ranks. */
  job: 100,
  /** What computes or measures for long. */
  long: 200,
};
