/**
 * Where nbctop finds the ranks of this user on this machine: a folder with a socket of each (native/addon/monitor.h).
 */
import { lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { threadId } from 'node:worker_threads';
import { os } from './builtins.js';
import { OptionError } from './errors.js';

/** What an address of a socket holds, without the end that native code adds for a moment. */
const MAX_PATH = 103;

/** Where the option `monitor` says that the sockets are; undefined: nowhere. */
export function monitorFolder(setting: string): string | undefined {
  if (setting === 'off') return undefined;
  if (setting !== 'on') return resolve(setting);
  const { XDG_RUNTIME_DIR: own } = process.env;
  return own === undefined || own === ''
    ? join(os().tmpdir(), `node-nbc-${os().userInfo().uid}`)
    : join(own, 'node-nbc');
}

/** Of a rank, by its process; of one that is a thread, by that, too. */
function socketName(pid: number, thread?: number): string {
  return thread === undefined ? `rank-${pid}.sock` : `rank-${pid}-${thread}.sock`;
}

/** The process of a socket; undefined: this is none of a rank. */
export function processOf(name: string): number | undefined {
  const [, digits] = /^rank-(\d+)(?:-\d+)?\.sock$/.exec(name) ?? [];
  return (digits as string | undefined) === undefined ? undefined : Number(digits);
}

/** @throws {Error} if others may enter the folder, or put sockets there */
export function requireOwn(folder: string): void {
  const found = lstatSync(folder);
  if (!found.isDirectory()) throw new Error(`${folder} is no folder`);
  if (found.uid !== os().userInfo().uid) throw new Error(`${folder} belongs to another user`);
  if ((found.mode & 0o077) !== 0) throw new Error(`${folder} is open to other users (chmod 700)`);
}

/**
 * The path of this rank's socket, in a folder that is made if there is none; empty: there is to be no socket. Where the
 * user has named no folder, the job does not fail for that.
 *
 * @param thread the thread is the rank, not the process
 * @throws {OptionError} if the folder that was named cannot be used
 */
export function monitorSocket(setting: string, thread: boolean): string {
  try {
    const folder = monitorFolder(setting);
    if (folder === undefined) return '';
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    requireOwn(folder);
    const path = join(folder, socketName(process.pid, thread ? threadId : undefined));
    if (Buffer.byteLength(path) > MAX_PATH) throw new Error(`${path} is too long for a socket`);
    return path;
  } catch (error) {
    if (setting === 'on') return '';
    throw new OptionError('monitor', `cannot be used: ${(error as Error).message}`, { operation: 'init' });
  }
}

/** After a process has ended, however it did: what its ranks have left. */
export function removeSockets(setting: string, pid: number): void {
  try {
    const folder = monitorFolder(setting);
    if (folder === undefined) return;
    const left = readdirSync(folder).filter((name) => processOf(name) === pid);
    for (const name of left) rmSync(join(folder, name), { force: true });
  } catch {
    // It is not ours, or there is no folder.
  }
}
