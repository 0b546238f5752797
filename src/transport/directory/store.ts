/**
 * The directory that is a store of ours. Rank 0 opens it at its address, unless a launcher has opened it there or the
 * address is another machine's.
 */
import { BootstrapError } from '../../errors.js';
import { AGAIN_MS, StoreClient, type StoreClientOptions, timeLeft } from '../store/client.js';
import { NEVER } from '../stop.js';
import { StoreServer } from '../store/server.js';
import type { Directory } from './directory.js';

/**
 * Joins the job, and leaves the store when `meet` has done what needs it.
 * @throws {BootstrapError}
 */
export async function throughStore<T>(
  options: StoreClientOptions,
  meet: (directory: Directory) => Promise<T>,
): Promise<T> {
  const end = performance.now() + options.timeout;
  const server = options.rank === 0 ? await openHere(options, end) : undefined;
  const hint =
    server === 'taken' ? `; rank 0 could not open its store there, because port ${options.port} is taken` : undefined;
  return throughOpened(typeof server === 'object' ? server : undefined, { ...options, hint }, end, meet);
}

async function throughOpened<T>(
  server: StoreServer | undefined,
  options: StoreClientOptions,
  end: number,
  meet: (directory: Directory) => Promise<T>,
): Promise<T> {
  try {
    const client = await StoreClient.open(options);
    try {
      const result = await meet(directoryOf(client, options));
      await client.done();
      // A program may keep the event loop busy from now on; the others must have got theirs before.
      if (server !== undefined) await (options.stop ?? NEVER).within(timeLeft(end), server.finished());
      return result;
    } finally {
      client.close();
    }
  } catch (error) {
    // The others should learn which rank it was, and not only that the store has gone.
    server?.endedEarly(options.rank);
    throw error;
  } finally {
    server?.close();
  }
}

function directoryOf(client: StoreClient, { rank, size }: StoreClientOptions): Directory {
  return {
    rank,
    size,
    key: client.key,
    localAddress: client.localAddress,
    exchange: (name, mine) => client.exchange(name, mine),
  };
}

/** @returns 'taken': something listens there, probably the store; 'elsewhere': it is another machine's address */
async function openHere(options: StoreClientOptions, end: number): Promise<StoreServer | 'taken' | 'elsewhere'> {
  const { host, port, rank } = options;
  for (;;) {
    try {
      return await StoreServer.open(options);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'EADDRINUSE') return 'taken';
      if (code === 'EADDRNOTAVAIL') return 'elsewhere';
      // A name may appear late.
      if (code !== 'ENOTFOUND' && code !== 'EAI_AGAIN')
        throw new BootstrapError(`the store cannot be opened at ${host}:${port}: ${message}`, rank);
      if (timeLeft(end) <= AGAIN_MS) throw new BootstrapError(`no address is known for '${host}' (NBC_STORE)`, rank);
      await (options.stop ?? NEVER).pause(AGAIN_MS);
    }
  }
}
