/** Runs a command to its end, as a launcher that is no part of this package, and says where a server may listen. */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type ListenOptions, type Server } from 'node:net';
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

/**
 * A port that nobody else takes before, or after, who is told it listens there: the kernel gives none of these to those
 * who do not care, and no other test takes it as long as this process lives.
 */
export async function freePort(): Promise<number> {
  const [lowest] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t').map(Number);
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * ((lowest > FIRST_PORT ? lowest : 32_768) - FIRST_PORT));
    // A name that ends with this process.
    if (!(await listens({ path: `\0nbc-test-port-${port}` }))) continue;
    const other = await listens({ port });
    if (!other) continue;
    await new Promise((resolve) => other.close(resolve));
    return port;
  }
}

/** Above those of the usual services. */
const FIRST_PORT = 10_000;

/** Undefined if somebody else listens there. */
function listens(where: ListenOptions): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer().unref();
    server.once('error', () => resolve(undefined));
    server.listen(where, () => resolve(server));
  });
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
