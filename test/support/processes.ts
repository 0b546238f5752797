/** What /proc tells about processes: who is alive, whose child, and who holds the memory of a job. */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { isAlive } from './hang.js';

/** Gone processes answer undefined: they may go at any moment. */
function ask<T>(question: () => T): T | undefined {
  try {
    return question();
  } catch {
    return undefined;
  }
}

/** Kills a process, if it is still there. */
export const kill = (pid: number): void => void ask(() => process.kill(pid, 'SIGKILL'));

function everyone(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter(isAlive);
}

/** Living processes that have this text in the environment that they were started with. */
export function processesWith(mark: string): number[] {
  return everyone().filter((pid) => ask(() => readFileSync(`/proc/${pid}/environ`, 'latin1'))?.includes(mark) ?? false);
}

export function childrenOf(pid: number): number[] {
  const text = ask(() => readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1')) ?? '';
  return text.split(' ').filter(Boolean).map(Number);
}

export const commandOf = (pid: number): string => ask(() => readFileSync(`/proc/${pid}/cmdline`, 'latin1')) ?? '';

/** The inode of the job's shared file, as a process sees it that has it open as descriptor 3. */
export const jobInode = (pid: number): number => statSync(`/proc/${pid}/fd/3`).ino;

/** Living processes that have the file with this inode open or mapped. Without any, its memory is free. */
export function holdersOf(inode: number): number[] {
  const mapped = new RegExp(`^\\S+ \\S+ \\S+ \\S+ ${inode} +/memfd:`, 'm');
  return everyone().filter((pid) => {
    const maps = ask(() => readFileSync(`/proc/${pid}/maps`, 'latin1')) ?? '';
    if (mapped.test(maps)) return true;
    const descriptors = ask(() => readdirSync(`/proc/${pid}/fd`)) ?? [];
    return descriptors.some((fd) => {
      const path = `/proc/${pid}/fd/${fd}`;
      return ask(() => readlinkSync(path).startsWith('/memfd:') && statSync(path).ino === inode) ?? false;
    });
  });
}

/** Names in the file system under which a process has memory mapped that it shares and may write. */
export function namedSharedMemory(pid: number): string[] {
  const maps = readFileSync(`/proc/${pid}/maps`, 'latin1');
  const paths = [...maps.matchAll(/^\S+ .w.s \S+ \S+ \d+ +(.*)$/gm)].map(([, path]) => path);
  return paths.filter((path) => !path.endsWith(' (deleted)'));
}
