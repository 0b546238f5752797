/**
 * `npm run chaos` runs this: rounds of chaos from a seed on, on shared memory, TCP and two networks in turns. In the
 * guest, `--transport verbs`:
 *
 *     scripts/rdma-guest --link both -- node out/test/support/play-chaos.js --transport verbs --rounds 50
 */
import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';
import { playChaos, type Transport } from './chaos.js';
import { TwoNetworks } from './networks.js';

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { seed: text, rounds: text, transport: text } });
const first = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const rounds = Number(values.rounds ?? 300);
const transports = (values.transport?.split(',') ?? ['shm', 'tcp', 'networks']) as Transport[];
console.log(`${rounds} rounds each on ${transports.join(' and ')}, from seed ${first} on`);
/** Rounds between two lines that say how far it has come. */
const TELL = 10;
/** Fewer rounds do not show whether memory grows. */
const ENOUGH = 40;
/** What the heap of this process may have more in the last quarter of the rounds than in the second. */
const MORE_BYTES = 32 * 1024 * 1024;
const resident: number[] = [];
let right = 0;
for (let seed = first; seed < first + rounds; seed++) {
  for (const transport of transports) {
    const networks = transport === 'networks' ? await TwoNetworks.make() : undefined;
    if (typeof networks === 'string') throw new Error(`${networks}; --transport shm,tcp does without`);
    try {
      right += await playChaos(seed, transport, networks);
    } finally {
      networks?.remove();
    }
  }
  resident.push(process.memoryUsage.rss());
  const played = seed + 1 - first;
  if (played % TELL === 0) console.log(`${played} rounds, ${right} results were right`);
}
if (rounds >= ENOUGH) {
  const quarter = rounds >> 2;
  const more = Math.min(...resident.slice(-quarter)) - Math.min(...resident.slice(quarter, 2 * quarter));
  assert(more <= MORE_BYTES, `this process has ${more} bytes more than it had early on: ${resident.join()}`);
}
console.log(`all requests settled, ${right} results were right, nothing was left`);
