/**
 * A process that nbcrun starts for several ranks: it starts them as threads, and tells nbcrun of their ends. Its first
 * argument says which ({@link ProcessPlace}), the others are the program and its arguments.
 */
import { writeSync } from 'node:fs';
import { codeOfSignal, type ProcessPlace } from './place.js';
import { runRankThreads } from './rank-threads.js';

const [place, program, ...args] = process.argv.slice(2);
const { endsFd, ...given } = JSON.parse(place) as ProcessPlace;

// As a process in a pipe that nobody reads any more: without a word.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => process.exit(codeOfSignal('SIGPIPE')));

await runRankThreads({
  ...given,
  program,
  args,
  environment: {},
  ended(rank, code) {
    try {
      writeSync(endsFd, `${rank} ${code}\n`);
    } catch {
      // nbcrun has gone, and this process will be ended.
    }
  },
});
process.exit(0);
