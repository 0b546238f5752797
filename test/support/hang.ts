/** What processes do that did not end in time: scripts/test/hang.mjs, with its types. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

interface Hang {
  /** In the environment of what a test starts: every rank then answers when it is asked what it waits for. */
  REPORT_ENV: Record<string, string>;
  /** A process with all that it has started, as far as that lives. */
  familyOf: (pid: number) => number[];
  /** R running, S sleeping, T stopped, …; undefined if it has gone. */
  stateOf: (pid: number) => string | undefined;
  /** Not if it has ended and its parent has not waited for it. */
  isAlive: (pid: number) => boolean;
  describeHang: (pids: readonly number[]) => Promise<string>;
}

const root = dirname(createRequire(import.meta.url).resolve('node-nbc/package.json'));
const hang = (await import(join(root, 'scripts/test/hang.mjs'))) as Hang;
export const { REPORT_ENV, familyOf, describeHang, isAlive, stateOf } = hang;
