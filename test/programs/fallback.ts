/** Large messages of every kind of buffer, and which way their bytes went; see fallback.test.ts. */
import assert from 'node:assert/strict';
import { alloc, init } from 'node-nbc';
import { report } from './scenario.js';

const world = await init();
const { rank, size } = world;
for (const make of [(n: number) => new Uint8Array(n), (n: number) => alloc(Uint8Array, n)]) {
  for (const block of [5_000, 100_000, 1_000_001]) {
    const send = make(block * size);
    const recv = make(block * size);
    for (let to = 0; to < size; to++) send.fill(16 * rank + to + 1, to * block, (to + 1) * block);
    world.ialltoall(send, recv).wait();
    for (let from = 0; from < size; from++) {
      const part = recv.subarray(from * block, (from + 1) * block);
      assert(
        part.every((byte) => byte === 16 * from + rank + 1),
        `block of rank ${from}, ${block} bytes`,
      );
    }
  }
}
const { stagedBytes, crossMemoryBytes } = world.stats();
report({ stagedBytes, crossMemoryBytes });
await world.close();
