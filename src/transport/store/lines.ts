/**
 * A socket that carries one JSON value per line. The connection ends where a line is too long, or no JSON.
 */
import type { Socket } from 'node:net';

/** Bytes of what a rank says at a time. What it tells of itself takes less than a kilobyte. */
export const LONGEST_LINE = 64 * 1024;

export class Lines {
  readonly socket: Socket;
  #rest = '';
  #longest: number;

  /**
   * @param longest bytes of a line at most, until trust()
   * @param onLine sees each value; what it throws ends the connection
   * @param onEnd is called once, with the reason if there is one
   */
  constructor(
    socket: Socket,
    longest: number,
    onLine: (value: Record<string, unknown>) => void,
    onEnd: (error?: Error) => void,
  ) {
    this.socket = socket;
    this.#longest = longest;
    let failure: Error | undefined;
    socket.setEncoding('utf8');
    socket.setNoDelay(true);
    socket.on('data', (text: string) => {
      try {
        for (const value of this.#split(text)) {
          // After onLine has ended the connection, lines that came with the last one do not count.
          if (socket.destroyed || socket.writableEnded) return;
          onLine(value);
        }
      } catch (error) {
        failure = error as Error;
        socket.destroy();
      }
    });
    socket.on('error', (error) => (failure ??= error));
    socket.on('close', () => onEnd(failure));
  }

  /** The other side has proven itself: it may say more at a time, of as many bytes as this. */
  trust(longest: number): void {
    this.#longest = longest;
  }

  send(value: Record<string, unknown>): void {
    this.socket.write(`${JSON.stringify(value)}\n`);
  }

  /** Sends `{ id, values }`. The values are JSON already, and not copied, so that many connections may send them. */
  sendValues(id: unknown, values: Buffer): void {
    this.socket.cork();
    this.socket.write(`{"id":${JSON.stringify(Number(id))},"values":`);
    this.socket.write(values);
    this.socket.write('}\n');
    this.socket.uncork();
  }

  /** The rest that was written is still sent. */
  end(): void {
    this.socket.end();
  }

  *#split(text: string): Generator<Record<string, unknown>> {
    const parts = text.split('\n');
    for (const [index, part] of parts.entries()) {
      this.#rest += part;
      if (this.#rest.length > this.#longest) throw new Error('a line is too long');
      if (index === parts.length - 1) return;
      const value: unknown = JSON.parse(this.#rest);
      this.#rest = '';
      if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('a line is no object');
      yield value as Record<string, unknown>;
    }
  }
}
