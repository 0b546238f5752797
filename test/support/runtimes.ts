/** Where other runtimes are on this machine: in build/runtimes (scripts/runtimes.mjs), or in PATH. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { ROOT } from './launch.js';

export interface Runtime {
  name: string;
  /** Native code holds the memory of buffers; else operations use copies. */
  holdsMemory: boolean;
  /** The beginning of a command line that runs a program, and what makes `gc()` a function in it. */
  command: readonly string[];
  exposeGc: string;
}

/** NBC_RUNTIMES: a folder with the binaries, by these names. */
export const RUNTIMES_FOLDER = process.env['NBC_RUNTIMES'] ?? join(ROOT, 'build/runtimes/bin');

const NODE = { holdsMemory: true, options: [] as string[], exposeGc: '--expose-gc' };

const KNOWN = {
  node20: NODE,
  node22: NODE,
  node24: NODE,
  node26: NODE,
  deno: { holdsMemory: false, options: ['run', '--allow-all'], exposeGc: '--v8-flags=--expose-gc' },
  bun: { holdsMemory: false, options: [], exposeGc: '--expose-gc' },
};

export const RUNTIMES = Object.keys(KNOWN) as (keyof typeof KNOWN)[];

/** The runtime, or why it cannot be tested. */
export function findRuntime(name: keyof typeof KNOWN): Runtime | string {
  const folders = [RUNTIMES_FOLDER, ...(process.env['PATH'] ?? '').split(delimiter)];
  const file = folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (file === undefined)
    return `there is no ${name} in ${RUNTIMES_FOLDER} or PATH (node scripts/runtimes.mjs fetches it)`;
  const { status, stderr } = spawnSync(file, ['--version'], { encoding: 'utf8' });
  if (status !== 0) return `${file} does not run: ${stderr}`;
  const { holdsMemory, options, exposeGc } = KNOWN[name];
  return { name, holdsMemory, command: [file, ...options], exposeGc };
}
