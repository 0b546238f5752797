/**
 * Jobs for nbctop. Says "ready RANK PID" once all ranks are there. Scenarios:
 *
 * - `stuck`: rank 1 computes and rank 0 waits for its message.
 * - `traffic`: the ranks exchange 1000 and 100,000 bytes until they are killed.
 * - `closes`: says whether its socket is there before and after close(), and ends.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { init } from 'node-nbc';
import { report } from './scenario.js';

const [scenario] = process.argv.slice(2);
const world = await init();
await world.ibarrier();
if (scenario === 'closes') {
  const folder = process.env['NBC_MONITOR'] ?? '';
  const socket = join(folder, `rank-${process.pid}.sock`);
  const before = existsSync(socket);
  await world.close();
  report({ before, after: existsSync(socket) });
} else {
  console.log(`ready ${world.rank} ${process.pid}`);
  if (scenario === 'stuck') {
    if (world.rank === 1) for (;;);
    world.irecv(new Uint8Array(8), 1, 5).wait();
  }
  const buffers = [1000, 100_000].map((bytes) => ({ send: new Uint8Array(bytes), recv: new Uint8Array(2 * bytes) }));
  for (;;) for (const { send, recv } of buffers) world.iallgather(send, recv).wait();
}
