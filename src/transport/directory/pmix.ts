/** The directory of a launcher that serves PMIx: Open MPI's mpirun, Slurm's srun with --mpi=pmix, and others. */
import { net } from '../../builtins.js';
import { BootstrapError } from '../../errors.js';
import type { Native } from '../../native.js';
import { NEVER, type Stop } from '../stop.js';
import { ranksText } from '../store/server.js';
import type { Directory } from './directory.js';

export interface PmixPlace {
  rank: number;
  size: number;
}

/** Whether the launcher that started this process says that it serves PMIx. */
export function offersPmix(environment: Record<string, string | undefined>): boolean {
  return environment.PMIX_RANK !== undefined && environment.PMIX_NAMESPACE !== undefined;
}

/** The server says itself that the time is up, if it minds the limit that it is told; only if it does not, we do. */
const GRACE_MS = 1000;
/** How long is looked for ranks that are missing. */
const LOOK_SECONDS = 2;
const FAREWELL_MS = 5000;

/** Nobody has answered. */
class Late extends Error {}

/** @param timeout milliseconds @throws {BootstrapError} */
export async function openPmix(native: Native, rank: number, timeout: number, stop: Stop = NEVER): Promise<PmixPlace> {
  try {
    const [own, size] = await answer(native.pmixOpen(), timeout + GRACE_MS, 'PMIx_Init', stop);
    return { rank: Number(own), size: Number(size) };
  } catch (error) {
    throw failure(rank, error);
  }
}

/** Ends it, if it can be. Nobody is harmed if not. */
export async function closePmix(native: Native): Promise<void> {
  await answer(native.pmixClose(), FAREWELL_MS, 'PMIx_Finalize', NEVER).catch(() => undefined);
}

/** After openPmix(), which stays open. @throws {BootstrapError} */
export async function throughPmix<T>(
  native: Native,
  { rank, size }: PmixPlace,
  timeout: number,
  meet: (directory: Directory) => Promise<T>,
  stop: Stop = NEVER,
): Promise<T> {
  const seconds = Math.ceil(timeout / 1000);
  const exchange = async (name: string, mine: unknown): Promise<unknown[]> => {
    const key = `nbc.${name}`;
    try {
      const values = native.pmixExchange(key, JSON.stringify(mine), seconds);
      const all = await answer(
        values,
        seconds * 1000 + GRACE_MS,
        'PMIx_Fence, which waits until all ranks have called init()',
        stop,
      );
      return all.map((text) => JSON.parse(text) as unknown);
    } catch (error) {
      const late = error instanceof Late || (error as Error).message.includes('TIMEOUT');
      const missing = late ? await whoIsMissing(native, key) : [];
      const who = missing.length === 0 ? '' : `; ${ranksText(missing)} of ${size} did not join within ${timeout} ms`;
      throw failure(rank, error, who);
    }
  };
  return meet({ rank, size, key: undefined, localAddress: undefined, exchange });
}

async function whoIsMissing(native: Native, key: string): Promise<number[]> {
  try {
    const limit = LOOK_SECONDS * 1000 + GRACE_MS;
    return (await answer(native.pmixMissing(key, LOOK_SECONDS), limit, 'PMIx_Get', NEVER)).map(Number);
  } catch {
    return [];
  }
}

function failure(rank: number, error: unknown, more = ''): BootstrapError {
  return new BootstrapError(`PMIx: ${(error as Error).message}${more}`, rank);
}

/**
 * What comes from one of native's sockets. When the time limit passes first, this end closes the socket.
 */
async function answer(fd: number, limitMs: number, what: string, stop: Stop): Promise<string[]> {
  const socket = new (net().Socket)({ fd, readable: true, writable: false });
  socket.setEncoding('utf8');
  const limit = setTimeout(() => socket.destroy(new Late(`no answer to ${what}, within ${limitMs} ms`)), limitMs);
  const forget = stop.when((error) => socket.destroy(error));
  try {
    let text = '';
    for await (const part of socket) text += String(part);
    if (!text.startsWith('+')) throw new Error(text.slice(1));
    return text.slice(1).split('\0').slice(0, -1);
  } finally {
    clearTimeout(limit);
    forget();
    socket.destroy();
  }
}
