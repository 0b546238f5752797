/** Nothing grows in a program that runs for long. `npm run soak -- --minutes 60` is an hour of it. */
import { BRIEF } from './helpers.js';
import { soak } from './support/soak.js';

const SECONDS = BRIEF ? 4 : 20;

describe('a program that does everything again and again', () => {
  for (const transport of BRIEF ? ['shm'] : ['shm', 'tcp']) {
    it(`holds as much at the end as early on, over ${transport}`, async () => {
      await soak(SECONDS, { NBC_TRANSPORT: transport });
    });
  }
});
