/** `npm run fuzz -- NAME` runs this for what is read by TypeScript: case after case, until the time is over. */
import { playHostile } from './hostile/index.js';

const [name, first, seconds] = process.argv.slice(2);
const until = performance.now() + Number(seconds) * 1000;
let seed = Number(first);
do await playHostile(name, seed++);
while (performance.now() < until);
console.log(`nothing found in ${seed - Number(first)} cases, from seed ${first} on`);
