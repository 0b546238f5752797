/**
 * The directory that is a store of ours. Rank 0 opens it at its address, unless somebody else (a launcher) has opened
 * it there or the address is another machine's.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { BootstrapError } from '../../errors.js';
import { AGAIN_MS, left, StoreClient, type StoreClientOptions } from '../store/client.js';
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
  try {
    const client = await StoreClient.open(options);
    try {
      const result = await meet(directoryOf(client, options));
      await client.done();
      // A program may keep the event loop busy from now on; the others must have got theirs before.
      if (server !== undefined) await Promise.race([server.finished(), delay(left(end), undefined, { ref: false })]);
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

function directoryOf(client: StoreClient, { rank, size, secret }: StoreClientOptions): Directory {
  return {
    rank,
    size,
    secret,
    localAddress: client.localAddress,
    async exchange(name, mine) {
      await client.set(`${name}/${rank}`, mine);
      await client.barrier(name);
      return Promise.all(Array.from({ length: size }, (_, other) => client.get(`${name}/${other}`)));
    },
  };
}

async function openHere(options: StoreClientOptions, end: number): Promise<StoreServer | undefined> {
  const { host, port, rank } = options;
  for (;;) {
    try {
      return await StoreServer.open(options);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      // Somebody listens there already, or it is another machine's: then the store is there.
      if (code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL') return undefined;
      // A name may appear late.
      if (code !== 'ENOTFOUND' && code !== 'EAI_AGAIN')
        throw new BootstrapError(`the store cannot be opened at ${host}:${port}: ${message}`, rank);
      if (left(end) <= AGAIN_MS) throw new BootstrapError(`no address is known for '${host}' (NBC_STORE)`, rank);
      await delay(AGAIN_MS);
    }
  }
}
