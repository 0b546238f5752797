/**
 * The directory that MPICH's process manager (Hydra), Slurm's srun with --mpi=pmi2 and others offer to what they start:
 * PMI-1, lines of text on an inherited descriptor (PMI_FD). A request is a line "cmd=… key=value …", and so is its
 * answer; values have no blanks.
 */
import { fstatSync } from 'node:fs';
import type { Socket } from 'node:net';
import { net } from '../../builtins.js';
import { BootstrapError } from '../../errors.js';
import { NEVER, type Stop } from '../stop.js';
import type { Directory } from './directory.js';
import { shown } from './told.js';

/** Of characters: process managers have values of less than a kilobyte. */
const LONGEST_LINE = 1 << 20;

type Fields = Partial<Record<string, string>>;

export interface PmiPlace {
  rank: number;
  size: number;
  fd: number;
}

/**
 * A descriptor that is closed may be one of Node's own by now, so it is looked at before it is used.
 * @throws {BootstrapError}
 */
function socketOf({ rank, fd }: PmiPlace): Socket {
  try {
    if (!fstatSync(fd).isSocket()) throw new Error('it is no socket');
    return new (net().Socket)({ fd, readable: true, writable: true });
  } catch (error) {
    throw new BootstrapError(
      `descriptor ${fd} (PMI_FD) does not lead to a process manager: ${(error as Error).message}. If a rank started this process, ` +
        'start it with NBC_RANK=0 and NBC_SIZE=1 in its environment: it is a job of its own then',
      rank,
    );
  }
}

class PmiClient {
  readonly #rank: number;
  readonly #timeout: number;
  readonly #end: number;
  readonly #socket: Socket;
  readonly #forgetStop: () => void;
  readonly #answers: ((fields: Fields) => void)[] = [];
  #fail: ((error: Error) => void) | undefined;
  #ended: Error | undefined;
  #rest = '';

  /** @param timeout milliseconds, for all answers together */
  constructor(rank: number, socket: Socket, stop: Stop, timeout: number) {
    this.#rank = rank;
    this.#timeout = timeout;
    this.#end = performance.now() + timeout;
    this.#socket = socket;
    this.#socket.setEncoding('utf8');
    this.#socket.on('data', (text: string) => this.#receive(text));
    this.#socket.on('error', (error) => this.#stop(error.message));
    this.#socket.on('close', () => this.#stop('it has ended'));
    this.#forgetStop = stop.when(({ message }) => this.#stop(message));
  }

  #stop(why: string): void {
    this.#ended ??= this.#error(why);
    this.#fail?.(this.#ended);
  }

  #error(what: string): BootstrapError {
    return new BootstrapError(`the process manager (PMI_FD): ${what}`, this.#rank);
  }

  async ask(fields: Fields, expected: string): Promise<Fields> {
    if (this.#ended !== undefined) throw this.#ended;
    const line = Object.entries(fields).map(([key, value = '']) => `${key}=${value}`);
    const answer: Fields = await new Promise<Fields>((resolve, reject) => {
      const limit = setTimeout(
        () =>
          reject(
            this.#error(`no answer to ${fields.cmd} within ${this.#timeout} ms; did all ranks start, and call init()?`),
          ),
        this.#end - performance.now(),
      );
      this.#fail = (error) => {
        clearTimeout(limit);
        reject(error);
      };
      this.#answers.push((got) => {
        clearTimeout(limit);
        resolve(got);
      });
      this.#socket.write(`${line.join(' ')}\n`);
    });
    if (answer.cmd !== expected || (answer.rc !== undefined && answer.rc !== '0')) {
      throw this.#error(`${fields.cmd} failed: ${shown(answer.msg ?? answer.cmd ?? 'the answer has no cmd')}`);
    }
    return answer;
  }

  /** What a rank has told. */
  parse(value: string): unknown {
    try {
      return JSON.parse(Buffer.from(value, 'base64url').toString());
    } catch {
      throw this.#error(`a rank told '${shown(value)}', which no rank of this version of node-nbc does`);
    }
  }

  close(): void {
    this.#fail = undefined;
    this.#forgetStop();
    this.#socket.destroy();
  }

  #receive(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > LONGEST_LINE) {
      this.#socket.destroy();
      this.#stop('it sends a line that does not end');
    }
    for (const line of lines) {
      const pairs = line
        .split(' ')
        .map((part) => [part.slice(0, part.indexOf('=')), part.slice(part.indexOf('=') + 1)]);
      this.#answers.shift()?.(Object.fromEntries(pairs) as Fields);
    }
  }
}

/** @throws {BootstrapError} */
export async function throughPmi<T>(
  place: PmiPlace,
  timeout: number,
  meet: (directory: Directory) => Promise<T>,
  stop: Stop = NEVER,
): Promise<T> {
  return throughPmiOf(socketOf(place), place, timeout, meet, stop);
}

/** With a process manager at the other end of this socket, which is closed then. @throws {BootstrapError} */
export async function throughPmiOf<T>(
  socket: Socket,
  { rank, size }: Omit<PmiPlace, 'fd'>,
  timeout: number,
  meet: (directory: Directory) => Promise<T>,
  stop: Stop,
): Promise<T> {
  const client = new PmiClient(rank, socket, stop, timeout);
  const ask = client.ask.bind(client);
  try {
    await ask({ cmd: 'init', pmi_version: '1', pmi_subversion: '1' }, 'response_to_init');
    const { kvsname } = await ask({ cmd: 'get_my_kvsname' }, 'my_kvsname');
    const result = await meet({
      rank,
      size,
      key: undefined,
      localAddress: undefined,
      async exchange(name, mine) {
        const value = Buffer.from(JSON.stringify(mine)).toString('base64url');
        await ask({ cmd: 'put', kvsname, key: `nbc-${name}-${rank}`, value }, 'put_result');
        await ask({ cmd: 'barrier_in' }, 'barrier_out');
        const all: unknown[] = [];
        for (let other = 0; other < size; other++) {
          const got = await ask({ cmd: 'get', kvsname, key: `nbc-${name}-${other}` }, 'get_result');
          all.push(client.parse(got.value ?? ''));
        }
        return all;
      },
    });
    await ask({ cmd: 'finalize' }, 'finalize_ack');
    return result;
  } finally {
    client.close();
  }
}
