/** The mechanisms that `nbcbench against-node` measures: round trips between two threads or processes of Node.js. */

export interface Mechanism {
  /** Its name in rows and on the command line. */
  name: string;
  /** What it is, in the table. */
  title: string;
  /** node-nbc: two ranks of nbcrun. Otherwise one process, which starts its peer. */
  ours: boolean;
  /** Whether a thread that waits for an answer blocks, or returns to its event loop. */
  waits: 'event loop' | 'blocks';
}

export const MECHANISMS: readonly Mechanism[] = [
  { name: 'nbc-await', title: 'node-nbc, `await`', ours: true, waits: 'event loop' },
  { name: 'message', title: '`postMessage` to a worker, copied', ours: false, waits: 'event loop' },
  { name: 'transfer', title: '`postMessage` to a worker, transferred', ours: false, waits: 'event loop' },
  { name: 'socket', title: 'Unix socket', ours: false, waits: 'event loop' },
  { name: 'ipc', title: '`child_process` IPC', ours: false, waits: 'event loop' },
  { name: 'zeromq', title: 'zeromq, `ipc://`', ours: false, waits: 'event loop' },
  { name: 'nbc-wait', title: 'node-nbc, `wait()`', ours: true, waits: 'blocks' },
  { name: 'atomics', title: 'SharedArrayBuffer, `Atomics.wait`', ours: false, waits: 'blocks' },
];

export type Load = 'quiet' | 'busy';
export const LOADS: readonly Load[] = ['quiet', 'busy'];

/** What one process measured. */
export interface Measured {
  repetitions: number;
  median_us: number;
  p99_us: number;
}
