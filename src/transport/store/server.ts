/**
 * The store of a job that starts: each rank gives it values, by name, and gets those of all ranks when the last has
 * given its own. It is in memory, over TCP, and lives in rank 0 (or in a launcher) until all ranks have started.
 *
 *     server                                 client
 *     { store: 3, nonce }             --->
 *                                     <---   { rank, size, job, nonce, proof }
 *     { job, proof[, error] }         --->
 *                                     <---   { id, op: 'exchange', name, value, left, timeout }
 *                                            { id, op: 'done' }
 *                                            { id, op: 'fail', why }
 *     { id, values } or { id, error } --->
 *
 * n ranks have n values each to read, but the server writes them down once for each name: what all get are the same
 * bytes.
 *
 * The client's `job` is its NBC_JOB. The server's is a random number, from which the key of the data connections
 * follows (proof.ts).
 *
 * The server closes the connection of a client that does not know the secret, and says nothing. Connections that have
 * not proven themselves are limited in number and time; a client that finds no place among them tries again. No client
 * waits for ever: when the time of one is up that waits in an exchange (it says how much is `left` of its `timeout`),
 * all fail, and learn which ranks are missing. They also fail when a rank leaves before the job has started.
 */
import type { Server, Socket } from 'node:net';
import { crypto, net } from '../../builtins.js';
import { Lines, LONGEST_LINE } from './lines.js';
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

/** A client that waits for an exchange. */
interface Waiting {
  client: Client;
  id: unknown;
  /** JSON of its value, until all have got it. */
  text: string;
  timer: NodeJS.Timeout;
}

interface Exchange {
  /** By rank. */
  arrived: Map<number, Waiting>;
  /** All have got the values. */
  over: boolean;
}

/** What connections may cost that have not proven themselves: bytes of a line, their number, and their time. */
const LONGEST_INTRODUCTION = 1024;
const MOST_PENDING = 1024;
const HANDSHAKE_MS = 10_000;
/** Of one job: a rank may not fill the memory of the store. */
const MOST_EXCHANGES = 64;

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
  readonly #exchanges = new Map<string, Exchange>();
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
    for (const { arrived } of this.#exchanges.values()) for (const { timer } of arrived.values()) clearTimeout(timer);
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
    lines.send({ store: 3, nonce: serverNonce });
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
    lines.trust(LONGEST_LINE);
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
    switch (op) {
      case 'exchange':
        this.#exchange(client, request);
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
        client.lines.send({ id, error: `the store cannot ${String(op)}` });
    }
  }

  #exchange(client: Client, { id, name: given, value, left, timeout }: Record<string, unknown>): void {
    const name = String(given);
    const error = this.#failure ?? this.#whyNotExchange(client, name);
    if (error !== undefined) {
      client.lines.send({ id, error });
      return;
    }
    const exchange = this.#exchanges.get(name) ?? { arrived: new Map<number, Waiting>(), over: false };
    this.#exchanges.set(name, exchange);
    const { size, timeout: most } = this.#options;
    const limited = (given: unknown): number => (Number(given) > 0 ? Math.min(Number(given), most) : most);
    const text = JSON.stringify(value ?? null);
    const timer = setTimeout(() => this.#fail(this.#whoIsMissing(exchange, limited(timeout))), limited(left));
    exchange.arrived.set(client.rank, { client, id, text, timer });
    if (exchange.arrived.size === size) this.#complete(exchange);
  }

  #whyNotExchange({ rank }: Client, name: string): string | undefined {
    if (this.#exchanges.get(name)?.arrived.has(rank)) return `rank ${rank} has told '${name}' already`;
    if (this.#exchanges.has(name) || this.#exchanges.size < MOST_EXCHANGES) return undefined;
    return 'the store is full';
  }

  #complete(exchange: Exchange): void {
    const { arrived } = exchange;
    const texts = Array.from({ length: arrived.size }, (_, rank) => arrived.get(rank)!.text);
    const values = Buffer.from(`[${texts.join()}]`);
    exchange.over = true;
    for (const waiting of arrived.values()) {
      clearTimeout(waiting.timer);
      waiting.text = '';
      waiting.client.lines.sendValues(waiting.id, values);
    }
  }

  #whoIsMissing({ arrived }: Exchange, timeout: number): string {
    const { size } = this.#options;
    const missing = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !arrived.has(rank));
    const hint = missing.some((rank) => this.#clients.has(rank))
      ? ''
      : '; did they start, and can they reach the store?';
    return `${ranksText(missing)} of ${size} did not join within ${timeout} ms${hint}`;
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
    for (const { arrived, over } of this.#exchanges.values()) {
      if (over) continue;
      for (const { client, id, timer } of arrived.values()) {
        clearTimeout(timer);
        client.lines.send({ id, error: why });
      }
    }
    this.#finish();
  }
}
