/**
 * Messages between two ranks: isend and irecv. The receiver's buffer may be larger; the request says how much came.
 *
 *     nbcrun -n 2 out/examples/calls/messages.js
 *
 *     rank 1 received 5 bytes: hello
 *     rank 0 received 7 bytes: hello 0
 */
import { init } from 'node-nbc';

const world = await init();
const { rank } = world;
const [peer, tag] = [1 - rank, 7];

async function receive(): Promise<string> {
  const buffer = Buffer.alloc(100);
  const request = world.irecv(buffer, peer, tag);
  await request;
  const text = buffer.toString('utf8', 0, request.bytes);
  console.log(`rank ${rank} received ${request.bytes} bytes: ${text}`);
  return text;
}

if (rank === 0) {
  await world.isend(Buffer.from('hello'), peer, tag);
  await receive();
} else {
  await world.isend(Buffer.from(`${await receive()} 0`), peer, tag);
}
await world.close();
