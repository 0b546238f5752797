/** `npm run chaos` runs this: rounds of chaos from a seed on, on shared memory and TCP in turns. */
import { parseArgs } from 'node:util';
import { playChaos } from './chaos.js';

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { seed: text, rounds: text, transport: text } });
const first = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const rounds = Number(values.rounds ?? 300);
const transports = values.transport === undefined ? ['shm', 'tcp'] : [values.transport];
console.log(`${rounds} rounds each on ${transports.join(' and ')}, from seed ${first} on`);
let right = 0;
for (let seed = first; seed < first + rounds; seed++) {
  for (const transport of transports) right += await playChaos(seed, transport);
}
console.log(`all requests settled, ${right} results were right, nothing was left`);
