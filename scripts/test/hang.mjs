/**
 * What processes do that did not end in time: each thread, and where it sleeps in the kernel. Ranks also say which
 * operations and messages are pending (native/addon/reporter.h).
 */
import { readdirSync, readFileSync } from 'node:fs';

/** Of the real-time signals, which Node.js and this project use for nothing else. */
const SIGNAL = 40;
/** In the environment of what a test starts: every rank then answers the signal. */
export const REPORT_ENV = { NBC_REPORT_SIGNAL: `${SIGNAL}` };
/** What a rank has to write its report. */
const ANSWER_MS = 1_000;

/** The text of a file below /proc; empty if the process has gone. */
function read(...path) {
  try {
    return readFileSync(['/proc', ...path].join('/'), 'latin1').trim();
  } catch {
    return '';
  }
}

/** The state letter of a process or of one of its threads; undefined if it has gone. */
export const stateOf = (...task) => /\) (\S)/.exec(read(...task, 'stat'))?.[1];
/** Not if it has ended and its parent has not waited for it. */
export const isAlive = (pid) => !['Z', 'X', undefined].includes(stateOf(pid));

function tasksOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** A process with all that it has started, as far as that lives. Any of its threads may have started a process. */
export function familyOf(pid) {
  const children = tasksOf(pid).flatMap((task) => read(pid, 'task', task, 'children').split(' ').filter(Boolean));
  return [pid, ...children.map(Number).flatMap(familyOf)];
}

/** Whether a process catches the signal: it would end any other process. */
function catches(pid) {
  const mask = /^SigCgt:\s*(\w+)/m.exec(read(pid, 'status'))?.[1] ?? '0';
  return (BigInt(`0x${mask}`) >> BigInt(SIGNAL - 1)) % 2n === 1n;
}

/** Describes the processes that live, and asks the ranks for their reports. Returns when they had time for that. */
export async function describeHang(pids) {
  const living = pids.filter(isAlive);
  const lines = living.flatMap((pid) => [
    `process ${pid}: ${read(pid, 'cmdline').replaceAll('\0', ' ').trim()}`,
    ...tasksOf(pid).map((task) => {
      const [name, place] = ['comm', 'wchan'].map((file) => read(pid, 'task', task, file));
      return `  thread ${task} (${name}), state ${stateOf(pid, 'task', task)}, in the kernel at ${place}`;
    }),
  ]);
  for (const pid of living.filter(catches)) {
    try {
      process.kill(pid, SIGNAL);
    } catch {
      // it has just ended
    }
  }
  await new Promise((resolve) => setTimeout(resolve, ANSWER_MS));
  return lines.join('\n');
}
