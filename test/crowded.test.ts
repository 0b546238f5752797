/**
 * Ranks that share processors take other algorithms: all of them, or none. What the machine really has does not count
 * here: the job's file says how many processors there are.
 */
import { runRanks } from './helpers.js';
import { allowedHere } from './support/allowed-here.js';

const SIZE = 8;

describe('where ranks share processors', () => {
  const mebibyte = 1024 * 1024;
  for (const { title, processors, transport, exposedBytes, taken } of [
    { title: 'four ranks a processor', processors: 2, transport: 'shm', taken: 'central' },
    { title: 'with memory for it', processors: 2, transport: 'shm', exposedBytes: SIZE * mebibyte, taken: 'central' },
    {
      title: 'with too little',
      processors: 2,
      transport: 'shm',
      exposedBytes: SIZE * mebibyte - 4096,
      taken: 'others',
    },
    { title: 'fewer', processors: 3, transport: 'shm', taken: 'others' },
    { title: 'and no memory', processors: 1, transport: 'tcp', taken: 'others' },
  ]) {
    it(`${title}: all ranks take the same algorithms, ${taken}`, async () => {
      // Ranks see what they may use themselves; those that are bound must not take another algorithm for it.
      const wrapper = (rank: number): readonly string[] =>
        rank % 2 === 0 ? [] : ['taskset', '-c', `${allowedHere()[0]}`];
      const env = { NBC_TRANSPORT: transport };
      await runRanks('crowded', { size: SIZE, args: [taken], processors, exposedBytes, wrapper, env });
    });
  }
});
