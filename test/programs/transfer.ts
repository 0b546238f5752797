/**
 * How long it takes to move BYTES over plain sockets from 127.0.0.1 to 127.0.0.2, back, and both at once; see
 * slow-link.test.ts. Prints the best of some rounds in turns, in milliseconds: neither node-nbc nor a busy moment has a
 * part in it.
 */
import { once } from 'node:events';
import { createConnection, createServer, type Server, type Socket } from 'node:net';

const ROUNDS = 3;
const [ONE, TWO] = ['127.0.0.1', '127.0.0.2'];
const bytes = Number(process.argv[2]);
const data = Buffer.alloc(bytes, 1);

interface Direction {
  server: Server;
  from: Socket;
  to: Socket;
}

async function way(fromAddress: string, toAddress: string): Promise<Direction> {
  const server = createServer().listen(0, toAddress);
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const called = once(server, 'connection') as Promise<[Socket]>;
  const from = createConnection({ host: toAddress, port, localAddress: fromAddress, noDelay: true });
  const [to] = await called;
  await once(from, 'connect');
  return { server, from, to };
}

/** Until all of it has been received. */
function move({ from, to }: Direction): Promise<void> {
  return new Promise((resolve) => {
    let left = bytes;
    const take = (chunk: Buffer): void => {
      left -= chunk.length;
      if (left > 0) return;
      to.off('data', take);
      resolve();
    };
    to.on('data', take);
    from.write(data);
  });
}

async function timed(ways: Direction[]): Promise<number> {
  const begin = performance.now();
  await Promise.all(ways.map(move));
  return performance.now() - begin;
}

const ways = await Promise.all([way(ONE, TWO), way(TWO, ONE)]);
const best = { alone: Infinity, back: Infinity, both: Infinity };
for (let round = 0; round < ROUNDS; round++) {
  best.alone = Math.min(best.alone, await timed(ways.slice(0, 1)));
  best.back = Math.min(best.back, await timed(ways.slice(1)));
  best.both = Math.min(best.both, await timed(ways));
}
console.log(JSON.stringify(best));
for (const { server, from, to } of ways) {
  from.destroy();
  to.destroy();
  server.close();
}
