/**
 * Damaged lines, to a store and from one. A connection that has not proven itself hears the store's greeting and
 * nothing else, and harms no rank. A rank that has proven itself and then says anything is answered, or its connection
 * ends and all others learn that. A rank that meets such a store gets its values or a BootstrapError.
 *
 * An input is JSON, a {@link Said}: a text for each connection, whose characters are bytes.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net';
import { BootstrapError } from 'node-nbc';
import { generator } from '../random.js';
import { below, damaged, damagedValue, type Fuzzer, pick, type Random } from './mutations.js';

const dist = (file: string): string => new URL(`../../../../dist/transport/${file}`, import.meta.url).href;
const { StoreServer } = (await import(
  dist('store/server.js')
)) as typeof import('../../../src/transport/store/server.js');
const { StoreClient } = (await import(
  dist('store/client.js')
)) as typeof import('../../../src/transport/store/client.js');
const { proofOf } = (await import(dist('store/proof.js'))) as typeof import('../../../src/transport/store/proof.js');

const SECRET = 'a secret of this test';
const HOST = '127.0.0.1';
const SIZE = 3;
const TIMEOUT_MS = 5000;
const JOB = '';
/** Milliseconds that a rank has with a store that is not one. */
const SHORT_MS = 60;

/** In a text, for what is known only when it is said: the nonce of the store, and its proof. As long as they are. */
const NONCE = 'n'.repeat(32);
const PROOF = 'p'.repeat(64);
/** Of a store that is none. */
const STORE_NONCE = 'a'.repeat(32);

/** What is said to a store: by each that does not know the secret, and by rank 2, which does. Or what a store says. */
type Said = { strange: string[]; proven: string } | { greeting: string; proof: string; answers: string };

type Line = Record<string, unknown>;
const textOf = (lines: readonly unknown[]): Uint8Array =>
  new TextEncoder().encode(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));

/** Lines, of which some are damaged as values and some as bytes. */
function harmed(lines: readonly Line[], random: Random): Uint8Array {
  const text = textOf(lines.map((line) => (random() < 0.4 ? damagedValue(line, random) : line)));
  return random() < 0.5 ? damaged(text, random) : text;
}

export const STORE: Fuzzer = {
  make(seed) {
    const random = generator(seed);
    const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');
    const said = random() < 0.6 ? saidToStore(random, text) : saidByStore(random, text);
    return new TextEncoder().encode(JSON.stringify(said));
  },

  run(input) {
    const said = JSON.parse(new TextDecoder().decode(input)) as Said;
    return 'strange' in said ? playServer(said.strange, said.proven) : playClient(said);
  },
};

type Text = (bytes: Uint8Array) => string;

function saidToStore(random: Random, text: Text): Said {
  const strange: string[] = [];
  for (let left = below(random, 3); left > 0; left--) {
    const introduction = { rank: 2, size: SIZE, job: JOB, nonce: 'a'.repeat(32), proof: pick(random, [NONCE, 'f', 5]) };
    strange.push(text(harmed([introduction, { id: 1, op: 'exchange', name: 'rank', value: 'wrong' }], random)));
  }
  const lines = [
    { id: 1, op: 'exchange', name: 'rank', value: { any: ['thing', 1] }, left: 1000, timeout: 1000 },
    { id: 2, op: 'exchange', name: '__proto__', value: 1, left: 1000, timeout: 1000 },
    { id: 3, op: pick(random, ['done', 'fail', 'exchange', 'constructor']), why: 'rank 2 says so', name: 'rank' },
  ];
  return { strange, proven: text(harmed(lines, random)) };
}

function saidByStore(random: Random, text: Text): Said {
  const harmedAtTimes = (line: Line, share: number): string =>
    text(random() < share ? harmed([line], random) : textOf([line]));
  const values = pick(random, [[0, 1, { any: ['thing', 2] }], [0, 1], 5]);
  return {
    greeting: harmedAtTimes({ store: 3, nonce: STORE_NONCE }, 0.3),
    proof: harmedAtTimes({ job: 'x', proof: PROOF }, 0.2),
    answers: text(harmed([{ id: 1, values }, { id: 2, error: 'no' }, { id: 3 }], random)),
  };
}

async function connected(port: number): Promise<{ socket: Socket; heard: () => string; greeting: Promise<Line> }> {
  const socket = createConnection({ host: HOST, port });
  let text = '';
  socket.on('error', () => undefined);
  const greeting = new Promise<Line>((resolve) => {
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (text.includes('\n')) resolve(JSON.parse(text.slice(0, text.indexOf('\n'))) as Line);
    });
  });
  await once(socket, 'connect');
  return { socket, heard: () => text, greeting };
}

/** Also where the other side has cut it off. */
const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });

/** What ranks 0 and 1 do while rank 2 is this file. */
async function rank(port: number, me: number): Promise<unknown> {
  const options = { host: HOST, port, secret: SECRET, rank: me, size: SIZE, timeout: TIMEOUT_MS };
  const client = await StoreClient.open(options);
  try {
    return await client.exchange('rank', me);
  } finally {
    client.close();
  }
}

async function playServer(strangers: readonly string[], known: string): Promise<void> {
  const server = await StoreServer.open({ host: HOST, port: 0, secret: SECRET, size: SIZE, timeout: TIMEOUT_MS });
  try {
    for (const said of strangers) await strange(server.port, said);
    const others = Promise.allSettled([0, 1].map((me) => rank(server.port, me)));
    await proven(server.port, known);
    for (const end of await others) {
      if (end.status === 'rejected') assert(end.reason instanceof BootstrapError, String(end.reason));
    }
  } finally {
    server.close();
  }
}

/** It does not know the secret. */
async function strange(port: number, said: string): Promise<void> {
  const { socket, heard, greeting } = await connected(port);
  const { nonce } = await greeting;
  socket.end(said.replaceAll(NONCE, String(nonce)), 'latin1');
  await closed(socket);
  assert.equal(heard().indexOf('\n'), heard().length - 1, `it heard ${heard()}`);
}

/** Rank 2: knows the secret, and says anything. */
async function proven(port: number, text: string): Promise<void> {
  const { socket, greeting } = await connected(port);
  const serverNonce = String((await greeting).nonce);
  const said = { rank: 2, size: SIZE, job: JOB };
  const proof = proofOf('client', SECRET, { ...said, serverNonce, clientNonce: 'n' });
  socket.write(textOf([{ ...said, nonce: 'n', proof }]));
  socket.end(text, 'latin1');
  await closed(socket);
}

async function playClient({ greeting, proof, answers }: { greeting: string; proof: string; answers: string }) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.write(greeting, 'latin1');
    let text = '';
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (!text.endsWith('\n')) return;
      const { nonce, job, ...said } = JSON.parse(text.slice(0, text.indexOf('\n'))) as Line;
      const introduction = { rank: Number(said['rank']), size: SIZE, job: String(job), serverNonce: STORE_NONCE };
      const right = proofOf('server', SECRET, { ...introduction, clientNonce: String(nonce) }, 'x');
      socket.write(proof.replaceAll(PROOF, right), 'latin1');
      socket.end(answers, 'latin1');
    });
    setTimeout(() => socket.destroy(), SHORT_MS);
  }).listen(0, HOST);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    const options = { host: HOST, port, secret: SECRET, rank: 1, size: SIZE, timeout: SHORT_MS };
    const client = await StoreClient.open(options);
    const asked = [client.exchange('rank', 1), client.exchange('more', 1), client.done()];
    for (const end of await Promise.allSettled(asked)) {
      if (end.status === 'rejected') assert(end.reason instanceof BootstrapError, String(end.reason));
    }
    client.close();
  } catch (error) {
    assert(error instanceof BootstrapError, String(error));
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}
