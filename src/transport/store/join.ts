/**
 * How the ranks of a job find each other: each tells all others about itself, through the store of the job.
 *
 * Rank 0 opens the store at its address, unless somebody else (a launcher) has opened it there or the address is not rank 0's.
 */
import { StoreClient, type StoreClientOptions } from './client.js';
import { StoreServer } from './server.js';

/**
 * Joins the job, and leaves the store when `meet` has done what needs it.
 * @throws {BootstrapError}
 */
export async function join<T>(options: StoreClientOptions, meet: (store: StoreClient) => Promise<T>): Promise<T> {
  const server = options.rank === 0 ? await openHere(options) : undefined;
  try {
    const client = await StoreClient.open(options);
    try {
      const result = await meet(client);
      await client.done();
      // A program may keep the event loop busy from now on; the others must have got theirs before.
      await server?.finished();
      return result;
    } finally {
      client.close();
    }
  } finally {
    server?.close();
  }
}

/** What all ranks tell, by rank. Each calls it once for a name. @throws {BootstrapError} */
export async function exchange(
  store: StoreClient,
  { rank, size }: StoreClientOptions,
  name: string,
  mine: unknown,
): Promise<unknown[]> {
  await store.set(`${name}/${rank}`, mine);
  await store.barrier(name);
  return Promise.all(Array.from({ length: size }, (_, other) => store.get(`${name}/${other}`)));
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
