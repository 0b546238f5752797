/** A rank's side of the store (server.ts). */
import type { Socket } from 'node:net';
import { net } from '../../builtins.js';
import { BootstrapError } from '../../errors.js';
import { NEVER, type Stop } from '../stop.js';
import { Lines, LONGEST_LINE } from './lines.js';
import { keyOf, newNonce, proofOf, proves } from './proof.js';

export interface StoreClientOptions {
  host: string;
  port: number;
  secret: string;
  rank: number;
  size: number;
  /** NBC_JOB (default: empty). */
  job?: string | undefined;
  /** Milliseconds, for everything together. */
  timeout: number;
  /** What to add to the error if what answers is no store of this job. */
  hint?: string | undefined;
  /** Asked from time to time until this rank has joined: why it cannot, if it turns out so. All others are told. */
  objection?: (() => string | undefined) | undefined;
  /** Ends everything before its time. */
  stop?: Stop | undefined;
}

/** Between two attempts to reach a store that is not there yet, in milliseconds. */
export const AGAIN_MS = 50;
/** Between two questions for an objection, in milliseconds. */
const ASK_MS = 100;
/** The store itself says which ranks are missing when the time is up. Only if it does not, the client ends it. */
const GRACE_MS = 1000;
/** The store may have given the place away of a client that took as long as this to say who it is. */
const SLOW_MS = 1000;
const NO_STORE = new Error('is no store of this version of node-nbc');

interface Pending {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

/** Milliseconds until then, for a timer. */
export function timeLeft(end: number): number {
  return Math.max(end - performance.now(), 1);
}

/** Where a name has several addresses, the error of all of them has no message of its own. */
function textOf(error: Error): string {
  if (!(error instanceof AggregateError)) return error.message;
  return (error.errors as Error[]).map(({ message }) => message).join(', ');
}

export class StoreClient {
  readonly #options: StoreClientOptions;
  readonly #where: string;
  readonly #pending = new Map<number, Pending>();
  readonly #deadline: number;
  readonly #limit: NodeJS.Timeout;
  readonly #asking: NodeJS.Timeout | undefined;
  readonly #stopping: Stop;
  #forgetStop = (): void => undefined;
  #lines: Lines | undefined;
  #next = 1;
  #key = '';
  /** The store has let this rank in. */
  #known = false;
  #ended: Error | undefined;

  /** @throws {BootstrapError} saying why the store could not be joined */
  static async open(options: StoreClientOptions): Promise<StoreClient> {
    const client = new StoreClient(options);
    try {
      let cutOff: string | undefined;
      while ((cutOff = await client.#handshake(await client.#connect(cutOff), cutOff)) !== undefined) {
        if (timeLeft(client.#deadline) <= AGAIN_MS) throw client.#error(cutOff);
        await client.#stopping.pause(AGAIN_MS);
      }
      return client;
    } catch (error) {
      client.#stop();
      throw error;
    }
  }

  private constructor(options: StoreClientOptions) {
    this.#options = options;
    this.#deadline = performance.now() + options.timeout;
    this.#where = `the store at ${options.host}:${options.port}`;
    this.#limit = setTimeout(() => {
      this.#end(this.#error(`${this.#where} did not answer within ${options.timeout} ms`));
    }, options.timeout + GRACE_MS);
    this.#stopping = options.stop ?? NEVER;
    this.#forgetStop = this.#stopping.when(({ message }) => this.#end(this.#error(message)));
    if (options.objection !== undefined) this.#asking = setInterval(() => this.#object(), ASK_MS);
  }

  #stop(): void {
    clearTimeout(this.#limit);
    clearInterval(this.#asking);
    this.#forgetStop();
  }

  /** Ends this rank's part where there is an objection. The store tells it to the others. */
  #object(): void {
    const why = this.#options.objection?.();
    if (why === undefined || !this.#known) return;
    this.#lines?.send({ id: 0, op: 'fail', why });
    this.#lines?.end();
    this.#end(this.#error(why), false);
  }

  /** What data connections of this job prove that they know; new for each store. */
  get key(): string {
    return this.#key;
  }

  /** The address of this machine from which the store is reached. */
  get localAddress(): string {
    return this.#lines?.socket.localAddress ?? '';
  }

  /** What all ranks tell as `name`, by rank. Waits until all have. A rank tells each name once. */
  async exchange(name: string, value: unknown): Promise<unknown[]> {
    // The store's own limit may be longer.
    const limits = { left: timeLeft(this.#deadline), timeout: this.#options.timeout };
    const values = await this.#ask({ op: 'exchange', name, value, ...limits });
    if (Array.isArray(values) && values.length === this.#options.size) return values as unknown[];
    throw this.#error(`what answers at ${this.#where} ${NO_STORE.message}`);
  }

  /** This rank needs the store no more. */
  async done(): Promise<void> {
    await this.#ask({ op: 'done' });
    this.#stop();
  }

  /** Leaves, whatever is pending. */
  close(): void {
    this.#end(this.#error('the store was left'));
  }

  #error(message: string): BootstrapError {
    return new BootstrapError(message, this.#options.rank);
  }

  /** Tries until the time is up: rank 0 may start later than others. */
  async #connect(cutOff: string | undefined): Promise<Socket> {
    const { host, port, timeout, rank } = this.#options;
    const gone =
      cutOff === undefined
        ? 'is rank 0 running, and is NBC_STORE its address?'
        : `it was there before, and has gone: the job has started or failed without this process; is there another rank ${rank}?`;
    const end = this.#deadline;
    let last: NodeJS.ErrnoException | undefined;
    for (;;) {
      const socket = net().createConnection({ host, port });
      const failure = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
        let forget = (): void => undefined;
        const ended = (error?: Error): void => {
          clearTimeout(limit);
          forget();
          resolve(error);
        };
        const limit = setTimeout(() => ended(last ?? new Error('no answer')), timeLeft(end));
        socket.once('connect', () => ended());
        socket.once('error', ended);
        forget = this.#stopping.when(ended);
      });
      if (failure === undefined) return socket;
      last = failure;
      socket.destroy();
      if (failure.code === 'ENOTFOUND' || failure.code === 'EAI_AGAIN') {
        // A name may appear late, too (pods get theirs when they are ready).
        if (timeLeft(end) <= AGAIN_MS) throw this.#error(`no address is known for '${host}' (NBC_STORE)`);
      } else if (timeLeft(end) <= AGAIN_MS) {
        throw this.#error(`${this.#where} could not be reached within ${timeout} ms: ${textOf(failure)}; ${gone}`);
      }
      await this.#stopping.pause(AGAIN_MS);
    }
  }

  /**
   * @param cutOff why the store closed the connection before this one
   * @returns why the store closed the connection before it had looked at it; undefined: this rank has joined
   */
  #handshake(socket: Socket, cutOff: string | undefined): Promise<string | undefined> {
    const { rank, size, job = '', secret, timeout, hint = '' } = this.#options;
    const clientNonce = newNonce();
    const begun = performance.now();
    let serverNonce: string | undefined;
    let known = false;
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) {
        socket.destroy();
        reject(this.#ended);
        return;
      }
      const silent = new Error(`has said nothing within ${timeout} ms; is it a store of node-nbc?`);
      const limit = setTimeout(() => socket.destroy(silent), timeLeft(this.#deadline));
      const refuse = (message: string): void => {
        reject(this.#error(message));
        socket.destroy();
      };
      const onLine = (value: Record<string, unknown>): void => {
        if (known) {
          this.#receive(value);
        } else if (serverNonce === undefined) {
          if (value.store !== 3 || typeof value.nonce !== 'string') throw NO_STORE;
          serverNonce = value.nonce;
          const proof = proofOf('client', secret, { serverNonce, clientNonce, rank, size, job });
          lines.send({ rank, size, job, nonce: clientNonce, proof });
        } else if (
          typeof value.job !== 'string' ||
          !proves('server', secret, { serverNonce, clientNonce, rank, size, job }, value.proof, value.job)
        ) {
          refuse(`${this.#where} does not know the secret of this job${hint}`);
        } else if (typeof value.error === 'string') {
          refuse(value.error);
        } else {
          known = this.#known = true;
          this.#key = keyOf(secret, value.job);
          lines.trust(size * LONGEST_LINE);
          clearTimeout(limit);
          resolve(undefined);
        }
      };
      const onEnd = (error?: Error): void => {
        clearTimeout(limit);
        const ended = `${this.#where} ended the connection${error === undefined ? '' : `: ${error.message}`}`;
        if (known) {
          this.#end(this.#error(ended));
        } else if (serverNonce === undefined) {
          if (error === undefined || (error as NodeJS.ErrnoException).code === 'ECONNRESET') {
            resolve(ended + hint);
            return;
          }
          const what = error === silent ? error.message : NO_STORE.message;
          // Silent for what was left of the time only: what was seen before tells more.
          const before = error === silent ? cutOff : undefined;
          reject(this.#error(before ?? `what answers at ${this.#where} ${what}${hint}`));
        } else {
          const why = `${this.#where} refused this rank: is NBC_SECRET the same on all ranks?${hint}`;
          // The store may have given the place of this connection away.
          if (performance.now() - begun >= SLOW_MS) resolve(why);
          else reject(this.#error(why));
        }
      };
      const lines = (this.#lines = new Lines(socket, LONGEST_LINE, onLine, onEnd));
    });
  }

  #ask(request: Record<string, unknown>): Promise<unknown> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#lines?.send({ id, ...request });
    });
  }

  #receive(answer: Record<string, unknown>): void {
    const pending = this.#pending.get(Number(answer.id));
    if (pending === undefined) return;
    this.#pending.delete(Number(answer.id));
    if (typeof answer.error === 'string') pending.reject(this.#error(answer.error));
    else pending.resolve(answer.values);
  }

  /** @param cut the connection goes at once; otherwise when what was written has been sent */
  #end(error: Error, cut = true): void {
    if (cut && this.#ended === undefined) this.#lines?.socket.destroy();
    this.#ended ??= error;
    this.#stop();
    for (const { reject } of this.#pending.values()) reject(this.#ended);
    this.#pending.clear();
  }
}
