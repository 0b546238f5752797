/**
 * The directory that MPICH's process manager (Hydra), Slurm's srun with --mpi=pmi2 and others offer to what they start:
 * PMI-1, lines of text on an inherited descriptor (PMI_FD). A request is a line "cmd=… key=value …", and so is its
 * answer; values have no blanks.
 */
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { BootstrapError } from '../../errors.js';
import { NEVER, type Stop } from '../stop.js';
import type { Directory } from './directory.js';

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
    return new Socket({ fd, readable: true, writable: true });
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
  readonly #socket: Socket;
  readonly #forgetStop: () => void;
  readonly #answers: ((fields: Fields) => void)[] = [];
  #fail: ((error: Error) => void) | undefined;
  #ended: Error | undefined;
  #rest = '';

  constructor(place: PmiPlace, stop: Stop) {
    this.#rank = place.rank;
    this.#socket = socketOf(place);
    this.#socket.setEncoding('utf8');
    this.#socket.on('data', (text: string) => this.#receive(text));
    this.#socket.on('error', (error) => this.#end(error.message));
    this.#socket.on('close', () => this.#end('it has ended'));
    this.#forgetStop = stop.when(({ message }) => this.#end(message));
  }

  #end(why: string): void {
    this.#ended ??= this.#error(why);
    this.#fail?.(this.#ended);
  }

  #error(what: string): BootstrapError {
    return new BootstrapError(`the process manager (PMI_FD): ${what}`, this.#rank);
  }

  async ask(fields: Fields, expected: string, timeout: number): Promise<Fields> {
    if (this.#ended !== undefined) throw this.#ended;
    const line = Object.entries(fields).map(([key, value = '']) => `${key}=${value}`);
    const answer: Fields = await new Promise<Fields>((resolve, reject) => {
      const limit = setTimeout(
        () =>
          reject(this.#error(`no answer to ${fields.cmd} within ${timeout} ms; did all ranks start, and call init()?`)),
        timeout,
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
      throw this.#error(`${fields.cmd} failed: ${answer.msg ?? answer.cmd}`);
    }
    return answer;
  }

  /** What a rank has told. */
  parse(value: string): unknown {
    try {
      return JSON.parse(Buffer.from(value, 'base64url').toString());
    } catch {
      throw this.#error(`a rank told '${value}', which no rank of this version of node-nbc does`);
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
  const client = new PmiClient(place, stop);
  try {
    await client.ask({ cmd: 'init', pmi_version: '1', pmi_subversion: '1' }, 'response_to_init', timeout);
    const { kvsname } = await client.ask({ cmd: 'get_my_kvsname' }, 'my_kvsname', timeout);
    const result = await meet({
      rank: place.rank,
      size: place.size,
      key: undefined,
      localAddress: undefined,
      async exchange(name, mine) {
        const value = Buffer.from(JSON.stringify(mine)).toString('base64url');
        await client.ask({ cmd: 'put', kvsname, key: `nbc-${name}-${place.rank}`, value }, 'put_result', timeout);
        await client.ask({ cmd: 'barrier_in' }, 'barrier_out', timeout);
        const all: unknown[] = [];
        for (let rank = 0; rank < place.size; rank++) {
          const got = await client.ask({ cmd: 'get', kvsname, key: `nbc-${name}-${rank}` }, 'get_result', timeout);
          all.push(client.parse(got.value ?? ''));
        }
        return all;
      },
    });
    await client.ask({ cmd: 'finalize' }, 'finalize_ack', timeout);
    return result;
  } finally {
    client.close();
  }
}
