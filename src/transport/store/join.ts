/**
 * How the ranks of a job find each other: each tells all others about itself, through the store of the job.
 *
 * Rank 0 opens the store at its address, unless somebody else (a launcher) has opened it there or the address is not rank 0's.
 */
import { StoreClient, type StoreClientOptions } from './client.js';
import { StoreServer } from './server.js';

/**
 * What all ranks told, by rank.
 * @param mine what this rank tells, which may depend on the address from which it reaches the store
 * @throws {BootstrapError}
 */
export async function join(options: StoreClientOptions, mine: (localAddress: string) => unknown): Promise<unknown[]> {
  const server = options.rank === 0 ? await openHere(options) : undefined;
  try {
    const client = await StoreClient.open(options);
    try {
      await client.set(`rank/${options.rank}`, mine(client.localAddress));
      await client.barrier('joined');
      const all = await Promise.all(Array.from({ length: options.size }, (_, rank) => client.get(`rank/${rank}`)));
      await client.done();
      // A program may keep the event loop busy from now on; the others must have got theirs before.
      await server?.finished();
      return all;
    } finally {
      client.close();
    }
  } finally {
    server?.close();
  }
}

async function openHere(options: StoreClientOptions): Promise<StoreServer | undefined> {
  try {
    return await StoreServer.open(options);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Somebody listens there already, or it is another machine's: then the store is there.
    if (code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL') return undefined;
    throw error;
  }
}
