/**
 * What processes do that did not end in time: each thread and where it sleeps in the kernel. Ranks also say which
 * operations and messages are pending (native/addon/hang_report.h).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { commandOf, isAlive } from './processes.js';

/** Of the real-time signals, which Node.js and this project use for nothing else. */
const SIGNAL = 40;
/** In the environment of every rank that a test starts. */
export const REPORT_ENV = { NBC_REPORT_SIGNAL: `${SIGNAL}` };
/** What a rank has to write its report. */
const ANSWER_MS = 1_000;

/** Threads of a process, a line each. */
function threadsOf(pid: number): string[] {
  try {
    const tasks = `/proc/${pid}/task`;
    return readdirSync(tasks).map((thread) => {
      const read = (name: string): string => readFileSync(`${tasks}/${thread}/${name}`, 'latin1').trim();
      const state = /\) (\S)/.exec(read('stat'))?.[1];
      return `  thread ${thread} (${read('comm')}), state ${state}, in the kernel at ${read('wchan')}`;
    });
  } catch {
    return ['  it has just ended'];
  }
}

/**
 * Describes the processes that live, and asks them for their reports, which they write to standard error. Returns when
 * they had time for that. A process that is no rank is ended by the signal.
 */
export async function describeHang(pids: readonly number[]): Promise<string> {
  const living = pids.filter(isAlive);
  const lines = living.flatMap((pid) => [
    `process ${pid}: ${commandOf(pid).replaceAll('\0', ' ').trim()}`,
    ...threadsOf(pid),
  ]);
  for (const pid of living) if (commandOf(pid).includes('/programs/')) process.kill(pid, SIGNAL);
  await new Promise((resolve) => setTimeout(resolve, ANSWER_MS));
  return lines.join('\n');
}
