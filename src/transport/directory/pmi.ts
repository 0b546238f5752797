/**
 * The directory that MPICH's process manager (Hydra) and others offer to what they start: PMI-1, lines of text on an inherited descriptor (PMI_FD).
 * A request is a line "cmd=… key=value …", and so is its answer; values have no blanks.
 */
import { Socket } from 'node:net';
import { BootstrapError, OptionError } from '../../errors.js';
import type { Directory } from './directory.js';

type Fields = Partial<Record<string, string>>;

export interface PmiPlace {
  rank: number;
  size: number;
  fd: number;
}

/** From the variables that the process manager sets; undefined: it is not there. @throws {OptionError} */
export function findPmi(environment: Record<string, string | undefined>): PmiPlace | undefined {
  const texts = ['PMI_RANK', 'PMI_SIZE', 'PMI_FD'].map((name) => environment[name] ?? '');
  if (!texts.every((text) => /^\d{1,9}$/.test(text))) return undefined;
  const [rank, size, fd] = texts.map(Number);
  if (rank >= size) throw new OptionError('PMI_RANK', `is ${rank}, but the job has ${size} ranks (PMI_SIZE)`);
  return { rank, size, fd };
}

class PmiClient {
  readonly #rank: number;
  readonly #socket: Socket;
  readonly #answers: ((fields: Fields) => void)[] = [];
  #fail: ((error: Error) => void) | undefined;
  #rest = '';

  constructor({ rank, fd }: PmiPlace) {
    this.#rank = rank;
    try {
      this.#socket = new Socket({ fd, readable: true, writable: true });
    } catch (error) {
      // Node.js refuses what is closed, or is no socket.
      throw this.#error(`descriptor ${fd} is not one of its own: ${(error as Error).message}`);
    }
    this.#socket.setEncoding('utf8');
    this.#socket.on('data', (text: string) => this.#receive(text));
    this.#socket.on('error', (error) => this.#fail?.(this.#error(error.message)));
    this.#socket.on('close', () => this.#fail?.(this.#error('it has ended')));
  }

  #error(what: string): BootstrapError {
    return new BootstrapError(`the process manager (PMI_FD): ${what}`, this.#rank);
  }

  async ask(fields: Fields, expected: string, timeout: number): Promise<Fields> {
    const line = Object.entries(fields).map(([key, value = '']) => `${key}=${value}`);
    const answer: Fields = await new Promise<Fields>((resolve, reject) => {
      const limit = setTimeout(
        () => reject(this.#error(`no answer to ${fields.cmd} within ${timeout} ms; did all ranks start?`)),
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

  close(): void {
    this.#fail = undefined;
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
): Promise<T> {
  const client = new PmiClient(place);
  try {
    await client.ask({ cmd: 'init', pmi_version: '1', pmi_subversion: '1' }, 'response_to_init', timeout);
    const { kvsname } = await client.ask({ cmd: 'get_my_kvsname' }, 'my_kvsname', timeout);
    const result = await meet({
      rank: place.rank,
      size: place.size,
      secret: undefined,
      localAddress: undefined,
      async exchange(name, mine) {
        const value = Buffer.from(JSON.stringify(mine)).toString('base64url');
        await client.ask({ cmd: 'put', kvsname, key: `nbc-${name}-${place.rank}`, value }, 'put_result', timeout);
        await client.ask({ cmd: 'barrier_in' }, 'barrier_out', timeout);
        const all: unknown[] = [];
        for (let rank = 0; rank < place.size; rank++) {
          const got = await client.ask({ cmd: 'get', kvsname, key: `nbc-${name}-${rank}` }, 'get_result', timeout);
          all.push(JSON.parse(Buffer.from(got.value ?? '', 'base64url').toString()));
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
