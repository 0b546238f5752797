/**
 * A socket that carries one JSON value per line. The connection ends where a line is too long, or no JSON.
 */
import type { Socket } from 'node:net';

/** What a rank tells of itself takes less than a kilobyte; a table of thousands of ranks is sent as one line each. */
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

  /** The other side has proven itself: it may say more at a time. */
  trust(): void {
    this.#longest = LONGEST_LINE;
  }

  send(value: Record<string, unknown>): void {
    this.socket.write(`${JSON.stringify(value)}\n`);
  }

  /** The rest that was written is still sent. */
  end(): void {
    this.socket.end();
  }

  *#split(text: string): Generator<Record<string, unknown>> {
    this.#rest += text;
    for (;;) {
      const at = this.#rest.indexOf('\n');
      if (at > this.#longest || (at < 0 && this.#rest.length > this.#longest)) throw new Error('a line is too long');
      if (at < 0) return;
      const line = this.#rest.slice(0, at);
      this.#rest = this.#rest.slice(at + 1);
      const value: unknown = JSON.parse(line);
      if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('a line is no object');
      yield value as Record<string, unknown>;
    }
  }
}
