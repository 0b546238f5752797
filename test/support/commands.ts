/** Runs a command to its end, as a launcher that is no part of this package, and says where a server may listen. */
import { spawn } from 'node:child_process';
import { createServer, type AddressInfo } from 'node:net';
import type { End } from './launch.js';

export const LIMIT_MS = 60_000;

/** What makes a process a rank: not inherited from whatever started the tests. */
const OF_A_RANK = /^(NBC_(RANK|SIZE|JOB_FD|STORE|SECRET)$|PMI_|PMIX_|OMPI_COMM_WORLD_|SLURM_)/;

/** Runs a command, and ends it after the time limit. */
export function run(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<End> {
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !OF_A_RANK.test(name)));
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env: { ...inherited, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LIMIT_MS,
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
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
