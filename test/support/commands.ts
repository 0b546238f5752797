/** Runs a command to its end, as a launcher that is no part of this package, and says where a server may listen. */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describeHang, familyOf } from './hang.js';
import { type End, ROOT } from './launch.js';
import { Limit, LIMIT_S } from './limit.js';

/** What makes a process a rank: not inherited from whatever started the tests. */
const OF_A_RANK = /^(NBC_(RANK|SIZE|JOB_FD|STORE|SECRET)$|PMI_|PMIX_|OMPI_COMM_WORLD_|SLURM_)/;

/**
 * Runs a command, and ends it after the time limit, which counts what the machine can do; then `stderr` says what its
 * processes did.
 */
export function run(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  { cwd, limitS = LIMIT_S.command }: { cwd?: string; limitS?: number } = {},
): Promise<End> {
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !OF_A_RANK.test(name)));
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...inherited, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const limit = new Limit(limitS, () => {
      void describeHang(familyOf(child.pid!)).then((text) => {
        stderr += `\nended by the test after ${limitS} s\n${text}\n`;
        child.kill();
      });
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('error', (error) => {
      limit.stop();
      reject(error);
    });
    child.on('close', (code, signal) => {
      limit.stop();
      resolve({ code, signal, stdout, stderr });
    });
  });
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The commands that a guide shows for a shell. */
export function commandsOf(guide: string): string[] {
  const blocks = [...readFileSync(join(ROOT, guide), 'utf8').matchAll(/^```sh\n(.*?)^```/gms)];
  return blocks.flatMap(([, block]) => block.trim().split('\n'));
}

/**
 * A folder in which the commands of guides can be run as they stand: with docs, and a program.mjs that does what
 * `program` does.
 */
export function makeUsersFolder(folder: string, program: string): void {
  mkdirSync(folder, { recursive: true });
  symlinkSync(join(ROOT, 'docs'), join(folder, 'docs'));
  writeFileSync(join(folder, 'program.mjs'), `await import(${JSON.stringify(pathToFileURL(program).href)});\n`);
}
