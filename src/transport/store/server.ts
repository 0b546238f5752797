/**
 * The store of a job that starts: a small key-value store with barriers, in memory, over TCP. It lives in rank 0 (or in a launcher) until all ranks
 * have started.
 *
 *     server                                client
 *     { store: 1, nonce }            --->
 *                                    <---   { rank, size, nonce, proof }
 *     { proof } or { proof, error }  --->
 *                                    <---   { id, op: 'set', key, value } | { id, op: 'get', key } | { id, op: 'barrier', name }
 *     { id, value } or { id, error } --->
 *
 * A client that does not know the secret is cut off without a word. Nothing here waits for ever: a `get` or a `barrier` that has waited for the
 * time limit fails, naming the ranks that are missing; so do all when a rank leaves before its job has started.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { Lines } from './lines.js';
import { type Introduction, newNonce, proofOf, proves } from './proof.js';

export interface StoreServerOptions {
  host: string;
  port: number;
  secret: string;
  size: number;
  /** Milliseconds. */
  timeout: number;
}

interface Client {
  rank: number;
  lines: Lines;
}

interface Waiting {
  client: Client;
  id: unknown;
}

interface Gate {
  arrived: Map<number, Waiting>;
  open: boolean;
  timer: NodeJS.Timeout | undefined;
}

/** Bytes and connections that somebody without the secret may cost. */
const LONGEST_INTRODUCTION = 512;
const MOST_STRANGERS = 1024;
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

function ranksText(ranks: readonly number[]): string {
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${listRanks(ranks)}`;
}

export class StoreServer {
  /** Where it listens. */
  readonly port: number;
  readonly #options: StoreServerOptions;
  readonly #server: Server;
  readonly #strangers = new Set<Socket>();
  readonly #clients = new Map<number, Client>();
  readonly #values = new Map<string, unknown>();
  readonly #waiting = new Map<string, { waiting: Waiting[]; timer: NodeJS.Timeout }>();
  readonly #gates = new Map<string, Gate>();
  readonly #done = new Set<number>();
  /** Why the job cannot start any more. */
  #failure: string | undefined;
  #refused = 0;
  readonly #finished: Promise<void>;
  #finish!: () => void;

  /** @throws the error of `listen`, for example EADDRINUSE */
  static async open(options: StoreServerOptions): Promise<StoreServer> {
    const server = createServer();
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
    server.on('connection', (socket) => this.#greet(socket));
    // After it listens, an error is one of a single connection that could not be accepted.
    server.on('error', () => this.#refused++);
  }

  /** Connections that did not prove themselves. */
  get refused(): number {
    return this.#refused;
  }

  /** All ranks have said that they are done, or the job has failed. */
  finished(): Promise<void> {
    return this.#finished;
  }

  /** What was sent before is delivered; nobody is let in any more. */
  close(): void {
    this.#server.close();
    for (const socket of this.#strangers) socket.destroy();
    for (const { lines } of this.#clients.values()) lines.end();
    for (const { timer } of this.#waiting.values()) clearTimeout(timer);
    for (const { timer } of this.#gates.values()) clearTimeout(timer);
  }

  #greet(socket: Socket): void {
    if (this.#strangers.size >= MOST_STRANGERS) {
      this.#refused++;
      socket.destroy();
      return;
    }
    const serverNonce = newNonce();
    let client: Client | undefined;
    this.#strangers.add(socket);
    const limit = setTimeout(() => socket.destroy(), this.#options.timeout);
    const lines = new Lines(
      socket,
      LONGEST_INTRODUCTION,
      (value) => {
        if (client !== undefined) {
          this.#serve(client, value);
          return;
        }
        client = this.#admit(lines, serverNonce, value);
        if (client === undefined) return;
        clearTimeout(limit);
        this.#strangers.delete(socket);
      },
      () => {
        clearTimeout(limit);
        if (this.#strangers.delete(socket)) this.#refused++;
        if (client !== undefined) this.#left(client);
      },
    );
    lines.send({ store: 1, nonce: serverNonce });
  }

  /** Lets a client in that knows the secret; one that cannot be a rank of this job is told why. */
  #admit(lines: Lines, serverNonce: string, value: Record<string, unknown>): Client | undefined {
    const { rank, size, nonce, proof } = value;
    const said: Introduction = { serverNonce, clientNonce: String(nonce), rank: Number(rank), size: Number(size) };
    if (!proves('client', this.#options.secret, said, proof)) {
      lines.socket.destroy();
      return undefined;
    }
    lines.trust();
    const error = this.#objection(said);
    const answer = { proof: proofOf('server', this.#options.secret, said) };
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

  #objection({ rank, size }: Introduction): string | undefined {
    if (this.#failure !== undefined) return this.#failure;
    if (size !== this.#options.size) {
      return `this rank was started in a job of ${size} ranks, the others in one of ${this.#options.size}`;
    }
    if (!Number.isInteger(rank) || rank < 0 || rank >= size) return `there is no rank ${rank} in a job of ${size}`;
    if (this.#clients.has(rank)) return `another process has joined as rank ${rank} already`;
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
        this.#get(waiting, String(request.key));
        break;
      case 'barrier':
        this.#arrive(waiting, String(request.name));
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

  #answer({ client, id }: Waiting, answer: { value?: unknown; error?: string }): void {
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
    clearTimeout(waiters.timer);
    this.#waiting.delete(key);
    for (const waiter of waiters.waiting) this.#answer(waiter, { value });
  }

  #get(waiting: Waiting, key: string): void {
    if (this.#failure !== undefined) this.#answer(waiting, { error: this.#failure });
    else if (this.#values.has(key)) this.#answer(waiting, { value: this.#values.get(key) });
    else {
      const waiters = this.#waiting.get(key);
      if (waiters !== undefined) waiters.waiting.push(waiting);
      else {
        const timer = setTimeout(
          () => this.#fail(`nobody has set ${key} within ${this.#options.timeout} ms`),
          this.#options.timeout,
        );
        this.#waiting.set(key, { waiting: [waiting], timer });
      }
    }
  }

  #arrive(waiting: Waiting, name: string): void {
    if (this.#failure !== undefined) {
      this.#answer(waiting, { error: this.#failure });
      return;
    }
    let gate = this.#gates.get(name);
    if (gate === undefined) {
      gate = { arrived: new Map(), open: false, timer: undefined };
      gate.timer = setTimeout(() => this.#fail(this.#whoIsMissing(name)), this.#options.timeout);
      this.#gates.set(name, gate);
    }
    gate.arrived.set(waiting.client.rank, waiting);
    if (gate.arrived.size < this.#options.size) return;
    gate.open = true;
    clearTimeout(gate.timer);
    for (const arrived of gate.arrived.values()) this.#answer(arrived, {});
  }

  #whoIsMissing(name: string): string {
    const missing = Array.from({ length: this.#options.size }, (_, rank) => rank).filter(
      (rank) => this.#gates.get(name)?.arrived.has(rank) !== true,
    );
    const hint = missing.some((rank) => this.#clients.has(rank))
      ? ''
      : '; did they start, and can they reach the store?';
    return `${ranksText(missing)} of ${this.#options.size} did not join within ${this.#options.timeout} ms${hint}`;
  }

  #left(client: Client): void {
    if (this.#done.has(client.rank)) return;
    this.#clients.delete(client.rank);
    this.#fail(`rank ${client.rank} ended before the job had started`);
  }

  /** The job cannot start: everybody who waits, or still comes, is told. */
  #fail(why: string): void {
    if (this.#failure !== undefined) return;
    this.#failure = why;
    for (const { waiting, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      for (const waiter of waiting) this.#answer(waiter, { error: why });
    }
    this.#waiting.clear();
    for (const gate of this.#gates.values()) {
      clearTimeout(gate.timer);
      if (gate.open) continue;
      for (const waiter of gate.arrived.values()) this.#answer(waiter, { error: why });
    }
    this.#finish();
  }
}
