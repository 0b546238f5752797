/** The store of a job whose ranks are all started by this process, on this machine. */
import { randomBytes } from 'node:crypto';
import { StoreServer } from './server.js';

const LOOPBACK = '127.0.0.1';

export interface LocalStore {
  /** What the ranks find in their environment. */
  environment: { NBC_STORE: string; NBC_SECRET: string; NBC_JOB: string };
  /** The process of a rank has ended. One that has not joined will not, and the others are told. */
  rankEnded(rank: number): void;
  close(): void;
}

/**
 * On a free port of loopback, with a secret that is new.
 * @param timeoutMs how long ranks wait for those that are missing
 * @throws the error of `listen`
 */
export async function openLocalStore(size: number, timeoutMs: number): Promise<LocalStore> {
  const secret = randomBytes(32).toString('hex');
  const store = await StoreServer.open({ host: LOOPBACK, port: 0, secret, size, timeout: timeoutMs });
  return {
    environment: { NBC_STORE: `${LOOPBACK}:${store.port}`, NBC_SECRET: secret, NBC_JOB: '' },
    rankEnded: (rank) => store.endedEarly(rank),
    close: () => store.close(),
  };
}
