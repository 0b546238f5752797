/** `npm run fuzz` runs this: random calls, seed after seed, until the time is over or one has found something. */
import { playCalls } from './calls.js';

const [first, seconds] = process.argv.slice(2).map(Number);
const until = performance.now() + seconds * 1000;
let seed = first;
do await playCalls(seed++);
while (performance.now() < until);
console.log(`nothing found in ${seed - first} programs, from seed ${first} on`);
