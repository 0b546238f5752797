/** The mechanisms that `nbcbench against-node` measures between threads or processes of Node.js. */

export type Pattern = 'round trip' | 'all-to-all';

export interface Mechanism {
  /** Its name in rows and on the command line. */
  name: string;
  /** What it is, in the table. */
  title: string;
  /** A message and its answer between two (side.ts), or a block from each to each of {@link CROWD} (all-to-all.ts). */
  pattern: Pattern;
  /** node-nbc: processes or threads of nbcrun. Otherwise one process of Node.js, which starts its peers. */
  start: 'processes' | 'threads' | 'node';
  /** Whether a thread that waits blocks, or returns to its event loop. */
  waits: 'event loop' | 'blocks';
}

/** How many take part in an all-to-all. */
export const CROWD = 8;

const NBC_AWAIT = 'node-nbc, processes, `await`';
const NBC_WAIT = 'node-nbc, processes, `wait()`';
const THREADS_AWAIT = 'node-nbc, threads, `await`';
const THREADS_WAIT = 'node-nbc, threads, `wait()`';
const MESSAGE = '`postMessage` to a worker, copied';
const TRANSFER = '`postMessage` to a worker, transferred';
const ATOMICS = 'SharedArrayBuffer, `Atomics.wait`';

/** Name, title, start, waits. */
type Entry = readonly [string, string, Mechanism['start'], Mechanism['waits']];

const ROUND_TRIP: readonly Entry[] = [
  ['nbc-await', NBC_AWAIT, 'processes', 'event loop'],
  ['nbc-threads-await', THREADS_AWAIT, 'threads', 'event loop'],
  ['message', MESSAGE, 'node', 'event loop'],
  ['transfer', TRANSFER, 'node', 'event loop'],
  ['socket', 'Unix socket', 'node', 'event loop'],
  ['ipc', '`child_process` IPC', 'node', 'event loop'],
  ['zeromq', 'zeromq, `ipc://`', 'node', 'event loop'],
  ['nbc-wait', NBC_WAIT, 'processes', 'blocks'],
  ['nbc-threads-wait', THREADS_WAIT, 'threads', 'blocks'],
  ['atomics', ATOMICS, 'node', 'blocks'],
];

const ALL_TO_ALL: readonly Entry[] = [
  ['all-nbc-await', NBC_AWAIT, 'processes', 'event loop'],
  ['all-nbc-threads-await', THREADS_AWAIT, 'threads', 'event loop'],
  ['all-message', MESSAGE, 'node', 'event loop'],
  ['all-transfer', TRANSFER, 'node', 'event loop'],
  ['all-nbc-wait', NBC_WAIT, 'processes', 'blocks'],
  ['all-nbc-threads-wait', THREADS_WAIT, 'threads', 'blocks'],
  ['all-atomics', ATOMICS, 'node', 'blocks'],
];

const mechanisms = (pattern: Pattern, entries: readonly Entry[]): Mechanism[] =>
  entries.map(([name, title, start, waits]) => ({ name, title, pattern, start, waits }));

export const MECHANISMS: readonly Mechanism[] = [
  ...mechanisms('round trip', ROUND_TRIP),
  ...mechanisms('all-to-all', ALL_TO_ALL),
];

export type Load = 'quiet' | 'busy';
export const LOADS: readonly Load[] = ['quiet', 'busy'];

/** What one process measured. */
export interface Measured {
  repetitions: number;
  median_us: number;
  p99_us: number;
}
