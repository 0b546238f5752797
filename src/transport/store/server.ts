/**
 * The store of a job that starts: a small key-value store with barriers, in memory, over TCP. It lives in rank 0 (or in
 * a launcher) until all ranks have started.
 *
 *     server                                client
 *     { store: 2, nonce }            --->
 *                                    <---   { rank, size, job, nonce, proof }
 *     { job, proof[, error] }        --->
 *                                    <---   { id, op: 'set', key, value }
 *                                           { id, op: 'get', key, left, timeout }
 *                                           { id, op: 'barrier', name, left, timeout }
 *                                           { id, op: 'done' }
 *                                           { id, op: 'fail', why }
 *     { id, value } or { id, error } --->
 *
 * The client's `job` is its NBC_JOB. The server's is a random number, from which the key of the data connections
 * follows (proof.ts).
 *
 * The server closes the connection of a client that does not know the secret, and says nothing. Connections that have
 * not proven themselves are limited in number and time; a client that finds no place among them tries again. No client
 * waits for ever: when the time of one is up that waits in a `get` or a `barrier` (it says how much is `left` of its
 * `timeout`), all fail, and learn which ranks are missing. They also fail when a rank leaves before the job has
 * started.
 */
import type { Server, Socket } from 'node:net';
import { crypto, net } from '../../builtins.js';
import { Lines } from './lines.js';
import { type Introduction, newNonce, proofOf, proves } from './proof.js';

export interface StoreServerOptions {
  host: string;
  port: number;
  secret: string;
  size: number;
  /** NBC_JOB of its ranks (default: empty). */
  job?: string | undefined;
  /** Milliseconds. */
  timeout: number;
  /** Connections that have not proven themselves, at most (default 1024). */
  pending?: number;
  /** Milliseconds that each of them has for that (default 10 000, or the time limit if that is shorter). */
  handshakeMs?: number;
}

interface Client {
  rank: number;
  lines: Lines;
}

interface Waiting {
  client: Client;
  id: unknown;
  timer?: NodeJS.Timeout;
}

interface Barrier {
  arrived: Map<number, Waiting>;
  open: boolean;
}

/** What connections may cost that have not proven themselves: bytes of a line, their number, and their time. */
const LONGEST_INTRODUCTION = 1024;
const MOST_PENDING = 1024;
const HANDSHAKE_MS = 10_000;
const MOST_KEYS_PER_RANK = 64;

/** `0, 1 and 5 to 9`: ranks in ascending order. */
export function listRanks(ranks: readonly number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < ranks.length;) {
    let last = i;
    while (ranks[last + 1] === ranks[last] + 1) last++;
    if (last - i >= 2) parts.push(`${ranks[i]} to ${ranks[last]}`);
    else parts.push(...ranks.slice(i, last + 1).map(String));
    i = last + 1;
  }
  return parts.length < 2 ? parts.join() : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;
}

/** `rank 3`, `ranks 0 and 1` */
export function ranksText(ranks: readonly number[]): string {
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${listRanks(ranks)}`;
}

export class StoreServer {
  /** Where it listens. */
  readonly port: number;
  readonly #options: StoreServerOptions;
  readonly #server: Server;
  /** Connections that have not proven themselves, and since when they are here; the oldest comes first. */
  readonly #pending = new Map<Socket, number>();
  readonly #clients = new Map<number, Client>();
  readonly #values = new Map<string, unknown>();
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #barriers = new Map<string, Barrier>();
  /** New for each store. */
  readonly #id = crypto().randomBytes(16).toString('hex');
  readonly #done = new Set<number>();
  /** Why the job cannot start any more. */
  #failure: string | undefined;
  #refused = 0;
  readonly #finished: Promise<void>;
  #finish!: () => void;

  /** @throws the error of `listen`, for example EADDRINUSE */
  static async open(options: StoreServerOptions): Promise<StoreServer> {
    const server = net().createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(options.port, options.host, resolve);
    });
    const address = server.address();
    return new StoreServer(server, options, typeof address === 'object' && address !== null ? address.port : 0);
  }

  private constructor(server: Server, options: StoreServerOptions, port: number) {
    this.#server = server;
    this.#options = options;
    this.port = port;
    this.#finished = new Promise((resolve) => (this.#finish = resolve));
    server.on('connection', (socket) => this.#accept(socket));
    // After it listens, an error is one of a single connection that could not be accepted.
    server.on('error', () => this.#refused++);
  }

  /** Connections that did not prove themselves. */
  get refused(): number {
    return this.#refused;
  }

  /** Why the job cannot start any more; undefined: it can, or has. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** All ranks have said that they are done, or the job has failed. */
  finished(): Promise<void> {
    return this.#finished;
  }

  /** The job cannot start without it, unless it has joined already. */
  endedEarly(rank: number): void {
    if (!this.#done.has(rank)) this.#fail(`rank ${rank} ended before the job had started`);
  }

  /** What was sent before is delivered. No client is accepted any more. */
  close(): void {
    this.#server.close();
    for (const socket of this.#pending.keys()) socket.destroy();
    for (const { lines } of this.#clients.values()) {
      lines.end();
      // One that does not end its side is no reason for this process to go on.
      lines.socket.unref();
    }
    for (const waiting of this.#waiting.values()) for (const { timer } of waiting) clearTimeout(timer);
    for (const { arrived } of this.#barriers.values()) for (const { timer } of arrived.values()) clearTimeout(timer);
  }

  /** Where all are taken, the oldest pending connection loses its place after a grace period. */
  #hasPlace(handshakeMs: number): boolean {
    if (this.#pending.size < (this.#options.pending ?? MOST_PENDING)) return true;
    const [[oldest, since]] = this.#pending;
    if (performance.now() - since < handshakeMs / 10) return false;
    this.#pending.delete(oldest);
    this.#refused++;
    oldest.destroy();
    return true;
  }

  #accept(socket: Socket): void {
    const handshakeMs = this.#options.handshakeMs ?? Math.min(HANDSHAKE_MS, this.#options.timeout);
    if (!this.#hasPlace(handshakeMs)) {
      this.#refused++;
      socket.destroy();
      return;
    }
    const serverNonce = newNonce();
    let client: Client | undefined;
    this.#pending.set(socket, performance.now());
    const limit = setTimeout(() => socket.destroy(), handshakeMs);
    const lines = new Lines(
      socket,
      LONGEST_INTRODUCTION,
      (value) => {
        if (client !== undefined) {
          this.#serve(client, value);
          return;
        }
        client = this.#authorize(lines, serverNonce, value);
        if (client === undefined) return;
        clearTimeout(limit);
        this.#pending.delete(socket);
      },
      () => {
        clearTimeout(limit);
        if (this.#pending.delete(socket)) this.#refused++;
        if (client !== undefined) this.#left(client);
      },
    );
    lines.send({ store: 2, nonce: serverNonce });
  }

  /** Accepts a client that knows the secret, or tells it why it cannot be a rank of this job. */
  #authorize(lines: Lines, serverNonce: string, value: Record<string, unknown>): Client | undefined {
    const { rank, size, job, nonce, proof } = value;
    const said: Introduction = {
      serverNonce,
      clientNonce: String(nonce),
      rank: Number(rank),
      size: Number(size),
      job: String(job),
    };
    if (!proves('client', this.#options.secret, said, proof)) {
      lines.socket.destroy();
      return undefined;
    }
    lines.trust();
    const error = this.#objection(said);
    const answer = { job: this.#id, proof: proofOf('server', this.#options.secret, said, this.#id) };
    if (error !== undefined) {
      lines.send({ ...answer, error });
      lines.end();
      return undefined;
    }
    const client = { rank: said.rank, lines };
    this.#clients.set(said.rank, client);
    lines.send(answer);
    return client;
  }

  #objection({ rank, size, job }: Introduction): string | undefined {
    const { job: own = '' } = this.#options;
    if (job !== own) {
      return `this rank was started in another job: its NBC_JOB is '${job}', and that of the job that starts here is '${own}'`;
    }
    if (this.#failure !== undefined) return this.#failure;
    if (size !== this.#options.size) {
      return `this rank was started in a job of ${size} ranks, the others in one of ${this.#options.size}`;
    }
    if (!Number.isInteger(rank) || rank < 0 || rank >= size) return `there is no rank ${rank} in a job of ${size}`;
    if (this.#clients.has(rank)) {
      return `another process has joined as rank ${rank} already; if it is left from an earlier attempt, give each attempt an NBC_JOB of its own`;
    }
    return undefined;
  }

  #serve(client: Client, request: Record<string, unknown>): void {
    const { id, op } = request;
    const waiting: Waiting = { client, id };
    switch (op) {
      case 'set':
        this.#set(waiting, String(request.key), request.value);
        break;
      case 'get':
        this.#get(waiting, String(request.key), request);
        break;
      case 'barrier':
        this.#arrive(waiting, String(request.name), request);
        break;
      case 'fail':
        this.#fail(String(request.why));
        break;
      case 'done':
        this.#done.add(client.rank);
        client.lines.send({ id });
        client.lines.end();
        if (this.#done.size === this.#options.size) this.#finish();
        break;
      default:
        this.#answer(waiting, { error: `the store cannot ${String(op)}` });
    }
  }

  /** Until it is answered; `message` tells why that did not happen in time. */
  #limit(waiting: Waiting, { left, timeout }: Record<string, unknown>, message: (timeout: number) => string): void {
    const most = this.#options.timeout;
    const limited = (value: unknown): number => (Number(value) > 0 ? Math.min(Number(value), most) : most);
    waiting.timer = setTimeout(() => this.#fail(message(limited(timeout))), limited(left));
  }

  #answer({ client, id, timer }: Waiting, answer: { value?: unknown; error?: string }): void {
    clearTimeout(timer);
    client.lines.send({ id, ...answer });
  }

  #set(waiting: Waiting, key: string, value: unknown): void {
    if (this.#values.size >= this.#options.size * MOST_KEYS_PER_RANK && !this.#values.has(key)) {
      this.#answer(waiting, { error: 'the store is full' });
      return;
    }
    this.#values.set(key, value);
    this.#answer(waiting, {});
    const waiters = this.#waiting.get(key);
    if (waiters === undefined) return;
    this.#waiting.delete(key);
    for (const waiter of waiters) this.#answer(waiter, { value });
  }

  #get(waiting: Waiting, key: string, request: Record<string, unknown>): void {
    if (this.#failure !== undefined) this.#answer(waiting, { error: this.#failure });
    else if (this.#values.has(key)) this.#answer(waiting, { value: this.#values.get(key) });
    else {
      const waiters = this.#waiting.get(key);
      if (waiters !== undefined) waiters.push(waiting);
      else this.#waiting.set(key, [waiting]);
      this.#limit(waiting, request, (timeout) => `no rank has set ${key} within ${timeout} ms`);
    }
  }

  #arrive(waiting: Waiting, name: string, request: Record<string, unknown>): void {
    if (this.#failure !== undefined) {
      this.#answer(waiting, { error: this.#failure });
      return;
    }
    let barrier = this.#barriers.get(name);
    if (barrier === undefined) {
      barrier = { arrived: new Map(), open: false };
      this.#barriers.set(name, barrier);
    }
    clearTimeout(barrier.arrived.get(waiting.client.rank)?.timer);
    barrier.arrived.set(waiting.client.rank, waiting);
    this.#limit(waiting, request, (timeout) => this.#whoIsMissing(name, timeout));
    if (barrier.arrived.size < this.#options.size) return;
    barrier.open = true;
    for (const arrived of barrier.arrived.values()) this.#answer(arrived, {});
  }

  #whoIsMissing(name: string, timeout: number): string {
    const missing = Array.from({ length: this.#options.size }, (_, rank) => rank).filter(
      (rank) => this.#barriers.get(name)?.arrived.has(rank) !== true,
    );
    const hint = missing.some((rank) => this.#clients.has(rank))
      ? ''
      : '; did they start, and can they reach the store?';
    return `${ranksText(missing)} of ${this.#options.size} did not join within ${timeout} ms${hint}`;
  }

  #left(client: Client): void {
    if (this.#done.has(client.rank)) return;
    this.#clients.delete(client.rank);
    this.endedEarly(client.rank);
  }

  /** The job cannot start: all clients that wait, and those that come later, are told. */
  #fail(why: string): void {
    if (this.#failure !== undefined) return;
    this.#failure = why;
    for (const waiting of this.#waiting.values()) for (const waiter of waiting) this.#answer(waiter, { error: why });
    this.#waiting.clear();
    for (const barrier of this.#barriers.values()) {
      if (barrier.open) continue;
      for (const waiter of barrier.arrived.values()) this.#answer(waiter, { error: why });
    }
    this.#finish();
  }
}
