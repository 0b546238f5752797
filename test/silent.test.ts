/**
 * A rank whose process is stopped for longer than option `peerTimeout` says: it is given up by those that need it, and
 * told so when it goes on. Nothing but a limit of the whole job says how long that may take.
 */
import { inFull, runRanks } from './helpers.js';

const PEER_TIMEOUT = { NBC_PEER_TIMEOUT: '1000', NBC_TRANSPORT: undefined };

/** How ranks reach each other. `twoHosts`: the stopped rank has one peer on each side. */
const WAYS: Readonly<Record<string, (rank: number) => Record<string, string | undefined>>> = {
  'shared memory': () => ({ NBC_TRANSPORT: 'shm' }),
  "shared memory, progress 'manual'": () => ({ NBC_TRANSPORT: 'shm', NBC_PROGRESS: 'manual' }),
  TCP: () => ({ NBC_TRANSPORT: 'tcp' }),
  'shared memory and TCP': (rank) => ({
    NBC_TRANSPORT: 'auto',
    NBC_HOST: rank === 0 ? 'a' : 'b',
    NBC_JOB_FD: undefined,
  }),
};

describe('a rank that is stopped', () => {
  // The transport is part of each test.
  if (process.env['NBC_TRANSPORT'] !== undefined) return;

  for (const [name, env] of Object.entries(WAYS)) {
    it(`is lost to those that need it, and learns of it when it goes on: ${name}`, async () => {
      await runRanks('silent', { size: 3, args: ['stopped'], env: (rank) => ({ ...PEER_TIMEOUT, ...env(rank) }) });
    });
  }

  for (const transport of ['shm', 'tcp']) {
    for (const crossMemory of transport === 'shm' ? ['auto', 'off'] : ['auto']) {
      const env = { ...PEER_TIMEOUT, NBC_TRANSPORT: transport, NBC_CROSS_MEMORY: crossMemory };
      it(`in the middle of a large message writes nothing more (${transport}, crossMemory ${crossMemory})`, async () => {
        await runRanks('silent', { size: 2, args: ['amid'], env });
      });
    }
    inFull(`and one that computes for longer is there all the same (${transport})`, async () => {
      await runRanks('silent', { size: 2, args: ['computes'], env: { ...PEER_TIMEOUT, NBC_TRANSPORT: transport } });
    });
  }
});
